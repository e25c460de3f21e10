"""The time of functions whose stacks cannot be read well is corrected by looks, and only then."""

from __future__ import annotations

import pytest

from gputop.analysis import hot
from gputop.model import Frame, Observation, Window
from gputop.store import ThreadKey
from tests.unit.analysis_tools import DECODE, MAIN, PID, PYTHON, STEP, looks, stacks, stored

KEY, WINDOW = ThreadKey(PID, PID), Window(0, 10)


def _self_shares(decode_by_stacks: float, decode_by_looks: float) -> dict[str, float]:
    """Return functions' shares where stacks give DECODE the end of each second, and looks its beginning."""
    segments = [
        segment
        for second in range(10)
        for segment in (
            (second, second + 1 - decode_by_stacks, (MAIN, STEP)),
            (second + 1 - decode_by_stacks, second + 1, (MAIN, DECODE)),
        )
    ]
    rows: list[tuple[float, Observation, Frame | None]] = []
    for number in range(1, 501):
        inside = (number - 1) % 50 / 50 < decode_by_looks
        rows.append((number / 50, PYTHON, DECODE if inside else STEP))
    store = stored(looks(PID, rows), stacks(PID, segments))
    return {row.name: row.self_share for row in hot.functions(store, [KEY], WINDOW)}


def test_what_stacks_miss_is_given_back() -> None:
    shares = _self_shares(decode_by_stacks=0.1, decode_by_looks=0.4)
    assert shares["decode"] == pytest.approx(0.4, abs=0.03), "less a standard deviation of 500 looks"
    assert sum(shares[name] for name in ("decode", "step")) == pytest.approx(1.0, abs=1e-6)


def test_a_seldom_function_that_looks_meet_at_other_times_is_not_multiplied() -> None:
    shares = _self_shares(decode_by_stacks=0.06, decode_by_looks=0.08)
    assert shares["decode"] == pytest.approx(0.07, abs=0.015)


def test_scatter_alone_changes_nothing() -> None:
    assert _self_shares(decode_by_stacks=0.3, decode_by_looks=0.32)["decode"] == pytest.approx(0.3, abs=1e-6)
