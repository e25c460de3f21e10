"""How often each thread is looked at: by its activity, the target's budget and our own."""

from __future__ import annotations

import random
import time

from gputop.collectors.native.task import Counters, Task

#: Looks each second at a thread that is parked.
PARKED_HZ = 5.0
#: Intervals vary by this share, so that no loop of the target keeps step with the looks. With a half, where in a step a
#: look falls says nothing of the next one for any step that is the mean interval or a whole part of it: the mean of
#: exp(2πik·x) over x from 1 - J to 1 + J is sin(2πkJ)/(2πkJ).
_JITTER = 0.5
#: A thread that was on a CPU for this share of the time since its last look, or is running, is busy …
_BUSY_SHARE = 0.02
#: … for this long.
_BUSY_S = 1.0
#: Looks of all threads together may take this share of one core …
_OWN_SHARE = 0.03
#: … but the main threads of so many processes are hardly slowed for it while they work, and to the second part of their
#: rate at most while they wait: a main thread that only waits for its workers must not take their looks.
_MAIN_THREADS, _WORKING_PART, _WAITING_PART = 4, 0.9, 0.4
#: Of a program in which so many other threads are busy, a main thread has this part of that: the answer may be theirs.
#: They count for this long after they were seen so, seconds, since looks at them may be seconds apart.
_CROWD, _IN_A_CROWD, _CROWD_S = 3, 0.5, 5.0
#: Looks each second that all busy threads but main ones share whatever looks cost, and those that the parked ones do,
#: which are cheap: who works must be seen, and that a parked thread begins to work must be noticed.
_FOR_BUSY, _FOR_PARKED = 20.0, 20.0
#: A main thread works to the full when it wanted a CPU for this share of the time, in the mean over about this long.
#: The mean must not follow the phases of the program's steps: were a thread looked at again sooner whenever it was just
#: seen at work, then what follows the work would be seen too often.
_WORKING_SHARE, _WORKING_S = 0.2, 2.0
_SLOWEST, _RECOVERY = 0.01, 1.25
#: A thread's debt may reach what its budget pays back in this time.
_CREDIT_S = 1.0


class Pace:
    """Intervals between looks.

    Attributes:
        rate_hz: looks each second at main and busy threads, as asked for.
        budget: share of its time that a thread may be held up.
        processes, threads: how many there are.
    """

    def __init__(self, rate_hz: float, budget: float) -> None:
        self.rate_hz, self.budget = rate_hz, budget
        self.processes = self.threads = 1
        self._slowed = 1.0
        self._busy: dict[int, float] = {}  # other threads than main ones, and until when they count
        self._crowded = False
        self._cpu, self._time = time.process_time(), time.monotonic()
        self._random = random.Random()

    def adapt(self) -> None:
        """Slow down, or recover, by the CPU time used since the last call."""
        cpu, now = time.process_time(), time.monotonic()
        self._busy = {tid: until for tid, until in self._busy.items() if until > now}
        self._crowded = len(self._busy) >= _CROWD
        used = (cpu - self._cpu) / max(now - self._time, 1e-3)
        self._cpu, self._time = cpu, now
        wanted = self._slowed * min(_OWN_SHARE / max(used, 1e-4), _RECOVERY)
        self._slowed = min(max(wanted, _SLOWEST, self._slowed / 2), 1.0)

    def after(self, task: Task, before: Counters | None, elapsed: float, main: bool) -> tuple[bool, float]:
        """Return whether a thread that has just been looked at is looked at often, and the seconds to its next look.

        Args:
            task: the thread.
            before: its counters at the look before.
            elapsed: seconds since the look before.
            main: it is a process's main thread.
        """
        wanted = _wanted(task, before, elapsed)
        if wanted > _BUSY_SHARE or (task.look is not None and task.look.running):
            task.busy_until = task.looked + _BUSY_S
            if not main:
                self._busy[task.tid] = task.looked + _CROWD_S
        task.wanted += (wanted - task.wanted) * min(elapsed / _WORKING_S, 1.0)
        often = main or task.busy_until > task.looked
        rate = self.rate_hz if often else min(PARKED_HZ, self.rate_hz)
        floor = self._floor(task.wanted) if main else self._share(often, rate)
        interval = 1 / (rate * max(self._slowed, floor))
        jittered = interval * self._random.uniform(1 - _JITTER, 1 + _JITTER)
        return often, max(jittered, self._pay_back(task, elapsed))

    def _floor(self, wanted: float) -> float:
        """Return the part of its rate that a main thread has whatever the looks cost."""
        works = min(wanted / _WORKING_SHARE, 1.0)
        part = (_WAITING_PART + (_WORKING_PART - _WAITING_PART) * works) * (_IN_A_CROWD if self._crowded else 1.0)
        return min(_MAIN_THREADS / max(self.processes, 1), 1.0) * part

    def _share(self, busy: bool, rate: float) -> float:
        """Return the part of its rate that another thread has whatever the looks cost."""
        number = len(self._busy) if busy else self.threads - len(self._busy)
        return min((_FOR_BUSY if busy else _FOR_PARKED) / (rate * max(number, 1)), 1.0)

    def _pay_back(self, task: Task, elapsed: float) -> float:
        """Return the seconds until the thread may be held up again."""
        task.owed_s = max(task.owed_s - self.budget * elapsed, 0.0)
        excess = task.owed_s - self.budget * _CREDIT_S
        return excess / self.budget if excess > 0 and self.budget else 0.0


def _wanted(task: Task, before: Counters | None, elapsed: float) -> float:
    """Return the share of the time since the look before in which the thread was on a CPU, or waited for one."""
    if before is None or task.counters is None or not elapsed:
        return float(task.look is not None and task.look.running)
    wanted = task.counters.run_ns - before.run_ns + task.counters.delay_ns - before.delay_ns
    return wanted / elapsed / 1e9
