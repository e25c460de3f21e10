"""Shares a thread's time out between its looks, exactly, by the scheduler's counters.

A look says what a thread does at one moment; the scheduler counts how long it was on a CPU and how long it waited for
one. Together they tell more than looks alone: the time on a CPU goes to the looks that saw it running, the time blocked
to the looks that saw it blocked, whatever the moments of the looks happened to be. How a thread's time divides into
running, starved and blocked is then exact, and only what it ran or waited *for* is sampled (in the language of survey
statistics: post-stratification).
"""

from __future__ import annotations

from typing import NamedTuple

#: Time of one kind that no look of that kind has claimed so far is kept up to this, seconds; more is forgotten, so that
#: a sleep after minutes of computing does not get their rounding errors.
MOST_KEPT_S = 0.25


class Elapsed(NamedTuple):
    """Seconds between two looks: all, on a CPU, runnable without one, held up by ourselves."""

    seconds: float
    on_cpu: float
    starved: float
    held: float


class Ledger:
    """What one thread's looks have not accounted for yet.

    The kernel brings the counter of a running thread up to date at its ticks only, some milliseconds apart. Amounts may
    be negative for a while; the next look evens that out.
    """

    def __init__(self) -> None:
        self._on_cpu = self._starved = self._blocked = 0.0

    def book(self, elapsed: Elapsed, running: bool) -> tuple[float, float]:
        """Take in the time since the look before; return the seconds this look stands for, those starved apart too."""
        self._on_cpu = min(self._on_cpu + elapsed.on_cpu, elapsed.on_cpu + MOST_KEPT_S)
        self._starved = min(self._starved + elapsed.starved, elapsed.starved + MOST_KEPT_S)
        blocked = elapsed.seconds - elapsed.on_cpu - elapsed.starved - elapsed.held
        self._blocked = min(self._blocked + blocked, max(blocked, 0.0) + MOST_KEPT_S)
        if not running:
            seconds, self._blocked = _claimed(self._blocked)
            return seconds, 0.0
        on_cpu, self._on_cpu = _claimed(self._on_cpu)
        starved, self._starved = self._starved, 0.0
        return on_cpu + starved, starved


def _claimed(amount: float) -> tuple[float, float]:
    """Return what may be claimed of an amount, and what stays."""
    return (amount, 0.0) if amount > 0 else (0.0, amount)
