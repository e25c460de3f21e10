"""The GPUs over a window: means, what limits them, and their curves."""

from __future__ import annotations

import pytest

from gputop.analysis.gpus import CURVES, history
from gputop.analysis.summary import summarise
from gputop.model import NA, GpuBatch, GpuReading, GpuUse, Value, Window
from tests.unit.analysis_tools import stored

_NOTHING = NA("not in this test")


def _gpu(index: int, mine: bool, **metrics: Value) -> GpuReading:
    named = {name.replace("gpm_", "gpm."): value for name, value in metrics.items()}
    return GpuReading(index, f"GPU-{index}", "H200", named, GpuUse(_NOTHING, _NOTHING, _NOTHING, mine))


def _busy(time: float, busy: float) -> GpuBatch:
    full = {"memory_used_bytes": 1e9, "memory_total_bytes": 4e9, "power_w": 350.0, "power_limit_w": 700.0}
    first = _gpu(0, False, utilization=0.0)
    second = _gpu(1, True, utilization=busy, gpm_graphics=busy, gpm_sm_active=busy / 10, gpm_tensor=0.0, **full)
    return GpuBatch(time, (first, second))


def test_bursts_are_judged_over_the_whole_window() -> None:
    store = stored(*(_busy(time, float(time % 2)) for time in range(1, 11)))
    found = summarise(store, Window(0, 10), 10)
    assert found.efficiency[1].id == "ineffective"
    assert found.efficiency[1].number == "SM active 10 % while busy"
    assert found.efficiency[0].id == "idle"
    assert found.gpus_at == 10


def test_history_has_a_value_for_each_step_and_the_targets_gpus_first() -> None:
    store = stored(*(_busy(0.5 + time, float(time % 2)) for time in range(10)))
    second, first = history(store, Window(0, 10), 10)
    assert (second.newest.index, first.newest.index) == (1, 0)
    assert set(second.curves) == {"utilization", *CURVES}
    assert {len(curve) for curve in second.curves.values()} == {10}
    assert set(second.curves["memory"]) == {0.25}
    assert set(second.curves["power"]) == {0.5}
    assert second.mean.metric("utilization") == pytest.approx(0.5)
    assert isinstance(first.curves["power"][3], NA)


def test_no_gpus_no_history() -> None:
    assert history(stored(), Window(0, 10), 10) == ()
