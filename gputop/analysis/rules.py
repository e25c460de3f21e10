"""What a thread is doing, decided from one look at it: the small engine behind `rules_table`.

A look gives the native frames, leaf first; what counts is where they enter something known. Two cuts make that
precise. Frames of the C library, the loader and the vdso work for their caller, so the first frame outside them
("home") says whose code runs. And what lies below the nearest Python function is what that function called: frames
above it belong to its callers and say nothing about this wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from gputop.analysis.rules_frames import tags
from gputop.analysis.rules_python import FrameRule, find
from gputop.analysis.rules_table import RULES, Rule
from gputop.model import Observation, Stack


class Classified(NamedTuple):
    """A state of `gputop.analysis.states` and what kind of it ("sync"), empty when there is but one."""

    state: str
    kind: str = ""

    @property
    def detail(self) -> str:
        """Return both in one word ("gpu_wait.sync"), the state alone when it has no kind."""
        return f"{self.state}.{self.kind}" if self.kind else self.state


@dataclass(frozen=True, slots=True)
class _Look:
    """An observation with its frames' tags; the fields are those of `Rule`."""

    observation: Observation
    call: frozenset[str]
    leaf: frozenset[str]
    home: frozenset[str]
    near: frozenset[str]
    under: frozenset[str]
    only: frozenset[str]


def _look(observation: Observation) -> _Look:
    chain = [tags(frame) for frame in observation.chain]
    near = chain[: 1 + next((i for i, found in enumerate(chain) if "eval" in found), len(chain))]
    own = [found for found in chain if "system" not in found]
    return _Look(
        observation,
        call=_nearest_call(near, exact=observation.complete),
        # What it was about to sleep in when it was stopped is not what it did.
        leaf=frozenset() if observation.running and observation.syscall else _union(near[:1]),
        home=own[0] if own else frozenset(),
        near=_union(near),
        under=_union(chain),
        only=frozenset.intersection(*own) if own else frozenset(),
    )


def _union(found: list[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*found)


def _nearest_call(near: list[frozenset[str]], exact: bool) -> frozenset[str]:
    """Return the group of the nearest CUDA entry point.

    Where the chain is not exact, return addresses of earlier calls may be among its frames; then the call counts
    only while CUDA's own code is running.
    """
    home = next((found for found in near if "system" not in found), frozenset())
    if not exact and "cuda" not in home:
        return frozenset()
    calls = (tag[5:] for found in near for tag in found if tag.startswith("cuda:"))
    return frozenset({call for call in [next(calls, "")] if call})


def _matches(rule: Rule, look: _Look) -> bool:
    seen = look.observation
    return (
        (rule.running is None or rule.running == seen.running)
        and (not rule.stopped or rule.stopped == seen.stopped)
        and (rule.unreadable is None or rule.unreadable == bool(seen.unreadable))
        and (not rule.syscalls or (not seen.running and seen.syscall in rule.syscalls))
        and (not rule.waits_on or seen.waits_on in rule.waits_on)
        and (not rule.call or not rule.call.isdisjoint(look.call))
        and (not rule.leaf or not rule.leaf.isdisjoint(look.leaf))
        and (not rule.home or not rule.home.isdisjoint(look.home))
        and (not rule.near or not rule.near.isdisjoint(look.near))
        and (not rule.under or not rule.under.isdisjoint(look.under))
        and (not rule.only or rule.only in look.only)
    )


def match(observation: Observation) -> Rule:
    """Return the first rule that holds for an observation; the last one holds for all."""
    look = _look(observation)
    return next(rule for rule in RULES if _matches(rule, look))


@lru_cache(maxsize=8192)
def classify(observation: Observation, gpu: bool = True) -> Classified:
    """Tell what a thread was doing when it was looked at.

    Arguments:
        observation: what was seen.
        gpu: the process may use a GPU. Where it does not, what XLA and TensorFlow wait for is their own pool of CPU
            threads; the call chains are the same.
    """
    rule = match(observation)
    if rule.kind == "await" and not gpu:
        return Classified("lock", "pool")
    return Classified(rule.state, rule.kind)


def tells_of_gpu(classified: Classified) -> bool:
    """Tell whether only a process that uses a GPU has a thread in this state."""
    if classified.kind == "await":
        return False
    return classified.state in ("gpu_wait", "gpu_api") or classified == ("idle", "driver")


@lru_cache(maxsize=8192)
def refine(classified: Classified, stack: Stack) -> Classified:
    """Tell more precisely what a thread waits for, from its Python stack (root first) at that moment.

    A wait in a lock or a pipe may be a wait for the data loader, a peer or an event; a thread at work stays as it is.
    """
    rule: FrameRule | None = find(classified.state, stack)
    return Classified(rule.state, rule.kind) if rule else classified
