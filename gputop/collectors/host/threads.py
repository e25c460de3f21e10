"""CPU time and run-queue wait of the threads of one process.

The scheduler's own counters are exact to the nanosecond (/proc/PID/task/TID/schedstat: time on a CPU, time runnable
without one) and need no right to look into the process. A thread whose counters stand still has not run, so nothing
else about it can have changed and its other files are not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from gputop import procfs
from gputop.model import NA, ProcessInfo, ProcessReading, ThreadReading, Value
from gputop.text import printable

_FIRST = NA("first look")
_NO_SCHEDSTAT = NA("this kernel counts no run-queue wait (/proc/PID/schedstat)")
#: Share of a core from which a thread is read every time.
_BUSY = 0.005


@dataclass(slots=True)
class _Thread:
    """What is known of a thread: its counters in ns at a time, and what was made of them."""

    time: float
    counters: tuple[int, int]
    reading: ThreadReading

    @property
    def busy(self) -> bool:
        cpu = self.reading.cpu
        return isinstance(cpu, NA) or cpu > _BUSY


class ProcessReader:
    """Reads one process again and again.

    Args:
        info: the process; another one with its number is not read.
        schedstat: whether the kernel keeps run-queue counters.
    """

    def __init__(self, info: ProcessInfo, schedstat: bool) -> None:
        self._info = info
        self._schedstat = schedstat
        self._threads: dict[int, _Thread] = {}
        self._cpu: tuple[float, float] | None = None
        self._children: tuple[float, float] | None = None
        self._told = self._credit = 0.0
        self._turn = 0

    @property
    def parent(self) -> int:
        """Return its parent's pid, as it was told."""
        return self._info.ppid

    @property
    def told(self) -> float:
        """Return the CPU seconds in the readings so far, its children's too."""
        return self._told

    def credit(self, seconds: float) -> None:
        """Take in that a child has ended which had told so much: the kernel will count it as this process's child's."""
        self._credit += seconds

    def read(self, now: float, limit: int) -> ProcessReading | None:
        """Return CPU and memory since the reading before, None when the process has ended.

        Args:
            now: time of the reading.
            limit: threads read at most, apart from busy ones. With more, those that were idle take turns and show
                their last reading in between.
        """
        try:
            status = procfs.stat(self._info.pid)
            if status.dead or procfs.started_unix(status) != self._info.started_unix:
                return None
            self._read_threads(now, limit)
            cpu, children = self._process_cpu(now), self._children_cpu(now, status.children_cpu_s)
        except OSError:
            return None
        readings = tuple(thread.reading for thread in self._threads.values())
        return ProcessReading(self._info.pid, cpu, float(status.rss_bytes), readings, children)

    def _process_cpu(self, now: float) -> Value:
        before, self._cpu = self._cpu, (now, procfs.process_cpu_s(self._info.pid))
        if before is None or now <= before[0]:
            return _FIRST
        used = max(self._cpu[1] - before[1], 0.0)
        self._told += used
        return used / (now - before[0])

    def _children_cpu(self, now: float, total: float) -> Value:
        """Return what ended children used beyond what they were seen to use; the kernel counts in steps of 10 ms."""
        before, self._children = self._children, (now, total)
        if before is None or now <= before[0]:
            return _FIRST
        used = max(total - before[1], 0.0)
        self._told += used
        seen = min(used, self._credit)
        self._credit -= seen
        return (used - seen) / (now - before[0])

    def _read_threads(self, now: float, limit: int) -> None:
        directory = os.open(f"/proc/{self._info.pid}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            tids = [int(name) for name in os.listdir(directory)]
            known = self._threads
            self._threads = {tid: known[tid] for tid in tids if tid in known}
            for tid in self._chosen(tids, limit):
                with suppress(OSError):  # it ended meanwhile
                    self._threads[tid] = self._look(directory, tid, now)
        finally:
            os.close(directory)

    def _chosen(self, tids: list[int], limit: int) -> Iterable[int]:
        """Return the threads to read now: all, or the new and busy ones and the next few of the others."""
        if len(tids) <= limit:
            return tids
        first = [tid for tid in tids if tid not in self._threads or self._threads[tid].busy][: 4 * limit]
        taken = set(first)
        others = [tid for tid in tids if tid not in taken]
        start = self._turn % max(len(others), 1)
        self._turn = start + limit
        return first + list(islice(others[start:] + others[:start], limit))

    def _look(self, directory: int, tid: int, now: float) -> _Thread:
        if not self._schedstat:
            status = procfs.parse_stat(procfs.read_short(f"{tid}/stat", directory))
            return self._made(tid, now, (int(status.cpu_s * 1e9), 0), status)
        run, wait, _ = procfs.read_short(f"{tid}/schedstat", directory).split()
        counters = (int(run), int(wait))
        before = self._threads.get(tid)
        if before and before.counters == counters and before.reading.cpu == 0.0:
            before.time = now
            return before
        return self._made(tid, now, counters, procfs.parse_stat(procfs.read_short(f"{tid}/stat", directory)))

    def _made(self, tid: int, now: float, counters: tuple[int, int], status: procfs.Stat) -> _Thread:
        before = self._threads.get(tid)
        cpu: Value = _FIRST
        starved: Value = _FIRST if self._schedstat else _NO_SCHEDSTAT
        if before and now > before.time:
            elapsed_ns = (now - before.time) * 1e9
            cpu = _share(counters[0] - before.counters[0], elapsed_ns)
            if self._schedstat:
                starved = _share(counters[1] - before.counters[1], elapsed_ns)
        reading = ThreadReading(tid, printable(status.comm), cpu, starved, status.state, status.core)
        return _Thread(now, counters, reading)


def _share(part_ns: int, whole_ns: float) -> float:
    return min(max(part_ns / whole_ns, 0.0), 1.0)


def has_schedstat() -> bool:
    """Tell whether the kernel keeps run-queue counters: without CONFIG_SCHED_INFO the file is missing or all zeros."""
    try:
        return any(int(field) for field in procfs.read_short("/proc/self/schedstat").split())
    except (OSError, ValueError):
        return False
