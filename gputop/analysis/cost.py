"""What gputop itself cost, so that a number on the screen is not the accident of one second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from gputop.model import CostBatch

#: The cost shown is the mean of the last seconds up to this.
COST_OVER_S = 10.0


def own_cost(costs: Sequence[CostBatch]) -> CostBatch | None:
    """Return the mean of measurements, with the rates of the newest; None when there are none."""
    if not costs:
        return None
    parts = {part for cost in costs for part in cost.own_cpu}
    return replace(
        costs[-1],
        own_cpu={part: fmean(cost.own_cpu.get(part, 0.0) for cost in costs) for part in sorted(parts)},
        stopped=fmean(cost.stopped for cost in costs),
        failed=fmean(cost.failed for cost in costs),
    )
