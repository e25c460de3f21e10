"""How long each thread spent in each stack, native calls below Python's: for formats without a time axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gputop.analysis.split import merged, thread_states
from gputop.model import Stack
from gputop.snapshot.shot import Shot
from gputop.store import ThreadKey

#: Less than this (seconds) is what is left over when times are subtracted.
_DUST = 1e-7


class Weight(NamedTuple):
    """A thread was in `stack` (root first) and `state` ("gpu_wait", "gpu_wait.sync") for `seconds`."""

    key: ThreadKey
    stack: Stack
    state: str
    seconds: float


def weights(shot: Shot) -> Iterator[Weight]:
    """Yield the time in each stack and state, thread by thread."""
    for key in shot.threads():
        stacks = thread_states(shot.store, key, shot.window).stacks
        for stack, time in merged(shot.store, key, shot.window, stacks):
            for what, seconds in time.items():
                if seconds > _DUST:
                    yield Weight(key, stack, what.detail, seconds)
