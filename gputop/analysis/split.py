"""What a thread's time went into."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from gputop.analysis import tiles
from gputop.analysis.results import States
from gputop.analysis.rules import Classified
from gputop.analysis.tally import NO_STACK, Tally
from gputop.model import NA, Observation, Stack, Window
from gputop.store import Cpu, Store, ThreadKey

#: Tells the state that was observed, more precisely where the Python stack at that time is known.
Classify = Callable[[Observation, Stack | None], Classified]

Seconds = Mapping[Classified, float]

#: An observation's identity to what it was found to be where the Python stack is known.
Habits = Mapping[int, Seconds]

STARVED = Classified("starved")
#: Where only the kernel's CPU times are known: the thread was on a CPU, or it was not.
ON_CPU, BLOCKED = Classified("unknown", "on_cpu"), Classified("unknown", "blocked")


class StackTime(NamedTuple):
    """How long a Python stack was there, and what the thread did in that time (seconds that sum to `seconds`)."""

    stack: Stack
    seconds: float
    states: Seconds


@dataclass(frozen=True, slots=True)
class Split:
    """What one thread did over a window.

    Attributes:
        looks: how often it was looked at.
        seconds: the time that the looks stand for.
        time: state and kind to seconds; sums to `seconds` unless nobody looked.
        stacks: the same by Python stack, over the time for which stacks are known.
        unlooked: seconds of stacks in which nobody looked; they got the states of the rest of the stack's time, or
            the thread's where there is none.
    """

    looks: int
    seconds: float
    time: Seconds
    stacks: tuple[StackTime, ...]
    unlooked: float

    @property
    def states(self) -> States:
        """Return the states' shares."""
        return shares(self.time)

    @property
    def detail(self) -> Mapping[str, float]:
        """Return the shares of "state.kind", for states that have kinds."""
        total = sum(self.time.values())
        return {what.detail: seconds / total for what, seconds in self.time.items() if what.kind and total}


def shares(time: Seconds) -> States:
    """Return each state's share, kinds merged; the shares sum to 1, or there are none."""
    merged: dict[str, float] = defaultdict(float)
    for what, seconds in time.items():
        if seconds > 0:
            merged[what.state] += seconds
    total = sum(merged.values())
    return {state: seconds / total for state, seconds in merged.items()}


def thread_states(store: Store, key: ThreadKey, window: Window, cpu: Cpu | None = None) -> Split:
    """Return what a thread did over the window.

    Arguments:
        cpu: its CPU use over the window; tells apart on a CPU and blocked where no look could be taken.
    """
    kept = tiles.of(store)
    return split(kept.tally(store, key, window), kept.classified, cpu)


def split(tally: Tally, classify: Classify, cpu: Cpu | None = None, habits: Habits = MappingProxyType({})) -> Split:
    """Tell what the seconds of a tally went into.

    For some time no Python stack is known (py-spy attaches for a tenth of each second, and is a second late). The same
    native wait is then taken to have been what it was at other times: those of the tally, else those of `habits`.
    """
    by_stack = _by_stack(tally, classify, habits)
    time = _summed(by_stack.values())
    if cpu and all(what.state == "unknown" for what in time):
        time = _by_cpu(cpu)
    stacks = tuple(
        StackTime(tally.stack(number), seconds, scaled(by_stack.get(number) or time, seconds))
        for number, seconds in tally.stacks.items()
        if seconds > 0
    )
    unlooked = sum(
        max(0.0, seconds - sum(by_stack.get(number, {}).values())) for number, seconds in tally.stacks.items()
    )
    return Split(tally.looks, sum(time.values()), time, stacks, unlooked)


def habits(tally: Tally, classify: Classify) -> Habits:
    """Return what each observation was found to be where the Python stack is known."""
    found: dict[int, dict[Classified, float]] = defaultdict(lambda: defaultdict(float))
    for (seen, stack), seconds in tally.looked.items():
        if stack != NO_STACK:
            found[seen][classify(tally.observation(seen), tally.stack(stack))] += seconds
    return found


def _by_stack(tally: Tally, classify: Classify, elsewhere: Habits) -> dict[int, dict[Classified, float]]:
    here = habits(tally, classify)
    by_stack: dict[int, dict[Classified, float]] = defaultdict(lambda: defaultdict(float))
    for (seen, stack), seconds in tally.looked.items():
        known = None if stack == NO_STACK else tally.stack(stack)
        if known is None and (usual := here.get(seen) or elsewhere.get(seen)):
            parts = scaled(usual, seconds)
        else:
            parts = {classify(tally.observation(seen), known): seconds}
        for what, part in parts.items():
            by_stack[stack][what] += part
    for stack, seconds in tally.starved.items():
        by_stack[stack][STARVED] += seconds
    return by_stack


def _summed(parts: Iterable[Seconds]) -> dict[Classified, float]:
    time: dict[Classified, float] = defaultdict(float)
    for states in parts:
        for what, seconds in states.items():
            time[what] += seconds
    return dict(time)


def scaled(time: Seconds, seconds: float) -> dict[Classified, float]:
    """Return the same shares of another time."""
    total = sum(time.values())
    return {what: part * seconds / total for what, part in time.items()} if total else {}


def _by_cpu(cpu: Cpu) -> dict[Classified, float]:
    """Split a thread's time by its CPU use, as far as that is known."""
    if isinstance(cpu.cpu, NA):
        return {}
    on_cpu = min(1.0, cpu.cpu)
    starved = 0.0 if isinstance(cpu.starved, NA) else min(1.0 - on_cpu, cpu.starved)
    split = {ON_CPU: on_cpu, STARVED: starved, BLOCKED: 1.0 - on_cpu - starved}
    return {what: share * cpu.seconds for what, share in split.items() if share * cpu.seconds > 0}
