"""States, CPU and GPUs on one time axis.

Columns begin at multiples of their own length, counted from the clock's zero. So a column stands for the same stretch
of time in every picture; it moves left instead of changing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from gputop.analysis import tiles
from gputop.analysis.results import Column, Series, Timeline
from gputop.analysis.split import by_cpu, shares, times
from gputop.analysis.tally import Tally
from gputop.model import NA, GpuBatch, GpuReading, HostBatch, Value, Window, known
from gputop.store import Store, ThreadKey

#: A reading stands for the time since the one before, at most this many seconds.
_REACH_S = 2.0
#: Shortest column; no source samples more often.
_SHORTEST_S = 0.001
_NOT_MEASURED = NA("not measured at that time")


class _Stretch(NamedTuple):
    """A value that held for a time."""

    start: float
    end: float
    value: float


def build(store: Store, key: ThreadKey | None, window: Window, columns: int) -> Timeline:
    """Return the window in `columns` steps; the last one may not be over yet.

    Arguments:
        key: the thread whose states are shown; None leaves them empty.
    """
    edges = _edges(window, columns)
    whole = Window(edges[0], edges[-1])
    hosts, gpus = store.hosts(whole), store.gpus(whole)
    indexes = sorted({gpu.index for batch in gpus for gpu in batch.gpus})
    return Timeline(
        tuple(_columns(store, key, edges)),
        Series("CPU", _resampled(_cpu(hosts), edges)),
        tuple(Series(f"GPU {index}", _resampled(_utilization(gpus, index), edges)) for index in indexes),
        tuple(Series(f"GPU {index} memory", _resampled(_memory(gpus, index), edges)) for index in indexes),
    )


def _edges(window: Window, columns: int) -> list[float]:
    """Return the columns' limits: multiples of the step, the last at or after the window's end.

    The step is rounded, since a window of a minute is hardly ever exactly as long as the one before.
    """
    step = max(round(window.seconds / columns, 6), _SHORTEST_S)
    last = ceil(window.end / step)
    return [(last - columns + number) * step for number in range(columns + 1)]


def _columns(store: Store, key: ThreadKey | None, edges: Sequence[float]) -> Iterator[Column]:
    steps = [Window(start, end) for start, end in pairwise(edges)]
    if key is None:
        yield from (Column(step.start, step.seconds, {}) for step in steps)
        return
    kept = tiles.of(store)
    tallies = [kept.column(store, key, step) for step in steps]
    habits = Tally()
    for tally in tallies:
        habits.learn(tally)
    looked = any(tally.looks for tally in tallies)
    for step, tally in zip(steps, tallies, strict=True):
        cpu = None if looked else store.cpu(step).get(key)
        time = by_cpu(cpu) if cpu else times(tally, habits, kept.classified)
        yield Column(step.start, step.seconds, shares(time))


# ------------------------------------------------------------------------------------------------- the curves


def _resampled(stretches: Iterable[_Stretch], edges: Sequence[float]) -> tuple[Value, ...]:
    """Return each column's mean, weighted by time; NA where nothing was measured."""
    first, count = edges[0], len(edges) - 1
    step = (edges[-1] - first) / count
    sums, weights = [0.0] * count, [0.0] * count
    for start, end, value in stretches:
        for column in range(max(0, int((start - first) / step)), min(count, ceil((end - first) / step))):
            overlap = min(end, edges[column + 1]) - max(start, edges[column])
            if overlap > 0:
                sums[column] += value * overlap
                weights[column] += overlap
    return tuple(total / weight if weight else _NOT_MEASURED for total, weight in zip(sums, weights, strict=True))


def _cpu(hosts: Iterable[HostBatch]) -> Iterator[_Stretch]:
    """Yield the target's share of all cores."""
    for host in hosts:
        used = [process.cpu for process in host.processes if not isinstance(process.cpu, NA)]
        if used and host.cores:
            yield _Stretch(host.time - host.seconds, host.time, sum(used) / len(host.cores))


def _utilization(gpus: Sequence[GpuBatch], index: int) -> Iterator[_Stretch]:
    """Yield a GPU's utilisation: the driver's own finer curve where it keeps one, else the readings."""
    curve = [point for batch in gpus for point in batch.curve.get(index, ())]
    return _held(curve or _readings(gpus, index, lambda gpu: gpu.metric("utilization")))


def _memory(gpus: Sequence[GpuBatch], index: int) -> Iterator[_Stretch]:
    """Yield the share of a GPU's memory in use."""
    return _held(_readings(gpus, index, _memory_share))


def _memory_share(gpu: GpuReading) -> Value:
    used, total = gpu.metric("memory_used_bytes"), gpu.metric("memory_total_bytes")
    if isinstance(used, NA) or isinstance(total, NA) or not total:
        return _NOT_MEASURED
    return used / total


def _readings(
    gpus: Iterable[GpuBatch], index: int, read: Callable[[GpuReading], Value]
) -> Iterator[tuple[float, float]]:
    for batch in gpus:
        for gpu in batch.gpus:
            if gpu.index == index and (value := known(read(gpu))) is not None:
                yield batch.time, value


def _held(points: Iterable[tuple[float, float]]) -> Iterator[_Stretch]:
    """Let each value stand for the time since the one before."""
    before = float("-inf")
    for time, value in sorted(points):
        yield _Stretch(max(before, time - _REACH_S), time, value)
        before = time
