"""Joins a thread's native looks with its Python stacks by time, and adds up the seconds.

Each look stands for the time before it, each Python stack for the time it was there. Both come sorted, so one walk
along them finds how long what was seen coincided with which stack. Tallies of neighbouring times can be added, which
makes them worth keeping (see `gputop.analysis.tiles`).

Time between looks: a look that is more than `REACH` periods and more than `LEAST_REACH_S` after the one before stands
for one period only. The rest of the gap was not looked at and counts for nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from gputop.model import Observation, Stack
from gputop.store import Peek, Segment

#: A look this many periods and this many seconds after the one before leaves a gap.
REACH, LEAST_REACH_S = 4, 0.5

#: In place of a stack's identity: no Python stack is known for that time.
NO_STACK = 0


def _sums() -> defaultdict[int, float]:
    return defaultdict(float)


@dataclass(slots=True)
class Tally:
    """Seconds by what was seen.

    Observations and stacks are keyed by identity (the store keeps equal ones once), because a deep stack takes longer
    to hash than all the rest of its sum; `objects` keeps them alive and finds them.

    Attributes:
        looks: how many looks there were.
        looked: (observation, stack or NO_STACK) to the seconds that both lasted, without the starved ones.
        starved: stack or NO_STACK to the seconds without a CPU.
        stacks: stack to the seconds it was there, looked at or not.
    """

    looks: int = 0
    looked: defaultdict[tuple[int, int], float] = field(default_factory=lambda: defaultdict(float))
    starved: defaultdict[int, float] = field(default_factory=_sums)
    stacks: defaultdict[int, float] = field(default_factory=_sums)
    objects: dict[int, Observation | Stack] = field(default_factory=dict)

    def observation(self, number: int) -> Observation:
        """Return the observation with this identity."""
        item = self.objects[number]
        assert isinstance(item, Observation)
        return item

    def stack(self, number: int) -> Stack:
        """Return the stack with this identity."""
        item = self.objects[number]
        assert isinstance(item, tuple)
        return item

    def add(self, other: Tally) -> None:
        """Add the tally of another time."""
        self.looks += other.looks
        for pair, seconds in other.looked.items():
            self.looked[pair] += seconds
        for stack, seconds in other.starved.items():
            self.starved[stack] += seconds
        for stack, seconds in other.stacks.items():
            self.stacks[stack] += seconds
        self.objects.update(other.objects)


def tally(peeks: Sequence[Peek], segments: Sequence[Segment]) -> Tally:
    """Add up what one thread did; both in order of time."""
    result = Tally()
    segments = _apart(segments)
    for segment in segments:
        result.stacks[id(segment.stack)] += segment.end - segment.start
        result.objects[id(segment.stack)] = segment.stack
    first = 0
    for peek in _reaching(peeks):
        result.looks += peek.looks
        result.objects[id(peek.observation)] = peek.observation
        first = _join(result, peek, segments, first)
    return result


def _join(result: Tally, peek: Peek, segments: Sequence[Segment], first: int) -> int:
    """Share out one look among the segments that it covers; return where the next look may begin to search."""
    seen, end = id(peek.observation), peek.time
    at = end - peek.seconds
    ready = 1.0 - peek.starved / peek.seconds if peek.seconds else 1.0
    pieces: list[tuple[int, float]] = []
    while first < len(segments) and segments[first].end <= at:
        first += 1
    index = first
    while at < end and index < len(segments) and segments[index].start < end:
        segment = segments[index]
        if segment.start > at:
            pieces.append((NO_STACK, segment.start - at))
            at = segment.start
        until = min(segment.end, end)
        pieces.append((id(segment.stack), until - at))
        at = until
        index += 1
    if at < end:
        pieces.append((NO_STACK, end - at))
    for stack, seconds in pieces:
        result.looked[seen, stack] += seconds * ready
        if ready < 1.0:
            result.starved[stack] += seconds * (1.0 - ready)
    return first


def _reaching(peeks: Sequence[Peek]) -> Sequence[Peek]:
    """Cut looks back to the time for which they may stand."""
    if all(peek.seconds <= LEAST_REACH_S * peek.looks for peek in peeks):
        return peeks
    period = median(peek.seconds / peek.looks for peek in peeks)
    reach = max(REACH * period, LEAST_REACH_S)
    return [peek if peek.seconds <= reach * peek.looks else _cut(peek, period) for peek in peeks]


def _cut(peek: Peek, period: float) -> Peek:
    part = period * peek.looks / peek.seconds
    return peek._replace(seconds=peek.seconds * part, starved=peek.starved * part)


def _apart(segments: Sequence[Segment]) -> Sequence[Segment]:
    """Return segments that do not overlap: where two do, the earlier one counts."""
    apart: list[Segment] = []
    until = float("-inf")
    for segment in segments:
        if segment.start < until:
            if segment.end <= until:
                continue
            segment = segment._replace(start=until)
        apart.append(segment)
        until = segment.end
    return apart
