"""Whose GPU is it: the watched processes' part, from the driver's process lists and samples. No driver in here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from gputop.collectors.gpu.backend import Watched
from gputop.model import NA, GpuUse, Value

#: Running processes and the bytes they hold, None where the driver does not tell; or why there is no list.
Running = Mapping[int, int | None] | NA

#: The driver makes a sample each second at the longest: a process without a new one is as it was for that long.
HOLD_S = 1.5

#: Looks at a GPU that a process has mapped and is not listed on, until that is not taken for a list that is late.
MISSES = 4

PID_NAMESPACE = NA("gputop is in another PID namespace than the driver's process list")
_UNLISTED = NA("the driver lists no process of this GPU, as in another PID namespace: run gputop on the host")
_ONE_OF_MANY = NA(
    "the driver lists processes by another PID namespace's pids: run gputop on the host to tell them apart"
)
ELSEWHERE = NA("the target does not use this GPU")
_UNKNOWN_MEMORY = NA("the driver does not tell the memory of a process")
_UNKNOWN_USE = NA("the driver does not tell the use of a process")


class Row(NamedTuple):
    """What the driver says of one process: its time stamp, percent of time for multiprocessors and memory."""

    pid: int
    stamp: int
    sm: int
    memory: int

    @property
    def sane(self) -> bool:
        """Drivers have been seen to report thousands of percent for processes long gone."""
        return sane_pid(self.pid) and 0 <= self.sm <= 100 and 0 <= self.memory <= 100


class Held(NamedTuple):
    """The newest row of a process and when we got it."""

    row: Row
    time: float


def sane_pid(pid: int) -> bool:
    """Tell whether a number can be a pid at all: some drivers fill lists with 0 and 2³²-1."""
    return 0 < pid < 2**31


def exists(pid: int) -> bool:
    """Tell whether a pid can be seen from here."""
    return os.path.exists(f"/proc/{pid}")


class Usage:
    """Keeps, for one GPU, what the driver said last of each process.

    Attributes:
        seen: newest time stamp the driver gave; to be fed back so that it returns only what is newer.
        foreign: the listed processes cannot be seen from here, twice in a row: this is another PID namespace.
        matched: a watched process was listed or sampled.
    """

    def __init__(self, visible: Callable[[int], bool] = exists) -> None:
        self.seen = 0
        self.foreign = False
        self.matched = False
        self._misses = 0
        self._visible = visible
        self._held: dict[int, Held] = {}
        self._strangers: frozenset[int] = frozenset()
        self._unmatched = False

    def add(self, now: float, running: Running, rows: Iterable[Row]) -> None:
        """Take in what the driver says now."""
        fresh = [row for row in rows if row.sane and row.stamp > self.seen]
        for row in sorted(fresh, key=lambda row: row.stamp):
            self._held[row.pid] = Held(row, now)
            self.seen = row.stamp
        self._held = {pid: held for pid, held in self._held.items() if now - held.time <= HOLD_S}
        listed = frozenset() if isinstance(running, NA) else frozenset(running)
        strangers = frozenset(pid for pid in listed if not self._visible(pid))
        self.foreign = bool(listed) and strangers == listed and bool(strangers & self._strangers)
        self._strangers = strangers
        self._unmatched = bool(fresh) and not any(row.pid in listed or self._visible(row.pid) for row in fresh)

    @property
    def inferred(self) -> bool:
        """No watched process is listed, but this GPU is theirs, for they have it mapped, and had it for a while."""
        return self._misses > MISSES

    def skip(self, rows: Iterable[Row]) -> None:
        """Take these rows for old: of unknown age, they say nothing about now."""
        self.seen = max((row.stamp for row in rows if row.sane), default=self.seen)

    def of(self, watched: Watched, running: Running, sampled: NA | None, holders: Watched = frozenset()) -> GpuUse:
        """Return the part of the watched processes.

        Arguments:
            sampled: why there are no samples, None when there are.
            holders: those of the watched processes that have this GPU mapped, where that had to be asked.
        """
        self.matched = not self._held.keys().isdisjoint(watched) or (
            not isinstance(running, NA) and not running.keys().isdisjoint(watched)
        )
        self._misses = self._misses + 1 if holders and not self.matched else 0
        if self.matched:
            return self._told(watched, running, sampled)
        if self.inferred:
            return self._inferred(holders, running, sampled)
        reason = running if isinstance(running, NA) else PID_NAMESPACE if self.foreign else ELSEWHERE
        return GpuUse(reason, reason, reason)

    def _inferred(self, holders: Watched, running: Running, sampled: NA | None) -> GpuUse:
        """Take all rows for the holders' when there are as many of them; else only that they use the GPU is known."""
        if isinstance(running, NA) or len(running) != len(holders):
            reason = running if isinstance(running, NA) else _ONE_OF_MANY if running else _UNLISTED
            return GpuUse(reason, reason, reason, present=True)
        theirs = self._told(frozenset(running), running, sampled)
        each = zip(holders, (amount for _, amount in theirs.by_process), strict=False)
        return replace(theirs, by_process=tuple(each) if len(holders) == 1 else ())

    def _told(self, watched: Watched, running: Running, sampled: NA | None) -> GpuUse:
        held = [self._held[pid].row for pid in watched if pid in self._held]
        listed = [] if isinstance(running, NA) else [running[pid] for pid in watched if pid in running]
        memory = running if isinstance(running, NA) else _memory(listed)
        missing = self._missing(held, memory, sampled)
        if missing is not None:
            return GpuUse(missing, missing, memory, True, _each(watched, running))
        sm, bandwidth = _sum(row.sm for row in held), _sum(row.memory for row in held)
        return GpuUse(sm, bandwidth, memory, True, _each(watched, running))

    def _missing(self, held: list[Row], memory: Value, sampled: NA | None) -> NA | None:
        """Tell why no sample of a process that is there does not mean that it did nothing."""
        if sampled is not None:
            return sampled
        if held:
            return None
        if self._unmatched:
            return PID_NAMESPACE
        return _UNKNOWN_USE if isinstance(memory, NA) else None

    def others(self, watched: Watched, running: Running, holders: Watched = frozenset()) -> Value:
        """Return how many more processes use the GPU."""
        if isinstance(running, NA):
            return running
        if self.inferred:
            return float(len(running) - len(holders)) if len(running) >= len(holders) else PID_NAMESPACE
        return PID_NAMESPACE if self.foreign else float(len(running.keys() - watched))


def _sum(percents: Iterable[int]) -> Value:
    return min(1.0, sum(percents) / 100)


def _each(watched: Watched, running: Running) -> tuple[tuple[int, float], ...]:
    if isinstance(running, NA):
        return ()
    return tuple((pid, float(amount)) for pid in sorted(watched) if (amount := running.get(pid)))


def _memory(amounts: list[int | None]) -> Value:
    """A process that holds a context holds memory: 0 is as unknown as None."""
    known = [amount for amount in amounts if amount]
    return float(sum(known)) if known and len(known) == len(amounts) else _UNKNOWN_MEMORY
