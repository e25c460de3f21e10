"""The GPUs over a window: means, what limits each, and the curves of its history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from gputop.analysis import curves
from gputop.analysis.curves import Row
from gputop.analysis.efficiency import Efficiency, assess
from gputop.analysis.facts import mean
from gputop.analysis.results import GpuHistory
from gputop.model import NA, GpuReading, Value, Window
from gputop.store import Store

#: Curves of a GPU's history, each a share of its full scale: name to how it is read. (The utilisation has its own.)
CURVES = {
    "memory": curves.memory,
    "power": curves.ratio("power_w", "power_limit_w"),
    **{name: curves.metric(name) for name in ("gpm.sm_active", "gpm.tensor", "gpm.dram")},
}
#: What `efficiency.assess` looks at, beside the metrics whose names begin with "throttle".
_ASSESSED = ("utilization", "gpm.graphics", "gpm.sm_active", "gpm.tensor", "gpm.fp32", "gpm.dram")


def averaged(readings: Sequence[GpuReading]) -> GpuReading:
    """Return the newest reading with the window's means of what efficiency is judged by."""
    newest = readings[-1]
    names = (*_ASSESSED, *(name for name in newest.metrics if name.startswith("throttle")))
    means = {name: mean(reading.metric(name) for reading in readings) for name in names}
    return replace(newest, metrics={**newest.metrics, **means})


def efficiency(rows: Iterable[Row]) -> Efficiency:
    """Say what limited one GPU in the window."""
    return assess(averaged([row.gpu for row in rows]))


def energy(rows: Sequence[Row]) -> Value:
    """Return the joules that one GPU used while it was read.

    The driver's counter is read every few seconds only, and stands still between: its growth from one change to another
    gives the mean power. Where it changed once at most, the power readings do.
    """
    covered = rows[-1].time - rows[0].time
    if covered <= 0:
        return NA("fewer than two readings in this window")
    power = mean(row.gpu.metric("power_w") for row in rows)
    counter = [(row.time, value) for row in rows if not isinstance(value := row.gpu.metric("energy_j"), NA)]
    changes = [newer for older, newer in pairwise(counter) if newer[1] != older[1]]
    if len(changes) == 1 and isinstance(power, NA):
        changes = [counter[0], *changes]
    if len(changes) >= 2 and changes[-1][1] >= changes[0][1]:
        (began, before), (ended, after) = changes[0], changes[-1]
        power = (after - before) / (ended - began)
    if isinstance(power, NA):
        return next((value for row in rows if isinstance(value := row.gpu.metric("energy_j"), NA)), power)
    return power * covered


def history(store: Store, window: Window, steps: int) -> tuple[GpuHistory, ...]:
    """Return each GPU's history in `steps` steps, those that the target uses first."""
    return tuple(sorted(_histories(store, window, steps), key=lambda item: (not item.newest.used, item.newest.index)))


def _histories(store: Store, window: Window, steps: int) -> Iterator[GpuHistory]:
    limits = curves.edges(window, steps)
    batches = store.gpus(Window(limits[0], limits[-1]))
    rows = curves.by_gpu(batches)
    for index, mine in rows.items():
        shown = {name: curves.resampled(curves.readings(mine, read), limits) for name, read in CURVES.items()}
        shown["utilization"] = curves.resampled(curves.utilization(batches, rows, index), limits)
        mean_reading = averaged([row.gpu for row in mine])
        yield GpuHistory(mine[-1].gpu, mine[-1].time, mean_reading, assess(mean_reading), shown)
