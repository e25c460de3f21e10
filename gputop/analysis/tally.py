"""Joins a thread's native looks with its Python stacks by time, and adds up the seconds.

Both come sorted, so one walk along them finds which stack was there at each look; the time between two looks that saw
the same is shared out by the stacks in between. Tallies of neighbouring times can be added, which makes them worth
keeping (see `gputop.analysis.tiles`).

Times of stacks are known to some 10 ms only, so that what is shorter than that would get its neighbours' states. Where
a look read the thread's own Python frame, that decides: a look that fell on a stack with another last frame is kept for
its own frame (`lines`), and goes to the stacks that end in it (`gputop.analysis.split`).

Time without a stack: py-spy attaches for a tenth of each second and is a second late, and then a wait cannot be told
more precisely by its Python frames. It is taken to have been what the same native wait was at other times (`habits`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from gputop.analysis.rules import Classified
from gputop.analysis.rules_python import is_plumbing
from gputop.model import Frame, Observation, Stack
from gputop.store import Peek, Segment

STARVED = Classified("starved")

#: Tells the state that was observed, more precisely where the Python stack at that time is known.
Classify = Callable[[Observation, Stack | None], Classified]

#: Tells the native calls of a look, outermost first; equal ones are one object.
Called = Callable[[Observation], Stack]

#: State and kind to seconds.
Seconds = Mapping[Classified, float]


def _seconds() -> dict[Classified, float]:
    return defaultdict(float)


@dataclass(slots=True)
class StackTime:
    """How long a Python stack was there, and what the thread was seen to do in that time.

    `beside` are looks at that time that were in another frame.
    """

    stack: Stack
    seconds: float = 0.0
    seen: dict[Classified, float] = field(default_factory=_seconds)
    beside: dict[Classified, float] = field(default_factory=_seconds)


@dataclass(slots=True)
class Wait:
    """A blocked observation: seconds without a known stack, and what it was at times with one.

    `passed` are those of the seconds alone in which the look read a frame that only passes waits on, while the stack of
    that time was another one; as long as they are being added up.
    """

    observation: Observation
    alone: float = 0.0
    passed: dict[Frame, float] = field(default_factory=dict)
    found: dict[Classified, float] = field(default_factory=_seconds)


@dataclass(slots=True)
class NativeTime:
    """Native calls, outermost first (none: the interpreter itself), and what was seen in them."""

    stack: Stack
    seen: dict[Classified, float] = field(default_factory=_seconds)


#: Native calls by the Python frame that made them, each by the identity of its stack.
Below = Mapping[Frame | None, Mapping[int, NativeTime]]


@dataclass(slots=True)
class Tally:
    """What a thread did, in seconds.

    Stacks and observations are keyed by identity (the store keeps equal ones once), because hashing a deep stack takes
    longer than all the rest of its sum.

    Attributes:
        looks: how many looks there were.
        time: what was seen, except waits without a stack, which are in `waits`.
        stacks: the Python stacks.
        lines: what was seen in a frame at times with another stack, or none.
        waits: the blocked observations.
        native: the native calls below each Python frame, below None where there was no such frame; as asked for.
    """

    looks: int = 0
    time: dict[Classified, float] = field(default_factory=_seconds)
    stacks: dict[int, StackTime] = field(default_factory=dict)
    lines: dict[Frame, dict[Classified, float]] = field(default_factory=lambda: defaultdict(_seconds))
    waits: dict[int, Wait] = field(default_factory=dict)
    native: dict[Frame | None, dict[int, NativeTime]] = field(default_factory=dict)

    def stack(self, stack: Stack) -> StackTime:
        """Return the entry of a stack, made when missing."""
        entry = self.stacks.get(id(stack))
        if entry is None:
            entry = self.stacks[id(stack)] = StackTime(stack)
        return entry

    def wait(self, observation: Observation) -> Wait:
        """Return the entry of a blocked observation, made when missing."""
        entry = self.waits.get(id(observation))
        if entry is None:
            entry = self.waits[id(observation)] = Wait(observation)
        return entry

    def calls(self, frame: Frame | None, stack: Stack) -> NativeTime:
        """Return the entry of native calls below a Python frame, made when missing."""
        below = self.native.setdefault(frame, {})
        entry = below.get(id(stack))
        if entry is None:
            entry = below[id(stack)] = NativeTime(stack)
        return entry

    def add(self, other: Tally) -> None:
        """Add the tally of another time."""
        self.looks += other.looks
        _add(self.time, other.time)
        for stack_time in other.stacks.values():
            stack = self.stack(stack_time.stack)
            stack.seconds += stack_time.seconds
            _add(stack.seen, stack_time.seen)
            _add(stack.beside, stack_time.beside)
        for frame, seen in other.lines.items():
            _add(self.lines[frame], seen)
        self.take_calls(other.native)
        self.learn(other)
        for number, wait in other.waits.items():
            self.waits[number].alone += wait.alone

    def take_calls(self, native: Below) -> None:
        """Add the native calls of another time."""
        for frame, below in native.items():
            for calls in below.values():
                _add(self.calls(frame, calls.stack).seen, calls.seen)

    def learn(self, other: Tally) -> None:
        """Take over what another time shows waits to be, not the time itself."""
        for wait in other.waits.values():
            _add(self.wait(wait.observation).found, wait.found)


def _add(sums: dict[Classified, float], more: Seconds) -> None:
    for what, seconds in more.items():
        sums[what] += seconds


def tally(
    peeks: Sequence[Peek], segments: Sequence[Segment], classify: Classify, called: Called | None = None
) -> Tally:
    """Add up what one thread did; both in order of time. Native calls are added up where `called` tells them."""
    result = Tally()
    segments = _apart(segments)
    for segment in segments:
        result.stack(segment.stack).seconds += segment.end - segment.start
    first = 0
    for peek in peeks:
        result.looks += peek.looks
        first, pieces = _covered(peek, segments, first)
        _count(result, peek, pieces, classify, called(peek.observation) if called else None)
    _settle(result, classify)
    return result


def _settle(result: Tally, classify: Classify) -> None:
    """Let waits without the stack of their time be told by the stacks that end in the frame that the look read."""
    ending: dict[Frame, list[StackTime]] = defaultdict(list)
    for entry in result.stacks.values():
        if entry.stack and entry.seconds > 0:
            ending[entry.stack[-1]].append(entry)
    for wait in result.waits.values():
        for frame, seconds in wait.passed.items():
            whole = sum(entry.seconds for entry in ending[frame])
            for entry in ending[frame]:
                what, part = classify(wait.observation, entry.stack), seconds * entry.seconds / whole
                for doing in (result.time, wait.found, entry.seen):
                    doing[what] += part
                wait.alone -= part
        wait.passed.clear()


#: A stack, or None where none is known, and for how long.
_Piece = tuple[Stack | None, float]


def _covered(peek: Peek, segments: Sequence[Segment], first: int) -> tuple[int, list[_Piece]]:
    """Return where the next look may begin to search, and this look's time by stack."""
    end = peek.time
    at = end - peek.seconds if peek.held else end
    while first < len(segments) and segments[first].end < at:
        first += 1
    if not peek.held:
        there = first < len(segments) and segments[first].start < end
        return first, [(segments[first].stack if there else None, peek.seconds)]
    pieces: list[_Piece] = []
    for index in range(first, len(segments)):
        segment = segments[index]
        if segment.start >= end:
            break
        if segment.start > at:
            pieces.append((None, segment.start - at))
            at = segment.start
        until = min(segment.end, end)
        pieces.append((segment.stack, until - at))
        at = until
    if at < end:
        pieces.append((None, end - at))
    return first, pieces


