"""A thread that reads the machine and the target's processes at a low rate; needs no right to look into them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from gputop.collectors.base import Emit
from gputop.collectors.host.limits import Limits
from gputop.collectors.host.machine import Cores, Memory
from gputop.collectors.host.threads import ProcessReader, has_schedstat
from gputop.model import NA, HostBatch, Note, ProcessInfo, ProcessReading, known

#: Seconds between the very first reading and the second, which gives the first batch.
_FIRST_STEP_S = 0.15
#: Threads read in one tick, shared out among the processes; each gets a few.
_THREADS = 256
_THREADS_OF_EACH = 4
_NOT_FOLLOWED = NA("children are not followed (--no-tree)")


class HostCollector:
    """Emits a `HostBatch` at the rate asked for, the first within 0.2 s of `start`.

    Args:
        emit: takes the batches and notes.
        clock: monotonic seconds.
        rate_hz: readings each second.
        tree: children are followed, so that those too short-lived for that count as well.
    """

    name = "host"

    def __init__(
        self, emit: Emit, clock: Callable[[], float] = time.monotonic, rate_hz: float = 2.0, *, tree: bool = True
    ) -> None:
        self._tree = tree
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
        host, trouble = _Host(self._tree), ""
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

    def __init__(self, tree: bool) -> None:
        self._tree = tree
        self._cores = Cores()
        self._memory = Memory()
        self._limits = Limits()
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
        pid = processes[0].pid if processes else os.getpid()
        used, total = self._memory.read(pid)
        own, limits = _by_core(readings, cores), self._limits.read(pid)
        return HostBatch(
            now, now - before, cores, own, used, total, os.getloadavg(), self._bounded(readings, cores), limits
        )

    def _bounded(self, readings: tuple[ProcessReading, ...], cores: tuple[float, ...]) -> tuple[ProcessReading, ...]:
        """Return the readings with no more by children than the machine did besides.

        More is told of a child that was not followed though it lived long.
        """
        if not self._tree:
            return tuple(replace(reading, children=_NOT_FOLLOWED) for reading in readings)
        room = max(0.0, sum(cores) - sum(known(reading.cpu) or 0.0 for reading in readings))
        told = sum(known(reading.children) or 0.0 for reading in readings)
        part = min(room / told, 1.0) if told else 1.0
        return tuple(
            reading if isinstance(reading.children, NA) else replace(reading, children=part * reading.children)
            for reading in readings
        )

    def _read_processes(self, now: float, processes: tuple[ProcessInfo, ...]) -> tuple[ProcessReading, ...]:
        before = self._readers
        wanted = {(info.pid, info.started_unix): info for info in processes}
        readers = {key: before.get(key) or ProcessReader(info, self._schedstat) for key, info in wanted.items()}
        limit = max(_THREADS // max(len(processes), 1), _THREADS_OF_EACH)
        by_pid = {info.pid: readers[key] for key, info in wanted.items()}
        for gone in before.keys() - readers.keys():
            _credit(before[gone], by_pid)
        found: dict[tuple[int, float], ProcessReading] = {}
        for key, reader in reversed(readers.items()):  # children first, for what they told counts when a parent is read
            reading = reader.read(now, limit)
            if reading:
                found[key] = reading
            else:
                _credit(reader, by_pid)
        self._readers = {key: reader for key, reader in readers.items() if key in found}
        return tuple(found[key] for key in readers if key in found)


def _credit(ended: ProcessReader, by_pid: Mapping[int, ProcessReader]) -> None:
    """Tell the parent of an ended process, if it is watched, how much of that process's CPU time is known already."""
    parent = by_pid.get(ended.parent)
    if parent:
        parent.credit(ended.told)


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
