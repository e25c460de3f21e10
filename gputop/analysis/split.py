"""What a thread's time went into."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from gputop.analysis import balance, tiles
from gputop.analysis.native import CUT, NativeCall
from gputop.analysis.results import States
from gputop.analysis.rules import Classified
from gputop.analysis.tally import STARVED, Classify, NativeTime, Seconds, StackTime, Tally
from gputop.model import NA, Frame, Stack, Window
from gputop.store import Cpu, Store, ThreadKey

#: Where only the kernel's CPU times are known: the thread was on a CPU, or it was not.
ON_CPU, BLOCKED = Classified("unknown", "on_cpu"), Classified("unknown", "blocked")


class StackSplit(NamedTuple):
    """A stack and what its time went into."""

    stack: Stack
    time: Seconds


@dataclass(frozen=True, slots=True)
class Split:
    """What one thread did over a window.

    Attributes:
        looks: how often it was looked at.
        seconds: the time that is accounted for.
        time: state and kind to seconds; they sum to `seconds`.
        stacks: the same by Python stack, over all the time for which stacks are known; where none are, by the frame
            that looks read, without its callers; for a thread of a program without Python, by native calls
            (`native.called`), over the time for which it was looked at.
        unlooked: seconds of stacks at which nobody looked; they are taken to be as the rest of the stack's time, or as
            the thread's time where there is none.
    """

    looks: int
    seconds: float
    time: Seconds
    stacks: tuple[StackSplit, ...]
    unlooked: float

    @property
    def states(self) -> States:
        """Return the states' shares, which sum to 1; empty when nothing is accounted for."""
        return shares(self.time)

    @property
    def detail(self) -> Mapping[str, float]:
        """Return the shares of "state.kind", for states that have kinds."""
        return {what.detail: seconds / self.seconds for what, seconds in self.time.items() if what.kind and seconds > 0}

    @property
    def python(self) -> bool:
        """Tell whether it showed a Python stack."""
        return any(not isinstance(frame, NativeCall) for stack, _ in self.stacks[:1] for frame in stack[-1:])


def thread_states(
    store: Store, key: ThreadKey, window: Window, cpu: Cpu | None = None, native: bool | None = None
) -> Split:
    """Return what a thread did over the window.

    Arguments:
        cpu: its CPU use over the window; tells on a CPU from blocked where no look was possible.
        native: whether its process is `without_python`, where the caller knows.
    """
    kept = tiles.of(store)
    alone = without_python(store, (key.pid,), window)[key.pid] if native is None else native
    tally = kept.tally(store, key, window, native=alone)
    seen = split(tally, kept.classified, cpu)
    if seen.stacks or not alone:
        return seen
    stacks = (StackSplit(calls.stack, calls.seen) for calls in tally.native.get(None, {}).values())
    return replace(seen, stacks=tuple(stacks))


def merged(store: Store, key: ThreadKey, window: Window, stacks: Iterable[StackSplit]) -> Iterator[StackSplit]:
    """Yield a thread's stacks with the native calls that each one's last line made, as far as looks tell."""
    native = Tally()
    for part in tiles.of(store).native(store, key, window):
        native.take_calls(part)
    for stack, time in stacks:
        below = native.native.get(stack[-1]) if stack else None
        yield from _hung(stack, time, below.values()) if below else (StackSplit(stack, time),)


def without_python(store: Store, pids: Iterable[int], window: Window) -> dict[int, bool]:
    """Tell which processes are known to run no Python in a window, so that their native calls tell of their code."""
    session = store.session
    known = (*((session.root,) if session else ()), *store.gone().values(), *store.processes(inf))
    processes = {process.pid: process for process in known}
    return {
        pid: pid in processes and processes[pid].python is None and not store.stacks_cover(pid, window) for pid in pids
    }


def split(tally: Tally, classify: Classify, cpu: Cpu | None = None) -> Split:
    """Tell what the seconds of a tally went into."""
    time = times(tally, tally, classify)
    if cpu and set(time) <= {ON_CPU, BLOCKED}:
        time = by_cpu(cpu)
    stacks, unlooked, balanced = [], 0.0, balance.seconds(tally)
    for entry, seen in _seen(tally):
        if entry.seconds > 0:
            seconds = balanced.get(id(entry.stack), entry.seconds)
            stacks.append(StackSplit(entry.stack, _scaled(seen or time, seconds)))
            unlooked += max(0.0, entry.seconds - sum(seen.values()))
    if not tally.stacks:
        stacks = [StackSplit((frame,), seen) for frame, seen in tally.lines.items()]
    return Split(tally.looks, sum(time.values()), time, tuple(stacks), unlooked)


