"""The collector as the engine sees it: starts and stops the loop, and passes wishes on to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from gputop.collectors.base import Emit
from gputop.collectors.stacks.command import find_binary
from gputop.collectors.stacks.loop import Loop
from gputop.collectors.stacks.notes import Notes
from gputop.model import ProcessInfo

#: `stop` waits this long for the last batches before it kills what is left, seconds.
_STOP = 0.28


class StackCollector:
    """Python stacks of the followed processes.

    Args:
        emit: takes the batches and notes.
        clock: monotonic seconds.
        rate_hz: reads each second of each process, unless that costs too much.
        share: of one core, what all py-spys together may use.
        find: returns the py-spy to run, or None.
    """

    name = "stacks"

    def __init__(
        self,
        emit: Emit,
        clock: Callable[[], float] = time.monotonic,
        *,
        rate_hz: float = 100.0,
        share: float = 0.10,
        find: Callable[[], Path | None] = find_binary,
    ) -> None:
        self._find = find
        self._notes = Notes(emit, clock)
        self._loop = Loop(emit, self._notes, clock, rate_hz, share)
        self._thread = threading.Thread(target=self._run, name="gputop-stacks", daemon=True)

    def start(self) -> None:
        """Begin to look at the followed processes; returns at once."""
        self._thread.start()

    def follow(self, processes: tuple[ProcessInfo, ...]) -> None:
        """Look at those of the processes that run Python, the first one before all others."""
        self._loop.wanted = tuple(process for process in processes if process.python is not None)

    def set_rate(self, hz: float) -> None:
        """Read so often each second from the next window on; less where a read is too dear."""
        self._loop.rate_hz = max(hz, 1.0)

    def own_pids(self) -> tuple[int, ...]:
        """Return the py-spys that run now."""
        return self._loop.running.pids()

    def cpu_s(self) -> float:
        """Return the CPU seconds used by all py-spys so far, ended and running."""
        return self._loop.running.cpu_s()

    def stop(self) -> None:
        """End all py-spys; what they have seen until now is still emitted before this returns."""
        self._loop.stopping = True
        if self._thread.ident is not None:
            self._thread.join(_STOP)
        self._loop.running.kill("gputop ends")

    def _run(self) -> None:
        try:
            binary = self._find()
            if binary is None:
                self._notes.tell("missing", "py-spy is not installed: no Python functions", "pip install py-spy")
            else:
                self._loop.run(binary)
        except Exception as error:  # whatever it is, the rest of gputop goes on without us
            self._notes.tell("internal", f"no more Python stacks: {error!r}", "please report this as a bug of gputop")
