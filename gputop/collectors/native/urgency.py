"""Real-time priority for a moment, so that we are not put off our CPU while a thread of the target stands still.

On CPUs that are all taken, an ordinary process gives its CPU up when its slice ends, and then waits for milliseconds
until it can notice that a thread has stopped. Only the stop is urgent, a tenth of a millisecond; the rest is not.
"""

from __future__ import annotations

import os

_LEAST = os.sched_param(1)
#: A child that is forked meanwhile is an ordinary process.
_URGENT = os.SCHED_RR | os.SCHED_RESET_ON_FORK


class Urgency:
    """Has the scheduler prefer this process between `begin` and `end`; does nothing where that is not allowed.

    It takes CAP_SYS_NICE, or an RLIMIT_RTPRIO (sched(7)). A process that has another policy than the usual one was
    given it by somebody, and keeps it.
    """

    def __init__(self) -> None:
        self._allowed = os.sched_getscheduler(0) == os.SCHED_OTHER
        self._usual = os.sched_getparam(0)
        self._begun = False

    def begin(self) -> None:
        """Be preferred, from now on."""
        if self._allowed and not self._begun:
            try:
                os.sched_setscheduler(0, _URGENT, _LEAST)
                self._begun = True
            except OSError:
                self._allowed = False

    def end(self) -> None:
        """Be as all others again."""
        if self._begun:
            os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, self._usual)
            self._begun = False
