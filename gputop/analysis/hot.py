"""Where the time goes, by function, line and call path.

What counts. A program has one thread that the user waits for, and often dozens that wait for work all day. A list of
functions by wall time over all threads would begin with forty times `queue.get`. So the thread that the answer is about
(the headline) counts with all of its time, its waits too, since those are what the user wants gone; any other thread
counts only with the time in which it computes or uses the GPU. Where no native look is possible, "on a CPU" is taken
for computing. `counted` is the whole rule.

A program without Python is told by its native functions, which then are what stacks are made of. With Python they are
parts of the time of the line that called them (`natives`), and leaves of the call tree.

A function is its name and file. Recursion counts once in a total. Shares are of the window's wall time, as far as
Python stacks were watched: what is seen in nine tenths of a window is taken to go on in the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from gputop.analysis.native import CUT, NativeCall
from gputop.analysis.results import FlameNode, FunctionRow, LineRow, NativePart, States
from gputop.analysis.rules import Classified
from gputop.analysis.rules_python import caller
from gputop.analysis.split import ON_CPU, Split, StackSplit, merged, shares, thread_states
from gputop.analysis.states import BY_ID, COMPUTE, GPU_WAIT
from gputop.analysis.tally import Below, Seconds
from gputop.model import Frame, Stack, Window
from gputop.store import Store, ThreadKey

#: Rows returned at most; those after them have no time to speak of.
MOST_ROWS = 250

#: Native functions named at most for a line, and the part of its time that each has at least.
_MOST_PARTS, _LEAST_PART = 8, 0.01

#: Paths of the call tree below this share of its whole are left out.
MIN_SHARE = 0.002


def counted(time: Seconds, headline: bool) -> Seconds:
    """Return the part of a thread's time that the hottest functions are ranked by."""
    return time if headline else {what: seconds for what, seconds in time.items() if _works(what)}


def _works(what: Classified) -> bool:
    return what == ON_CPU or BY_ID[what.state].group in (COMPUTE, GPU_WAIT)


def weigh(splits: Iterable[tuple[Split, bool]]) -> list[StackSplit]:
    """Return all stacks with what counts of their time, from (a thread's split, is it the headline)."""
    return [
        StackSplit(stack, part)
        for split, headline in splits
        if headline or any(map(_works, split.time))
        for stack, time in split.stacks
        if stack and (part := counted(time, headline))
    ]


#: Seconds in the innermost native functions that Python lines called, ("", "") for the interpreter itself.
Natives = Mapping[Frame, Mapping[tuple[str, str], float]]


def natives(parts: Iterable[tuple[Below, bool]]) -> Natives:
    """Return what was seen below each Python frame, as far as it counts, from (native calls, is it the headline's)."""
    found: dict[Frame, dict[tuple[str, str], float]] = {}
    for native, headline in parts:
        for frame, below in native.items():
            if frame is None:
                continue
            into = found.setdefault(frame, {})
            for calls in below.values():
                place = calls.stack[-1][:2] if calls.stack else ("", "")
                into[place] = into.get(place, 0.0) + sum(counted(calls.seen, headline).values())
    return found


def _of(
    store: Store, keys: Sequence[ThreadKey], window: Window, headline: ThreadKey | None
) -> list[tuple[Split, bool]]:
    return [(thread_states(store, key, window), headline in (None, key)) for key in keys]


def with_native(store: Store, splits: Iterable[tuple[ThreadKey, Split, bool]], window: Window) -> list[StackSplit]:
    """Return what `weigh` does, the stacks with the native calls below them."""
    return [
        stack for key, split, headline in splits for stack in merged(store, key, window, weigh([(split, headline)]))
    ]


def watched(store: Store, splits: Mapping[ThreadKey, Split], window: Window) -> float:
    """Return for how many seconds of the window Python stacks were watched, which is what shares are of.

    No thread has more: its last stack may end a sample later than py-spy's window. Where there are no stacks, the time
    looked at counts; the window's length is the last resort.
    """
    covered = max((store.stacks_cover(pid, window) for pid in {key.pid for key in splits}), default=0.0)
    if covered:
        return max(covered, *(sum(sum(time.values()) for _, time in split.stacks) for split in splits.values()))
    return max((split.seconds for split in splits.values() if split.stacks), default=0.0) or window.seconds


def _tables(store: Store, keys: Sequence[ThreadKey], window: Window, headline: ThreadKey | None) -> Tables:
    splits = _of(store, keys, window, headline)
    watched_s = watched(store, {key: split for key, (split, _) in zip(keys, splits, strict=True)}, window)
    return tables(weigh(splits), watched_s)


