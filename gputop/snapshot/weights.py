"""How long each thread spent in each Python stack: what the formats without a time axis are made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from gputop.model import Stack
from gputop.snapshot.shot import Shot
from gputop.snapshot.tracks import doings
from gputop.store import ThreadKey

#: Less than this (seconds) is what is left over when times are subtracted.
_DUST = 1e-7


class Weight(NamedTuple):
    """A thread was in `stack` (root first) and `state` for `seconds`; `state` is empty where no look told it."""

    key: ThreadKey
    stack: Stack
    state: str
    seconds: float


def weights(shot: Shot) -> Iterator[Weight]:
    """Yield the time in each stack and state, thread by thread."""
    for key in shot.threads():
        sums: defaultdict[tuple[Stack, str], float] = defaultdict(float)
        for stack, state, seconds in _joined(shot, key):
            sums[stack, state] += seconds
        for (stack, state), seconds in sums.items():
            if seconds > _DUST:
                yield Weight(key, stack, state, seconds)


def _joined(shot: Shot, key: ThreadKey) -> Iterator[tuple[Stack, str, float]]:
    """Cut each stack's time where the state changes."""
    coming = doings(shot.store.peeks(key, shot.window), shot.store.segments(key, shot.window))
    doing = next(coming, None)
    for segment in shot.store.segments(key, shot.window):
        at = segment.start
        while at < segment.end:
            while doing is not None and doing.end <= at:
                doing = next(coming, None)
            if doing is None or doing.start >= segment.end:
                until, state = segment.end, ""
            elif doing.start > at:
                until, state = doing.start, ""
            else:
                until, state = min(doing.end, segment.end), doing.state
            yield segment.stack, state, until - at
            at = until
