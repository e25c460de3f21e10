"""The slice tracks of a trace: for each thread its Python stacks, and below them what it was doing.

Slices are B/E pairs, never X: HTA takes every X for an operator, and TensorBoard's plugin fails on an X without a
category. Both ignore B and E, Perfetto draws them. An E has the name of its B: speedscope and the plugin want one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gputop.analysis import rules
from gputop.model import NativeFrame, Observation, Stack
from gputop.snapshot.shot import Shot, place, steps
from gputop.snapshot.track_ids import STACKS_TID, STATES_TID
from gputop.store import Peek, Segment, ThreadKey

#: Frames of a native chain kept in a slice's arguments, leaf first.
CHAIN_LIMIT = 16

#: Being without a CPU for less than this (seconds a look) is part of the slice it interrupted.
STARVED_VISIBLE = 1e-3
_READY = Observation(running=True)

#: Looks this close (seconds) follow each other; more is time that was not looked at.
_ADJACENT = 1e-4


@dataclass(frozen=True, slots=True)
class Axis:
    """The trace's clock: microseconds since `base_ns` (Unix nanoseconds, CLOCK_REALTIME), as Kineto counts them."""

    epoch: float
    base_ns: int

    def us(self, time: float) -> float:
        """Return a monotonic time on this axis."""
        return time * 1e6 + (self.epoch - self.base_ns / 1e9) * 1e6


def metadata(name: str, pid: int, tid: int, /, **arguments: object) -> str:
    """Return a metadata event that names or sorts a process or thread."""
    return json.dumps({"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": arguments})


def named_track(pid: int, tid: int, name: str, position: int) -> Iterator[str]:
    """Yield the events that name a thread's track and sort it to `position`."""
    yield metadata("thread_name", pid, tid, name=name)
    yield metadata("thread_sort_index", pid, tid, sort_index=position)


def stack_track(shot: Shot, key: ThreadKey, pid: int, axis: Axis) -> Iterator[str]:
    """Yield the stacks of a thread as nested slices, a string of events for each change."""
    opened: dict[tuple[str, str, int], str] = {}
    ends: list[str] = []  # of the functions that are open, outermost first
    offset = axis.us(0.0)
    track = f'"pid":{pid},"tid":{STACKS_TID + key.tid},"ts":'
    for step in steps(shot.stacks(key)):
        at = f"{track}{step.time * 1e6 + offset:.3f}"
        events = [f'{{"ph":"E",{at},"name":{ends.pop()}}}' for _ in range(step.closed)]
        for frame in step.opened:
            name = json.dumps(frame.name)
            body = opened.get(frame)
            if body is None:
                arguments = json.dumps({"at": place(frame)})
                body = opened[frame] = f'"name":{name},"cat":"stack","args":{arguments}'
            ends.append(name)
            events.append(f'{{"ph":"B",{at},{body}}}')
        yield ",\n".join(events)


def state_track(shot: Shot, key: ThreadKey, pid: int, axis: Axis, *, gpu: bool) -> Iterator[str]:
    """Yield what a thread was doing, a slice for each stretch in one state with one native chain.

    `gpu`: the program uses one.
    """
    offset = axis.us(0.0)
    track = f'"pid":{pid},"tid":{STATES_TID + key.tid},"ts":'
    bodies: dict[tuple[str, str, Observation], str] = {}
    for doing in doings(shot.store.peeks(key, shot.window), shot.store.segments(key, shot.window), gpu):
        what = doing.state, doing.kind, doing.observation
        body = bodies.get(what)
        if body is None:
            body = bodies[what] = _state_body(*what)
        start, end = doing.start * 1e6 + offset, doing.end * 1e6 + offset
        yield f'{{"ph":"B",{track}{start:.3f},{body}}},\n{{"ph":"E",{track}{end:.3f},"name":"{doing.state}"}}'


class Doing(NamedTuple):
    """A thread was in one state, with one native chain, from `start` to `end`."""

    start: float
    end: float
    state: str
    kind: str
    observation: Observation


def doings(peeks: Iterable[Peek], segments: Iterable[Segment], gpu: bool = True) -> Iterator[Doing]:
    """Join looks of one state and chain that follow each other; `segments` tell the Python stack at each.

    A look may stand for more time than has passed since the one before; what that one covers stays its own. `gpu` says
    whether the target uses a GPU, as for `rules.classify`.
    """
    current: Doing | None = None
    for doing in _looks(peeks, segments, gpu):
        if current is not None:
            start = max(doing.start, current.end)
            if doing.end <= start:
                continue
            if current[2:] == doing[2:] and start - current.end < _ADJACENT:
                current = current._replace(end=doing.end)
                continue
            yield current
            doing = doing._replace(start=start)
        current = doing
    if current is not None:
        yield current


def _looks(peeks: Iterable[Peek], segments: Iterable[Segment], gpu: bool) -> Iterator[Doing]:
    """Yield each look's time in parts: without a CPU, then in the state seen."""
    stacks = _StackAt(segments)
    for peek in peeks:
        seen = rules.refine(rules.classify(peek.observation, gpu), stacks.at(peek.time))
        for start, ready, end in _pieces(peek):
            if ready > start:
                yield Doing(start, ready, "starved", "", _READY)
            if end > ready:
                yield Doing(ready, end, seen.state, seen.kind, peek.observation)


def _pieces(peek: Peek) -> Iterator[tuple[float, float, float]]:
    """Yield (start, got a CPU, end); the time without a CPU is spread evenly over the looks that a peek joins."""
    start = peek.time - peek.seconds
    if peek.starved < STARVED_VISIBLE * peek.looks:
        yield start, start, peek.time
        return
    each = peek.seconds / peek.looks
    for number in range(peek.looks):
        at = start + number * each
        yield at, at + peek.starved / peek.looks, at + each


class _StackAt:
    """The Python stack at ever later times."""

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._coming = iter(segments)
        self._segment: Segment | None = next(self._coming, None)

    def at(self, time: float) -> Stack:
        while self._segment is not None and self._segment.end <= time:
            self._segment = next(self._coming, None)
        if self._segment is None or self._segment.start > time:
            return ()
        return self._segment.stack


def _state_body(state: str, kind: str, seen: Observation) -> str:
    arguments: dict[str, str] = {}
    if kind:
        arguments["kind"] = kind
    if seen.chain:
        cut = len(seen.chain) > CHAIN_LIMIT or not seen.complete
        arguments["native"] = " ← ".join([*map(_symbol, seen.chain[:CHAIN_LIMIT]), *["…"] * cut])
    if seen.syscall:
        arguments["system call"] = seen.syscall
    if seen.waits_on:
        arguments["waits on"] = seen.waits_on
    if seen.unreadable:
        arguments["unreadable"] = seen.unreadable
    return f'"name":{json.dumps(state)},"cat":"state","args":{json.dumps(arguments)}'


def _symbol(frame: NativeFrame) -> str:
    return frame.symbol or f"[{frame.module or 'generated code'}]"
