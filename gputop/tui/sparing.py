"""How often the screen is brought up to date: as often as asked, or half as often while gputop costs too much."""

from __future__ import annotations

from gputop.model import CostBatch

#: The first seconds are dear and over soon, and the cost shown is a mean of so many.
_SETTLED_S = 15.0
#: Half as often takes about a third off what gputop costs in all: it must cost less than that before the full rate
#: comes back, or the two would take turns.
_AT_EASE = 0.6


class Sparing:
    """Decides by the measured cost.

    Attributes:
        on: the screen is brought up to date half as often.
    """

    def __init__(self, own_budget: float, now: float) -> None:
        """Begin with the full rate; `own_budget` is in percent of a core."""
        self._budget = own_budget / 100
        self._since = now
        self.on = False

    def take(self, cost: CostBatch | None, now: float) -> bool:
        """Take in what gputop cost lately; return whether the rate changes."""
        if cost is None or now - self._since < _SETTLED_S:
            return False
        used = sum(cost.own_cpu.values())
        before, self.on = self.on, used > self._budget * (_AT_EASE if self.on else 1.0)
        return self.on != before

    def rate(self, hz: float) -> float:
        """Return how often, for what was asked."""
        return hz / 2 if self.on else hz