def _hung(stack: Stack, time: Seconds, below: Iterable[NativeTime]) -> Iterator[StackSplit]:
    """Share a stack's time out among the native calls below it, each state by what was seen in that state."""
    whole: dict[Classified, float] = {}
    for calls in below:
        for what, seconds in calls.seen.items():
            whole[what] = whole.get(what, 0.0) + seconds
    for calls in below:
        part = {what: time[what] * seconds / whole[what] for what, seconds in calls.seen.items() if time.get(what)}
        if part:
            yield StackSplit((*stack, *(call for call in calls.stack if call is not CUT)), part)
    if rest := {what: seconds for what, seconds in time.items() if not whole.get(what)}:
        yield StackSplit(stack, rest)


def _seen(tally: Tally) -> Iterator[tuple[StackTime, Seconds]]:
    """Yield each stack with what was seen in it.

    Looks in a frame that fell on no stack with that last frame are shared out among the stacks that end in it. A stack
    whose last frame was in no look takes what was seen in other lines of the same function, else what was seen at the
    same time.
    """
    if not tally.lines:
        yield from ((entry, entry.seen) for entry in tally.stacks.values())
        return
    ending, functions = _ending(tally), _functions(tally)
    for entry in tally.stacks.values():
        leaf = entry.stack[-1] if entry.stack else None
        seen: Seconds = entry.seen
        if leaf in ending:
            part = entry.seconds / ending[leaf]
            seen = dict(seen)
            for what, seconds in tally.lines[leaf].items():
                seen[what] = seen.get(what, 0.0) + seconds * part
        yield entry, seen or (leaf and functions.get(leaf[:2])) or entry.beside


def _ending(tally: Tally) -> dict[Frame, float]:
    """Return the seconds of the stacks that end in each frame of `lines`."""
    ending: dict[Frame, float] = {}
    for entry in tally.stacks.values():
        if entry.stack and entry.seconds > 0 and entry.stack[-1] in tally.lines:
            ending[entry.stack[-1]] = ending.get(entry.stack[-1], 0.0) + entry.seconds
    return ending


def _functions(tally: Tally) -> Mapping[tuple[str, str], Seconds]:
    """Return what was seen in each function, as far as looks read their own frame."""
    functions: dict[tuple[str, str], dict[Classified, float]] = defaultdict(lambda: defaultdict(float))
    for frame, seen in tally.lines.items():
        for what, seconds in seen.items():
            functions[frame[:2]][what] += seconds
    return functions


def times(tally: Tally, habits: Tally, classify: Classify) -> Seconds:
    """Return what all the time of a tally went into; `habits` tells what waits without a known stack usually are."""
    time = dict(tally.time)
    for number, wait in tally.waits.items():
        if wait.alone > 0:
            usual = habits.waits.get(number, wait).found or {classify(wait.observation, None): 1.0}
            for what, seconds in _scaled(usual, wait.alone).items():
                time[what] = time.get(what, 0.0) + seconds
    return time


def by_cpu(cpu: Cpu) -> Seconds:
    """Split a thread's time by its CPU use; empty when that is not known either."""
    if isinstance(cpu.cpu, NA):
        return {}
    on_cpu = min(1.0, cpu.cpu)
    starved = 0.0 if isinstance(cpu.starved, NA) else min(1.0 - on_cpu, cpu.starved)
    split = {ON_CPU: on_cpu, STARVED: starved, BLOCKED: 1.0 - on_cpu - starved}
    return {what: share * cpu.seconds for what, share in split.items() if share * cpu.seconds > 0}


def _scaled(time: Seconds, seconds: float) -> Seconds:
    """Return the same shares of another time."""
    total = sum(time.values())
    return {what: part * seconds / total for what, part in time.items()} if total else {}


def shares(time: Seconds) -> States:
    """Return each state's share, kinds merged; the shares sum to 1, or there are none."""
    merged: dict[str, float] = defaultdict(float)
    for what, seconds in time.items():
        if seconds > 0:
            merged[what.state] += seconds
    total = sum(merged.values())
    return {state: seconds / total for state, seconds in merged.items()}
