"""What gputop cost over a window is the mean of its seconds."""

from __future__ import annotations

import pytest

from gputop.analysis.cost import own_cost
from gputop.model import CostBatch, Window
from gputop.store import Store


def test_the_mean_counts_and_the_newest_rates_are_in_force() -> None:
    first = CostBatch(1.0, {"peek": 0.08, "py-spy": 0.04}, 0.004, 100, 50, 0.0)
    last = CostBatch(2.0, {"peek": 0.02}, 0.002, 60, 50, 0.1, "gputop may use 10 % of a core")
    cost = own_cost((first, last))
    assert cost is not None
    assert cost.own_cpu == pytest.approx({"peek": 0.05, "py-spy": 0.02})
    assert (cost.stopped, cost.failed) == pytest.approx((0.003, 0.05))
    assert (cost.stack_rate_hz, cost.limited) == (60, "gputop may use 10 % of a core")


def test_nothing_measured_is_nothing_known() -> None:
    assert own_cost(()) is None


def test_the_store_gives_those_of_a_window_in_order() -> None:
    store = Store()
    for time in (3.0, 1.0, 2.0, 40.0):
        store.add(CostBatch(time, {}, 0.0, 100, 50, 0.0))
    assert [cost.time for cost in store.costs(Window(1.0, 30.0))] == [2.0, 3.0]
