"""What was sampled of a program tells whether it is done with its imports, and whether it profiles itself."""

from __future__ import annotations

import os

from gputop.model import ProcessInfo, Window
from gputop.store import Segment, Store, ThreadKey

#: Seconds without an import after which a program is taken to be at its work. Stacks come a second late, so that the
#: window looked at is twice as long.
SETTLED_S = 1.5
#: Seconds for which a program that was seen in torch.profiler is taken to be using it.
PROFILED_S = 60.0
#: Not torch/autograd/profiler.py: every optimizer's step goes through that.
_PROFILER = "/torch/profiler/profiler.py"
#: Python's import machinery, in every stack while a module is being imported.
_IMPORT = "<frozen importlib"
#: Programs that start the ranks of a job and do nothing with torch themselves, though some of them import it.
LAUNCHERS = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed"})


def is_launcher(process: ProcessInfo) -> bool:
    """Tell whether a process only starts others that work with torch."""
    words = process.cmdline[:4]  # the interpreter, its flags, then the launcher
    return any(os.path.basename(word) in LAUNCHERS for word in words)


def imports_are_over(store: Store, pid: int, now: float) -> bool:
    """Tell whether the main thread was seen at other things than imports for a while.

    A program that is not Python will not import anything, which is clear once it was looked at for so long.
    """
    main, window = ThreadKey(pid, pid), Window(now - 2 * SETTLED_S, now)
    if any(process.python for process in store.processes(now) if process.pid == pid):
        seen = list(store.segments(main, window))
        return not any(map(_imports, seen)) and sum(one.end - one.start for one in seen) >= SETTLED_S
    return sum(peek.seconds for peek in store.peeks(main, window)) >= SETTLED_S


def profiles_itself(store: Store, pid: int, now: float) -> bool:
    """Tell whether the main thread was seen in torch.profiler's own code of late: its `step` is called in every turn of
    a training loop, also between two of its recordings."""
    seen = store.segments(ThreadKey(pid, pid), Window(now - PROFILED_S, now))
    return any(frame.file.endswith(_PROFILER) for segment in seen for frame in segment.stack)


def _imports(segment: Segment) -> bool:
    return any(frame.file.startswith(_IMPORT) for frame in segment.stack)
