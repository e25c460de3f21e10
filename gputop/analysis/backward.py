"""A training loop's main thread sleeps in `backward()` while a thread of PyTorch launches the kernels for it.

That time is the main thread's answer too, so where a thread is the headline, what its autograd thread did stands in the
place of waiting for it. In the list of threads each keeps its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from gputop.analysis.results import ThreadRow
from gputop.analysis.rules import Classified
from gputop.analysis.tally import Seconds
from gputop.store import ThreadKey

WAITING = Classified("lock", "autograd")


def worker(rows: Mapping[ThreadKey, ThreadRow], waits: ThreadKey) -> ThreadKey | None:
    """Return the autograd thread that worked most in the process of the thread that waits for it; None without one."""
    found = [key for key, row in rows.items() if row.role == "autograd" and key.pid == waits.pid]
    return max(found, key=lambda key: 1 - rows[key].states.get("idle", 0.0), default=None)


def told(mine: Seconds, theirs: Seconds) -> Seconds:
    """Return a thread's time with its waiting for the autograd thread told by what that one did when not idle."""
    waiting = mine.get(WAITING, 0.0)
    work = {what: seconds for what, seconds in theirs.items() if what.state != "idle"}
    total = sum(work.values())
    if not waiting or not total:
        return mine
    merged = {what: seconds for what, seconds in mine.items() if what != WAITING}
    for what, seconds in work.items():
        merged[what] = merged.get(what, 0.0) + seconds * waiting / total
    return merged
