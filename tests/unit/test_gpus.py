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


def _powered(time: float, energy: Value, power: Value = _NOTHING) -> GpuBatch:
    return GpuBatch(time, (_gpu(0, True, energy_j=energy, power_w=power),))


def _used(*batches: GpuBatch) -> Value:
    return summarise(stored(*batches), Window(0, 100), 10).energy_j[0]


def test_energy_is_the_counters_growth_from_change_to_change() -> None:
    """500 W; the counter is read every 5 s, the GPU twice a second, and the window begins between two reads."""
    batches = [_powered(time / 2, 500.0 * 5 * ((time + 3) // 10)) for time in range(41)]
    assert _used(*batches) == pytest.approx(500 * 20)


def test_energy_of_a_short_window_is_that_of_the_power_not_nought() -> None:
    """The counter stands still for 5 s; that is no sign that nothing was used."""
    assert _used(*(_powered(time / 2, 120.0, 300.0) for time in range(9))) == pytest.approx(300 * 4)
    assert _used(_powered(1.0, NA("too old"), 300.0), _powered(2.0, NA("too old"), 400.0)) == pytest.approx(350)
    assert isinstance(_used(*(_powered(time / 2, 120.0) for time in range(9))), NA)
