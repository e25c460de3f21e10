"""Our own tracers let go of the target while a debugger works on it: the kernel allows one at a time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from gputop import procfs
from gputop.collectors.base import Collector
from gputop.model import ProcessInfo

#: The collectors that trace.
_TRACERS = ("stacks", "peek")
#: A window of Python stacks ends within this time, seconds.
_PATIENCE_S = 3.0
_LOOK_EVERY_S = 0.02


class Sharing:
    """Tells the collectors what to follow, and has those that trace follow nothing for a while."""

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._collectors = collectors
        self._wanted: tuple[ProcessInfo, ...] = ()
        self._apart = False
        self._telling = threading.Lock()  # the engine follows new children while a snapshot keeps hands off

    def follow(self, processes: tuple[ProcessInfo, ...]) -> None:
        """Look at these processes from now on."""
        with self._telling:
            self._wanted = processes
            self._tell()

    @contextmanager
    def hands_off(self) -> Iterator[None]:
        """Let go of every process; look at them again afterwards."""
        self._stand(apart=True)
        try:
            _await(self._free)
            yield
        finally:
            self._stand(apart=False)

    def _stand(self, *, apart: bool) -> None:
        with self._telling:
            self._apart = apart
            self._tell()

    def _tell(self) -> None:
        for collector in self._collectors:
            collector.follow(() if self._apart and collector.name in _TRACERS else self._wanted)

    def _free(self) -> bool:
        """Tell whether none of our helpers holds a thread of the target, and none is about to."""
        reading = any(collector.own_pids() for collector in self._collectors if collector.name == "stacks")
        return not reading and not any(map(_traced, _threads(self._wanted)))


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)


def _threads(processes: Iterable[ProcessInfo]) -> Iterator[str]:
    for process in processes:
        with suppress(OSError):
            yield from (f"/proc/{process.pid}/task/{tid}" for tid in os.listdir(f"/proc/{process.pid}/task"))


def _traced(task: str) -> bool:
    with suppress(OSError):
        return b"\nTracerPid:\t0\n" not in procfs.read(f"{task}/status")
    return False
