"""The overhead governor: keeps what gputop costs within the user's budgets by choosing the sampling rates.

A pure controller: once a second it is told what was used and answers with the rates for the next second. From the last
seconds it knows what one sample costs, and so which rate the budget affords. The median of several seconds counts, so
that reading the symbols of a library that was just loaded is no reason to slow down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from gputop.config import Settings

#: Parts of the own budget that each sampler may use whatever the others do. The rest is for the screen, the GPU thread
#: and the analysis, whose cost does not depend on these rates.
QUOTAS = {"py-spy": 0.55, "peek": 0.3}
#: Slowest rates that still say something: one stack in 100 ms, one look in 200 ms. Faster than the fastest only costs.
_SLOWEST = {"py-spy": 10.0, "peek": 5.0}
_FASTEST = 500.0
#: Seconds of which the median counts, and how many of them have to be known: start-up is dear, and over soon.
_SECONDS, _FEWEST = 5, 3
#: Rates rise by this factor a second at most, and stay when the change would be smaller than this.
_RAISE, _DEAD_BAND = 1.25, 0.1


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates for the next second, in samples a second, and why they are below what was asked for ("" if not)."""

    stacks: float
    peek: float
    limited: str


@dataclass(frozen=True, slots=True)
class _Second:
    """What one second cost at which rates: own CPU by part (share of a core), share of time the target was held up."""

    own_cpu: Mapping[str, float]
    stopped: float
    rates: Mapping[str, float]


class Governor:
    """Turns measured cost into rates."""

    def __init__(self, settings: Settings) -> None:
        self._own_budget = settings.own_budget / 100
        self._budget = self._stop_budget = settings.budget / 100
        self._base = {"py-spy": settings.stack_rate, "peek": settings.peek_rate}
        self._asked = dict(self._base)
        self._rates = dict(self._base)
        self._past: deque[_Second] = deque(maxlen=_SECONDS)

    def ask(self, factor: float) -> None:
        """Aim at `factor` times the configured rates (the `+` and `-` keys); the budgets still bind."""
        self._asked = {part: max(_SLOWEST[part], min(_FASTEST, rate * factor)) for part, rate in self._base.items()}
        self._rates = {part: min(rate, self._asked[part]) for part, rate in self._rates.items()}

    def share(self, watchers: int) -> None:
        """Leave the others that hold the same program up their part of the budget."""
        self._stop_budget = self._budget / watchers

    def next(self, own_cpu: Mapping[str, float], stopped: float) -> Rates:
        """Return the rates for the next second.

        Args:
            own_cpu: part to share of one core over the last second ("py-spy", "peek", "screen", …).
            stopped: share of the last second that the most stopped thread was held up.
        """
        self._past.append(_Second(own_cpu, stopped, self._rates))
        if len(self._past) >= _FEWEST:
            self._rates = {part: self._stepped(part, self._affordable(part)) for part in QUOTAS}
        return Rates(self._rates["py-spy"], self._rates["peek"], self._reason())

    def _affordable(self, part: str) -> float:
        """Return the rate that the budgets afford, by what one sample has cost."""
        used = [second.own_cpu.get(part, 0.0) for second in self._past]
        others = median(sum(second.own_cpu.values()) for second in self._past) - median(used)
        allowance = max(QUOTAS[part] * self._own_budget, self._own_budget - others)
        rate = _over(allowance, _each(used, self._past, part))
        if part == "peek":
            held_up = [second.stopped for second in self._past]
            rate = min(rate, _over(self._stop_budget, _each(held_up, self._past, part)))
        return max(min(_SLOWEST[part], self._asked[part]), min(self._asked[part], rate))

    def _stepped(self, part: str, aim: float) -> float:
        """Move towards `aim`: down at once, for the target's time is dear; up in steps; not for a trifle."""
        now = self._rates[part]
        if aim < self._asked[part] and abs(aim - now) < _DEAD_BAND * now:
            return now
        return min(aim, _RAISE * now)

    def _reason(self) -> str:
        slowed = [part for part, rate in self._rates.items() if rate < (1 - _DEAD_BAND) * self._asked[part]]
        if not slowed:
            return ""
        if slowed == ["peek"] and median(second.stopped for second in self._past) > 0.5 * self._stop_budget:
            return f"the program may be held up {100 * self._stop_budget:.1f} %"
        return f"gputop may use {100 * self._own_budget:.0f} % of a core"


def _each(used: Iterable[float], past: Iterable[_Second], part: str) -> float:
    """Return what one sample a second costs."""
    return median(amount / second.rates[part] for amount, second in zip(used, past, strict=True))


def _over(allowance: float, each: float) -> float:
    return allowance / each if each > 0 else _FASTEST
