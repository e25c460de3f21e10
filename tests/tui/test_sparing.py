"""The screen takes part in keeping gputop within its own budget."""

from __future__ import annotations

from dataclasses import replace

from gputop.model import CostBatch
from gputop.tui.sparing import Sparing
from tests.fakes.source import FakeSource
from tests.tui.running import running, text, until

COST = CostBatch(0.0, {"py-spy": 0.05, "screen": 0.02}, 0.001, 100.0, 50.0, 0.0, "")


def costing(used: float) -> CostBatch:
    return replace(COST, own_cpu={"py-spy": used - 0.02, "screen": 0.02})


def test_above_the_budget_the_rate_is_halved_until_there_is_room_again() -> None:
    sparing = Sparing(10.0, 100.0)
    assert not sparing.take(costing(0.2), 110.0), "the first seconds are dear"
    assert sparing.take(costing(0.12), 116.0)
    assert sparing.rate(2.0) == 1.0
    assert not sparing.take(costing(0.08), 117.0), "what was saved must not bring the full rate back"
    assert sparing.rate(2.0) == 1.0
    assert sparing.take(costing(0.05), 118.0)
    assert sparing.rate(2.0) == 2.0
    assert not sparing.take(costing(0.1), 119.0)
    assert not sparing.take(None, 120.0)


async def test_the_status_line_says_so() -> None:
    async with running(FakeSource(), (200, 48)) as (app, pilot):
        await until(pilot, lambda: app.scene.summary is not None)
        assert "at half rate" not in text(app, "status")
        app._sparing = Sparing(0.1, -1e9)
        await until(pilot, lambda: "screen at half rate" in text(app, "status"))
        assert app.scene.sparing
