"""The overhead governor: keeps what gputop costs within the user's budgets by lowering sampling rates.

A pure controller: once a second it is told what was used and answers with the rates for the next second. It lowers
quickly (the target's time is dear) and raises slowly, with a dead band between so that rates do not flutter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gputop.config import Settings

#: Parts of the own budget that each sampler may use before it is the one to slow down. The rest is for the screen,
#: the GPU thread and the analysis, whose cost does not depend on these rates.
_QUOTAS = {"py-spy": 0.55, "peek": 0.3}
#: Slowest rates that still say something: one stack in 100 ms, one look in 200 ms.
_SLOWEST = {"py-spy": 10.0, "peek": 5.0}
#: Faster tells nothing more and only costs.
_FASTEST = 500.0
#: Raise only when under this part of the budget, by this factor a step; lower by at most half a step.
_ROOMY, _RAISE, _LOWEST_STEP = 0.75, 1.15, 0.5
#: Weight of the newest second in the running mean.
_NEWEST = 0.4


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates for the next second, in samples a second, and why they are below what was asked for ("" if not)."""

    stacks: float
    peek: float
    limited: str


class Governor:
    """Turns measured cost into rates."""

    def __init__(self, settings: Settings) -> None:
        self._own_budget = settings.own_budget / 100
        self._stop_budget = settings.budget / 100
        self._base = {"py-spy": settings.stack_rate, "peek": settings.peek_rate}
        self._asked = dict(self._base)
        self._rates = dict(self._asked)
        self._mean: dict[str, float] = {}

    def ask(self, factor: float) -> None:
        """Aim at `factor` times the configured rates (the `+` and `-` keys); the budgets still bind."""
        self._asked = {part: max(_SLOWEST[part], min(_FASTEST, rate * factor)) for part, rate in self._base.items()}
        self._rates = {part: min(rate, self._asked[part]) for part, rate in self._rates.items()}

    def next(self, own_cpu: Mapping[str, float], stopped: float) -> Rates:
        """Return the rates for the next second.

        Args:
            own_cpu: part to share of one core over the last second ("py-spy", "peek", "screen", …).
            stopped: share of the last second that the most stopped thread was held up.
        """
        for part in {*own_cpu, *self._mean}:
            self._mean[part] = (1 - _NEWEST) * self._mean.get(part, 0.0) + _NEWEST * own_cpu.get(part, 0.0)
        total = sum(self._mean.values())
        for part in _QUOTAS:
            self._rates[part] = self._bounded(part, self._rates[part] * self._factor(part, total, stopped))
        return Rates(self._rates["py-spy"], self._rates["peek"], self._reason(total, stopped))

    def _factor(self, part: str, total: float, stopped: float) -> float:
        quota = _QUOTAS[part] * self._own_budget
        used = self._mean.get(part, 0.0)
        if part == "peek" and stopped > self._stop_budget:
            return max(_LOWEST_STEP, self._stop_budget / stopped)
        if total > self._own_budget and used > quota:
            return max(_LOWEST_STEP, quota / used)
        if total < _ROOMY * self._own_budget or used < _ROOMY * quota:
            return _RAISE
        return 1.0

    def _bounded(self, part: str, rate: float) -> float:
        return max(min(_SLOWEST[part], self._asked[part]), min(self._asked[part], rate))

    def _reason(self, total: float, stopped: float) -> str:
        slowed = [part for part, rate in self._rates.items() if rate < 0.95 * self._asked[part]]
        if not slowed:
            return ""
        if stopped > self._stop_budget:
            return f"held the program up {stopped:.1%}, budget {self._stop_budget:.1%}"
        return f"own CPU {total:.0%}, budget {self._own_budget:.0%}"
