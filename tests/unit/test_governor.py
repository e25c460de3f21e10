"""The governor keeps both budgets, and gives the rates back when there is room."""

from __future__ import annotations

from gputop.config import Settings
from gputop.engine.governor import Governor, Rates


def run(
    governor: Governor, seconds: int, py_spy_per_hz: float = 0.0, peek_per_hz: float = 0.0, stop_s: float = 0.0
) -> Rates:
    """Let the governor drive a plant whose cost is proportional to the rates; return the final rates."""
    rates = Rates(100, 50, "")
    for _ in range(seconds):
        used = {"py-spy": rates.stacks * py_spy_per_hz, "peek": rates.peek * peek_per_hz, "screen": 0.02}
        rates = governor.next(used, rates.peek * stop_s)
    return rates


def test_rates_stay_as_asked_when_there_is_room() -> None:
    rates = run(Governor(Settings()), 20, py_spy_per_hz=0.0003, peek_per_hz=0.0003, stop_s=100e-6)
    assert rates == Rates(100, 50, "")


def test_dear_stacks_are_slowed_until_they_fit_the_own_budget() -> None:
    rates = run(Governor(Settings()), 30, py_spy_per_hz=0.0032, peek_per_hz=0.0003)
    assert rates.stacks * 0.0032 <= 0.085
    assert rates.stacks >= 10
    assert rates.peek == 50
    assert "10 % of a core" in rates.limited


def test_long_stops_slow_the_peek_until_the_target_is_held_up_within_the_budget() -> None:
    rates = run(Governor(Settings()), 30, peek_per_hz=0.0003, stop_s=1e-3)
    assert rates.peek * 1e-3 <= 0.0105
    assert rates.stacks == 100
    assert rates.limited


def test_several_gputops_share_the_budget() -> None:
    governor = Governor(Settings())
    governor.share(2)
    assert run(governor, 30, peek_per_hz=0.0003, stop_s=1e-3).peek * 1e-3 <= 0.00525
    governor.share(1)
    assert run(governor, 30, peek_per_hz=0.0003, stop_s=1e-3).peek * 1e-3 > 0.007


def test_a_larger_budget_is_used() -> None:
    assert run(Governor(Settings(own_budget=60)), 30, py_spy_per_hz=0.0032).stacks == 100


def test_rates_come_back_when_the_load_goes() -> None:
    governor = Governor(Settings())
    run(governor, 20, py_spy_per_hz=0.0032)
    assert run(governor, 40, py_spy_per_hz=0.0001) == Rates(100, 50, "")


def test_rates_do_not_flutter_once_settled() -> None:
    governor = Governor(Settings())
    rates = run(governor, 40, py_spy_per_hz=0.0032)
    seen = []
    for _ in range(20):
        rates = governor.next({"py-spy": rates.stacks * 0.0032, "screen": 0.02}, 0.0)
        seen.append(rates.stacks)
    assert max(seen) / min(seen) < 1.35


def test_the_user_asks_for_more_and_less() -> None:
    governor = Governor(Settings())
    governor.ask(0.5)
    assert run(governor, 10).stacks == 50
    governor.ask(10)
    assert run(governor, 60).stacks == 500


def test_start_up_slows_nothing() -> None:
    governor = Governor(Settings())
    rates = [governor.next({"peek": used, "py-spy": used, "screen": used}, 0.0) for used in (0.9, 0.02, 0.02, 0.02)]
    assert {(rate.stacks, rate.peek) for rate in rates} == {(100, 50)}


def test_a_burst_slows_nothing() -> None:
    governor = Governor(Settings())
    run(governor, 5, peek_per_hz=0.0003)
    rates = [governor.next({"peek": used, "screen": 0.02}, 0.0) for used in (1.7, 0.9, 0.015, 0.015, 0.015)]
    assert {rate.peek for rate in rates} == {50}
