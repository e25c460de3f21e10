"""Curves on a time axis: what was measured now and then, as one mean for each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from gputop.model import NA, GpuBatch, GpuReading, HostBatch, Value, Window, known

#: A reading stands for the time since the one before, at most this many seconds.
_REACH_S = 2.0
#: Shortest step; no source samples more often.
_SHORTEST_S = 0.001
NOT_MEASURED = NA("not measured at that time")


class Stretch(NamedTuple):
    """A value that held for a time."""

    start: float
    end: float
    value: float


class Row(NamedTuple):
    """What one GPU said at one moment."""

    time: float
    gpu: GpuReading


#: GPU index to its readings, oldest first; indexes ascend.
Rows = Mapping[int, Sequence[Row]]


def by_gpu(batches: Iterable[GpuBatch]) -> Rows:
    """Return the readings of each GPU."""
    rows: dict[int, list[Row]] = {}
    for batch in batches:
        for gpu in batch.gpus:
            rows.setdefault(gpu.index, []).append(Row(batch.time, gpu))
    return dict(sorted(rows.items()))


def edges(window: Window, steps: int) -> list[float]:
    """Return the steps' limits: multiples of their length, the last at or after the window's end.

    The length is rounded, since a window of a minute is hardly ever exactly as long as the one before.
    """
    step = max(round(window.seconds / steps, 6), _SHORTEST_S)
    last = ceil(window.end / step)
    return [(last - steps + number) * step for number in range(steps + 1)]


def resampled(stretches: Iterable[Stretch], limits: Sequence[float]) -> tuple[Value, ...]:
    """Return each step's mean, weighted by time; NA where nothing was measured."""
    first, count = limits[0], len(limits) - 1
    step = (limits[-1] - first) / count
    sums, weights = [0.0] * count, [0.0] * count
    for start, end, value in stretches:
        for place in range(max(0, int((start - first) / step)), min(count, ceil((end - first) / step))):
            overlap = min(end, limits[place + 1]) - max(start, limits[place])
            if overlap > 0:
                sums[place] += value * overlap
                weights[place] += overlap
    return tuple(total / weight if weight else NOT_MEASURED for total, weight in zip(sums, weights, strict=True))


def cpu(hosts: Iterable[HostBatch]) -> Iterator[Stretch]:
    """Yield the target's share of all cores."""
    for host in hosts:
        used = host.target_cpu
        if not isinstance(used, NA) and host.cores:
            yield Stretch(host.time - host.seconds, host.time, used / len(host.cores))


def utilization(batches: Iterable[GpuBatch], rows: Rows, index: int) -> Iterator[Stretch]:
    """Yield a GPU's utilisation: the driver's own finer curve where it keeps one, else the readings."""
    curve = [point for batch in batches for point in batch.curve.get(index, ())]
    return _held(curve) if curve else readings(rows[index], lambda gpu: gpu.metric("utilization"))


def readings(rows: Iterable[Row], read: Callable[[GpuReading], Value]) -> Iterator[Stretch]:
    """Yield what was read of one GPU."""
    values = ((row.time, known(read(row.gpu))) for row in rows)
    return _held((time, value) for time, value in values if value is not None)


def metric(name: str) -> Callable[[GpuReading], Value]:
    """Return a reader of one metric."""
    return lambda gpu: gpu.metric(name)


def ratio(name: str, full: str) -> Callable[[GpuReading], Value]:
    """Return a reader of one metric as a share of another."""

    def read(gpu: GpuReading) -> Value:
        value, whole = gpu.metric(name), gpu.metric(full)
        if isinstance(value, NA) or isinstance(whole, NA):
            return value if isinstance(value, NA) else whole
        return value / whole if whole > 0 else NOT_MEASURED

    return read


memory = ratio("memory_used_bytes", "memory_total_bytes")


def _held(points: Iterable[tuple[float, float]]) -> Iterator[Stretch]:
    """Let each value stand for the time since the one before."""
    before = float("-inf")
    for time, value in sorted(points):
        yield Stretch(max(before, time - _REACH_S), time, value)
        before = time