def functions(
    store: Store, keys: Sequence[ThreadKey], window: Window, headline: ThreadKey | None = None
) -> tuple[FunctionRow, ...]:
    """Return functions, most self time first.

    Arguments:
        keys: the threads to sum up.
        headline: the thread whose waits count too; None counts everything of all threads.
    """
    return _tables(store, keys, window, headline).functions


def lines(
    store: Store, keys: Sequence[ThreadKey], window: Window, headline: ThreadKey | None = None
) -> tuple[LineRow, ...]:
    """Return source lines, most self time first; arguments as for `functions`."""
    return _tables(store, keys, window, headline).lines


def flame(
    store: Store,
    keys: Sequence[ThreadKey],
    window: Window,
    headline: ThreadKey | None = None,
    min_share: float = MIN_SHARE,
) -> FlameNode:
    """Return the call tree, its root named "all"; arguments as for `functions`.

    Arguments:
        min_share: paths with less than this share of the whole are left out.
    """
    splits = ((key, thread_states(store, key, window), headline in (None, key)) for key in keys)
    return tree(with_native(store, splits, window), min_share)


# ------------------------------------------------------------------------------------------- functions, lines

_Place = TypeVar("_Place", bound=Hashable)

#: One mapping for each state: stacks have few states and many frames, so the inner loop runs over frames.
_Sums = dict[Classified, dict[_Place, float]]
#: A place with its self and its total seconds.
_Ranked = tuple[_Place, float, float]


class _Places(Generic[_Place]):
    """Seconds of functions or lines by state: at the top of the stack, and anywhere on it."""

    def __init__(self) -> None:
        self.own: _Sums[_Place] = {}
        self.anywhere: _Sums[_Place] = {}

    def add(self, places: Iterable[_Place], leaf: _Place, time: Seconds) -> None:
        """Count the time of one stack; `places` are the different ones on it."""
        for what, seconds in time.items():
            own = self.own.setdefault(what, {})
            own[leaf] = own.get(leaf, 0.0) + seconds
            anywhere = self.anywhere.setdefault(what, {})
            for place in places:
                anywhere[place] = anywhere.get(place, 0.0) + seconds

    def hottest(self) -> list[_Ranked[_Place]]:
        """Return places with their self and total seconds, most self time first."""
        own, anywhere = _total(self.own), _total(self.anywhere)
        ranked = [(place, own.get(place, 0.0), seconds) for place, seconds in anywhere.items()]
        return sorted(ranked, key=lambda row: (-row[1], -row[2], row[0]))

    def states(self, place: _Place) -> States:
        """Return what a place's self time went into; what its total time went into where it has none of its own."""
        return shares(_at(self.own, place) or _at(self.anywhere, place))

    def total_states(self, place: _Place) -> States:
        """Return what a place's total time went into."""
        return shares(_at(self.anywhere, place))


def _total(sums: _Sums[_Place]) -> dict[_Place, float]:
    total: dict[_Place, float] = {}
    for by_place in sums.values():
        for place, seconds in by_place.items():
            total[place] = total.get(place, 0.0) + seconds
    return total


def _at(sums: _Sums[_Place], place: _Place) -> Seconds:
    return {what: by_place[place] for what, by_place in sums.items() if place in by_place}


class Tables(NamedTuple):
    """Functions and source lines, most self time first."""

    functions: tuple[FunctionRow, ...]
    lines: tuple[LineRow, ...]