def _count(result: Tally, peek: Peek, pieces: Iterable[_Piece], classify: Classify, native: Stack | None) -> None:
    starved = peek.starved / peek.seconds if peek.seconds else 0.0
    seen = peek.observation
    for stack, seconds in pieces:
        ready = seconds * (1.0 - starved)
        known, places = _places(result, peek, stack)
        # The stack of that time may be another line's: only the frame that the look itself read has its native calls.
        if native is not None and (peek.frame or (native and not stack)):
            places.append(result.calls(peek.frame, native).seen)
        what = classify(seen, known)
        for doing in places:
            doing[what] += ready
            if starved:
                doing[STARVED] += seconds - ready
        if starved:
            result.time[STARVED] += seconds - ready
        if seen.running:
            result.time[what] += ready
        elif known is None:
            wait = result.wait(seen)
            wait.alone += ready
            if peek.frame:
                wait.passed[peek.frame] = wait.passed.get(peek.frame, 0.0) + ready
        else:
            result.time[what] += ready
            result.wait(seen).found[what] += ready


def _places(result: Tally, peek: Peek, stack: Stack | None) -> tuple[Stack | None, list[dict[Classified, float]]]:
    """Return the stack that tells what a look means, and where its time belongs; `stack` is the one of that time."""
    frame = peek.frame
    if frame is None or (stack and stack[-1] == frame):
        return stack, [] if stack is None else [result.stack(stack).seen]
    told = _told(frame)
    if not told and not peek.observation.running:
        return told, []
    return told, [result.lines[frame]] if stack is None else [result.lines[frame], result.stack(stack).beside]


@lru_cache(maxsize=4096)
def _told(frame: Frame) -> Stack | None:
    """Return a frame as a stack that tells what a wait is for; None when the frame only passes waits on."""
    return None if is_plumbing(frame.file) else (frame,)


def _apart(segments: Iterable[Segment]) -> Sequence[Segment]:
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
