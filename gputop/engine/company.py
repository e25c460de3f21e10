"""Other gputops that watch the same process.

Each holds a name in the kernel's abstract socket namespace (unix(7)): no file that could be left behind or belong to
another user, and free again the moment its holder ends. Who may not have sockets is alone for all that it knows.
"""

from __future__ import annotations

import socket
from contextlib import suppress

from gputop.model import Note, ProcessInfo

#: Names tried; more gputops than this over one process count as this many.
_PLACES = 8


class Company:
    """Our place among the gputops that watch a process.

    Args:
        process: the process.
    """

    def __init__(self, process: ProcessInfo) -> None:
        self._name = f"\0gputop-watches-{process.pid}-{process.started_unix:.2f}"
        self._place = -1
        self._held: socket.socket | None = None
        self._told = 0

    def join(self) -> None:
        """Take a place."""
        with suppress(OSError):
            self._held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._place = self._take(self._held)

    def others(self) -> int:
        """Return how many others there are now."""
        if self._held is None:
            return 0
        return sum(self._taken(place) for place in range(_PLACES) if place != self._place)

    def note(self, now: float, others: int) -> Note | None:
        """Return a note when others have come or gone since the call before."""
        if others == self._told:
            return None
        self._told = others
        who = "another gputop watches" if others == 1 else f"{others} other gputops watch"
        what = f"{who} this program too; each keeps to its part of --budget and looks less often" if others else ""
        return Note(now, "target", "company", what, "end the others" if others else "")

    def close(self) -> None:
        """Give the place up; may be called twice."""
        self._place = -1
        if self._held is not None:
            self._held.close()
            self._held = None

    def _take(self, held: socket.socket) -> int:
        for place in range(_PLACES):
            with suppress(OSError):
                held.bind(f"{self._name}-{place}")
                return place
        return -1

    def _taken(self, place: int) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(f"{self._name}-{place}")
            except OSError:
                return False
            return True