def callers(weighted: Iterable[StackSplit], seconds: float) -> tuple[FunctionRow, ...]:
    """Return the functions that the user can change, with the time of what they call in libraries as their own.

    Each stack counts for its innermost frame of the user's code (`rules_python.caller`); most time first.

    Arguments:
        seconds: the length of the window, as far as it was `watched`.
    """
    places: _Places[tuple[str, str]] = _Places()
    lines: dict[tuple[str, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    called: set[tuple[str, str]] = set()
    for stack, time in weighted:
        frame = caller(stack)
        if frame is not None:
            places.add((frame[:2],), frame[:2], time)
            if isinstance(frame, NativeCall):
                called.add(frame[:2])
            lines[frame[:2]][frame.line] += sum(time.values())
    return tuple(
        FunctionRow(
            *place,
            max(lines[place], key=lines[place].__getitem__),
            own / seconds,
            own / seconds,
            places.states(place),
            is_native=place in called,
        )
        for place, own, _ in places.hottest()[:MOST_ROWS]
    )


def tables(weighted: Iterable[StackSplit], seconds: float, native: Natives = MappingProxyType({})) -> Tables:
    """Return functions and source lines, of each the MOST_ROWS with most self time and those with most total time.

    Native functions have no lines.

    Arguments:
        seconds: the length of the window, as far as it was `watched`.
        native: what was seen below Python lines.
    """
    by_line: _Places[Frame] = _Places()
    by_function: _Places[tuple[str, str]] = _Places()
    called: set[tuple[str, str]] = set()
    for stack, time in weighted:
        if isinstance(stack[-1], NativeCall):
            places = {frame[:2] for frame in stack if frame is not CUT}
            called |= places
        else:
            by_line.add(set(stack), stack[-1], time)
            places = {frame[:2] for frame in stack}
        by_function.add(places, stack[-1][:2], time)
    lines = by_line.hottest()
    hottest_line: dict[tuple[str, str], int] = {}
    for frame, _, _ in lines:
        hottest_line.setdefault(frame[:2], frame.line)
    of_functions = _by_function(native)
    function_rows = (
        FunctionRow(
            *place,
            hottest_line.get(place, 0),
            own / seconds,
            total / seconds,
            by_function.states(place),
            _parts(of_functions.get(place, {})),
            place in called,
        )
        for place, own, total in _most(by_function.hottest())
    )
    return Tables(tuple(function_rows), tuple(_line_rows(by_line, lines, seconds, native)))


def _line_rows(
    places: _Places[Frame], hottest: list[_Ranked[Frame]], seconds: float, native: Natives
) -> Iterator[LineRow]:
    for frame, own, total in _most(hottest):
        yield LineRow(
            frame.file,
            frame.line,
            frame.name,
            own / seconds,
            total / seconds,
            places.states(frame),
            places.total_states(frame),
            _parts(native.get(frame, {})),
        )


def _by_function(native: Natives) -> Mapping[tuple[str, str], Mapping[tuple[str, str], float]]:
    sums: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
    for frame, below in native.items():
        into = sums.setdefault(frame[:2], {})
        for place, seconds in below.items():
            into[place] = into.get(place, 0.0) + seconds
    return sums


def _parts(below: Mapping[tuple[str, str], float]) -> tuple[NativePart, ...]:
    """Return the largest parts of a Python line's time by native function, largest first."""
    total = sum(below.values())
    ranked = sorted(((seconds, place) for place, seconds in below.items() if place[0]), reverse=True)[:_MOST_PARTS]
    return tuple(NativePart(*place, seconds / total) for seconds, place in ranked if seconds >= _LEAST_PART * total > 0)


def _most(rows: list[_Ranked[_Place]]) -> list[_Ranked[_Place]]:
    """Return the rows worth keeping: callers have total time alone, and rank last by self time."""
    if len(rows) <= MOST_ROWS:
        return rows
    by_total = {place for place, _, _ in sorted(rows, key=lambda row: -row[2])[:MOST_ROWS]}
    return [row for rank, row in enumerate(rows) if rank < MOST_ROWS or row[0] in by_total]


# -------------------------------------------------------------------------------------------------- call tree


_ROOT = Frame("all", "", 0)


class _Path(NamedTuple):
    """A stack with its time by state, and in all."""

    stack: Stack
    time: Seconds
    seconds: float


@dataclass(slots=True)
class _Node:
    """A call while the tree grows: seconds here and below by state, and seconds here alone."""

    frame: Frame
    time: dict[Classified, float] = field(default_factory=lambda: defaultdict(float))
    own: float = 0.0
    children: list[_Node] = field(default_factory=list)

    def take(self, paths: Iterable[_Path], depth: int) -> Mapping[Frame, list[_Path]]:
        """Count the time of paths that lead here; return those that go on, by the next call."""
        further: dict[Frame, list[_Path]] = defaultdict(list)
        for path in paths:
            for what, seconds in path.time.items():
                self.time[what] += seconds
            if len(path.stack) == depth:
                self.own += path.seconds
            else:
                further[path.stack[depth]].append(path)
        return further


def tree(weighted: Iterable[StackSplit], min_share: float = MIN_SHARE) -> FlameNode:
    """Return the call tree of stacks, its root named "all"; `min_share` as for `flame`.

    It grows call by call, and only where there is enough time: of native calls nearly each look may have others.
    """
    paths = [_Path(stack, time, sum(time.values())) for stack, time in weighted]
    least = min_share * sum(path.seconds for path in paths)
    root = _Node(_ROOT)
    growing, order = [(root, paths, 0)], [root]
    while growing:
        node, below, depth = growing.pop()
        for frame, further in node.take(below, depth).items():
            if sum(path.seconds for path in further) >= least:
                child = _Node(frame)
                node.children.append(child)
                order.append(child)
                growing.append((child, further, depth + 1))
    return _frozen(order)


def _frozen(order: Iterable[_Node]) -> FlameNode:
    """Return the first of nodes, callers first, with all below it; no recursion, since stacks may be very deep."""
    done: dict[int, FlameNode] = {}
    for node in reversed([*order]):
        children = sorted((done.pop(id(child)) for child in node.children), key=lambda child: -child.total)
        total = sum(node.time.values())
        done[id(node)] = last = FlameNode(node.frame, total, node.own, shares(node.time), tuple(children))
    return last
