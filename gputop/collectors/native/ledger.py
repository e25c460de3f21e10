"""Shares a thread's time out between its looks by the scheduler's counters.

A look says what a thread does at one moment; the scheduler counts how long it was on a CPU and how long it waited for
one. A look stands for the time since the look before, and a little more or less, so that the looks that saw the thread
ready add up to the time that it was, and those that saw it blocked to the time that it was blocked. What it ran or
waited *for* is sampled; how its time divides into running, starved and blocked is counted (in the language of survey
statistics: post-stratification).

The differences are evened out over many looks. Were the next look to take all of what is missing, looks just before the
thread runs would stand for more than those just after, and a short wait between two long ones would lose a third.
"""

from __future__ import annotations

from typing import NamedTuple

#: Time of one kind that no look of that kind has claimed so far is kept up to this, seconds; more is forgotten, so that
#: a sleep after minutes of computing does not get their rounding errors.
MOST_KEPT_S = 0.25
#: A difference is evened out in about this time: long enough that what a look gets of it does not depend on where in a
#: step of the program it fell, short enough that windows of seconds come out within half a point.
EVENED_S = 0.3
#: A kind that has less than a tenth of the time is evened out within its part of this: its few looks would be far ahead
#: of the counters before they settled, and are when looking itself makes a thread wait.
RARE_S = 3.0


class Elapsed(NamedTuple):
    """Seconds between two looks: all, on a CPU, runnable without one, held up by ourselves."""

    seconds: float
    on_cpu: float
    starved: float
    held: float


class Ledger:
    """What one thread's looks have not accounted for yet; less than nothing when they stood for too much.

    The kernel brings the counter of a running thread up to date at its ticks only, some milliseconds apart; that, too,
    evens out.
    """

    def __init__(self) -> None:
        self._ready = self._starved = self._blocked = 0.0
        self._share = self._known_s = 0.0  # the part of its last RARE_S that the thread was ready

    def book(self, elapsed: Elapsed, running: bool) -> tuple[float, float]:
        """Take in the time since the look before; return the seconds this look stands for, those starved apart too."""
        own = elapsed.seconds - elapsed.held
        ready = elapsed.on_cpu + elapsed.starved
        self._ready = _kept(self._ready, ready)
        self._starved = _kept(self._starved, elapsed.starved)
        self._blocked = _kept(self._blocked, own - ready)
        if own > 0:
            self._known_s = min(self._known_s + own, RARE_S)
            self._share += (ready / own - self._share) * own / self._known_s
        if not running:
            seconds = _claimed(self._blocked, own, 1 - self._share)
            self._blocked -= seconds
            return seconds, 0.0
        seconds = _claimed(self._ready, own, self._share)
        starved = min(self._starved, seconds)
        self._ready -= seconds
        self._starved -= starved
        return seconds, starved


def _kept(balance: float, more: float) -> float:
    """Return a balance with more time, within bounds."""
    return max(min(balance + more, max(more, 0.0) + MOST_KEPT_S), -MOST_KEPT_S)


def _claimed(balance: float, own: float, part: float) -> float:
    """Return the seconds of a balance that a look claims, given those since the look before, and the part of the time
    that is of this kind."""
    within = max(min(EVENED_S, RARE_S * part), own)
    return max(own + own / within * (balance - own), 0.0) if within > 0 else 0.0
