"""A thread that reads the machine and the target's processes at a low rate; needs no right to look into them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from gputop.collectors.base import Emit
from gputop.collectors.host.machine import Cores, Memory
from gputop.collectors.host.threads import ProcessReader, has_schedstat
from gputop.model import NA, HostBatch, Note, ProcessInfo, ProcessReading

#: Seconds between the very first reading and the second, which gives the first batch.
_FIRST_STEP_S = 0.15
#: Threads read in one tick, shared out among the processes; each gets a few.
_THREADS = 256
_THREADS_OF_EACH = 4


class HostCollector:
    """Emits a `HostBatch` at the rate asked for, the first within 0.2 s of `start`."""

    name = "host"

    def __init__(self, emit: Emit, clock: Callable[[], float] = time.monotonic, rate_hz: float = 2.0) -> None:
        self._emit = emit
        self._clock = clock
        self._rate_hz = rate_hz
        self._processes: tuple[ProcessInfo, ...] = ()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gputop-host", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def follow(self, processes: tuple[ProcessInfo, ...]) -> None:
        self._processes = processes

    def set_rate(self, hz: float) -> None:
        self._rate_hz = hz

    def own_pids(self) -> tuple[int, ...]:
        return ()

    def cpu_s(self) -> float:
        return 0.0

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(0.3)

    def _run(self) -> None:
        host, trouble = _Host(), ""
        wait_s = _FIRST_STEP_S
        while True:
            trouble = self._tick(host, trouble)
            if self._stopping.wait(wait_s):
                return
            wait_s = 1 / self._rate_hz

    def _tick(self, host: _Host, trouble: str) -> str:
        """Read and emit; returns what went wrong, reported once for as long as it stays the same."""
        now, what = self._clock(), ""
        try:
            batch = host.read(now, self._processes)
            if batch:
                self._emit(batch)
        except Exception as error:  # whatever a kernel or container shows in /proc, the thread goes on
            what = f"the machine's load cannot be read: {error}"
        if what != trouble:
            self._emit(Note(now, self.name, "load", what))
        return what


class _Host:
    """The counters of the reading before, so that the next one gives shares."""

    def __init__(self) -> None:
        self._cores = Cores()
        self._memory = Memory()
        self._schedstat = has_schedstat()
        self._readers: dict[tuple[int, float], ProcessReader] = {}
        self._time: float | None = None

    def read(self, now: float, processes: tuple[ProcessInfo, ...]) -> HostBatch | None:
        """Return what happened since the reading before, None the first time."""
        before, self._time = self._time, now
        readings = self._read_processes(now, processes)
        cores = self._cores.read()
        if before is None or now <= before:
            return None
        used, total = self._memory.read(processes[0].pid if processes else os.getpid())
        own = _by_core(readings, cores)
        return HostBatch(now, now - before, cores, own, used, total, os.getloadavg(), readings)

    def _read_processes(self, now: float, processes: tuple[ProcessInfo, ...]) -> tuple[ProcessReading, ...]:
        known = self._readers
        self._readers = {
            (info.pid, info.started_unix): known.get((info.pid, info.started_unix))
            or ProcessReader(info, self._schedstat)
            for info in processes
        }
        limit = max(_THREADS // max(len(processes), 1), _THREADS_OF_EACH)
        readings = (reader.read(now, limit) for reader in self._readers.values())
        return tuple(reading for reading in readings if reading)


def _by_core(processes: tuple[ProcessReading, ...], cores: tuple[float, ...]) -> tuple[float, ...]:
    """Add up the threads' CPU by the core each ran on last.

    A thread that moved counts wholly on its last core, so a sum is kept at what the core did in all.
    """
    own = [0.0] * len(cores)
    for process in processes:
        for thread in process.threads:
            if not isinstance(thread.cpu, NA) and thread.core < len(own):
                own[thread.core] += thread.cpu
    return tuple(map(min, own, cores))
