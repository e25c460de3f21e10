"""Notice that a debugger holds the target. The kernel allows one tracer at a time: gputop cannot stop it for a look."""

from __future__ import annotations

import os
from contextlib import suppress

from gputop import procfs
from gputop.model import Note
from gputop.text import printable

_REMEDY = "detach it; what threads wait for and Python functions are seen all the same"


class TracerWatch:
    """Tells who else traces a process.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._told = ""

    def note(self, now: float) -> Note | None:
        """Return a note when a tracer has come or gone since the call before."""
        tracer = _tracer(self._pid)
        if tracer == self._told:
            return None
        self._told = tracer
        what = f"{tracer} traces the target: what its running threads do is not known" if tracer else ""
        return Note(now, "target", "tracer", what, _REMEDY if tracer else "")


def _tracer(pid: int) -> str:
    """Return the name and number of a process's tracer; empty when there is none, or when it is our own helper."""
    with suppress(OSError, KeyError, ValueError):
        number = int(procfs.status(pid)["TracerPid"])
        tracer = procfs.stat(number) if number else None
        if tracer is not None and tracer.ppid != os.getpid():
            return f"{printable(tracer.comm)} (pid {number})"
    return ""
