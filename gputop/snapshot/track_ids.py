"""Thread ids of the tracks that gputop adds to a process in a trace.

They stand beside the thread's own track in the file of torch's profiler, so they need ids of their own: far above the
kernel's largest (4 194 304), within 31 bits.
"""

from __future__ import annotations

#: Added to a thread's id: the track of its Python stacks, and that of its states.
STACKS_TID, STATES_TID = 1_000_000_000, 1_100_000_000
