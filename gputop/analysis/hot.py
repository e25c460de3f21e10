"""Where the time goes, by function, line and call path.

What counts. A program has one thread that the user waits for, and often dozens that wait for work all day. A list of
functions by wall time over all threads would begin with forty times `queue.get`. So the thread that the answer is about
(the headline) counts with all of its time, its waits too, since those are what the user wants gone; any other thread
counts only with the time in which it computes or uses the GPU. Where no native look is possible, "on a CPU" is taken
for computing. `counted` is the whole rule.

A function is its name and file. Recursion counts once in a total. Shares are of the window's wall time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from gputop.analysis.results import FlameNode, FunctionRow, LineRow, States
from gputop.analysis.rules import Classified
from gputop.analysis.split import ON_CPU, Seconds, Split, shares, thread_states
from gputop.analysis.states import BY_ID, COMPUTE, GPU_WAIT
from gputop.model import Frame, Stack, Window
from gputop.store import Store, ThreadKey

#: Paths of the call tree below this share of its whole are left out.
MIN_SHARE = 0.002


class Weighted(NamedTuple):
    """A Python stack and the seconds of it that count."""

    stack: Stack
    states: Seconds


def counted(time: Seconds, headline: bool) -> Seconds:
    """Return the part of a thread's time that the hottest functions are ranked by."""
    return time if headline else {what: seconds for what, seconds in time.items() if _works(what)}


def _works(what: Classified) -> bool:
    return what == ON_CPU or BY_ID[what.state].group in (COMPUTE, GPU_WAIT)


def weigh(splits: Iterable[tuple[Split, bool]]) -> list[Weighted]:
    """Return all stacks with what counts of their time, from (a thread's split, is it the headline)."""
    return [
        Weighted(stack.stack, states)
        for split, headline in splits
        if headline or any(map(_works, split.time))
        for stack in split.stacks
        if (states := counted(stack.states, headline))
    ]


def _of(store: Store, keys: Sequence[ThreadKey], window: Window, headline: ThreadKey | None) -> list[Weighted]:
    return weigh((thread_states(store, key, window), headline in (None, key)) for key in keys)


def functions(
    store: Store, keys: Sequence[ThreadKey], window: Window, headline: ThreadKey | None = None
) -> tuple[FunctionRow, ...]:
    """Return functions, most self time first.

    Arguments:
        keys: the threads to sum up.
        headline: the thread whose waits count too; None counts everything of all threads.
    """
    return tables(_of(store, keys, window, headline), window.seconds)[0]


def lines(
    store: Store, keys: Sequence[ThreadKey], window: Window, headline: ThreadKey | None = None
) -> tuple[LineRow, ...]:
    """Return source lines, most self time first; arguments as for `functions`."""
    return tables(_of(store, keys, window, headline), window.seconds)[1]


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
    return _flame_tree(_of(store, keys, window, headline), min_share)


# ------------------------------------------------------------------------------------------- functions, lines

_Place = TypeVar("_Place", bound=Hashable)


def _states() -> dict[Classified, float]:
    return defaultdict(float)


@dataclass(slots=True)
class _Sum:
    """Seconds by state, of one function or line: at the top of the stack, and anywhere on it."""

    own: dict[Classified, float] = field(default_factory=_states)
    anywhere: dict[Classified, float] = field(default_factory=_states)

    @property
    def states(self) -> States:
        """Return what its self time went into; what its total time went into where it has none of its own."""
        return shares(self.own or self.anywhere)

    def of(self, seconds: float) -> tuple[float, float]:
        """Return self and total as shares of a time."""
        return sum(self.own.values()) / seconds, sum(self.anywhere.values()) / seconds


def tables(weighted: Iterable[Weighted], seconds: float) -> tuple[tuple[FunctionRow, ...], tuple[LineRow, ...]]:
    """Return functions and source lines, most self time first; `seconds` is the window's length."""
    by_line: dict[Frame, _Sum] = defaultdict(_Sum)
    by_function: dict[tuple[str, str], _Sum] = defaultdict(_Sum)
    for stack, states in weighted:
        if stack:
            _count(by_line, list(stack), states)
            _count(by_function, [frame[:2] for frame in stack], states)
    hottest = _hottest_lines(by_line)
    functions = [FunctionRow(*of, hottest[of], *entry.of(seconds), entry.states) for of, entry in by_function.items()]
    lines = [
        LineRow(frame.file, frame.line, frame.name, *entry.of(seconds), entry.states)
        for frame, entry in by_line.items()
    ]
    return (
        tuple(sorted(functions, key=lambda row: (-row.self_share, -row.total_share, row.file, row.name))),
        tuple(sorted(lines, key=lambda row: (-row.self_share, -row.total_share, row.file, row.line))),
    )


def _count(sums: dict[_Place, _Sum], places: list[_Place], states: Seconds) -> None:
    """Add one stack's time to the places on it, root first."""
    parts = list(states.items())
    for place in set(places):
        anywhere = sums[place].anywhere
        for what, seconds in parts:
            anywhere[what] += seconds
    own = sums[places[-1]].own
    for what, seconds in parts:
        own[what] += seconds


def _hottest_lines(by_line: Mapping[Frame, _Sum]) -> dict[tuple[str, str], int]:
    """Return each function's line with the most self time, else the most total time."""
    best: dict[tuple[str, str], tuple[float, float, int]] = {}
    for frame, entry in by_line.items():
        rank = *entry.of(1.0), frame.line
        best[frame[:2]] = max(rank, best.get(frame[:2], rank))
    return {place: line for place, (_, _, line) in best.items()}


# -------------------------------------------------------------------------------------------------- call tree


_ROOT = Frame("all", "", 0)


@dataclass(slots=True)
class _Node(_Sum):
    frame: Frame = _ROOT
    children: dict[Frame, _Node] = field(default_factory=dict)

    def child(self, frame: Frame) -> _Node:
        """Return the node of a call from here, made when missing."""
        node = self.children.get(frame)
        if node is None:
            node = self.children[frame] = _Node(frame=frame)
        return node

    def add(self, states: Seconds) -> None:
        """Count time spent here or below."""
        for what, seconds in states.items():
            self.anywhere[what] += seconds


def _flame_tree(weighted: Iterable[Weighted], min_share: float) -> FlameNode:
    root = _Node()
    for stack, states in weighted:
        node = root
        node.add(states)
        for frame in stack:
            node = node.child(frame)
            node.add(states)
        for what, seconds in states.items():
            node.own[what] += seconds
    return _frozen(root, min_share * root.of(1.0)[1])


def _frozen(root: _Node, least: float) -> FlameNode:
    """Return the tree without what takes less than `least` seconds; no recursion, since stacks may be very deep."""
    order = [root]
    for node in order:
        order += (child for child in node.children.values() if child.of(1.0)[1] >= least)
    done: dict[int, FlameNode] = {}
    for node in reversed(order):
        children = [done[id(child)] for child in node.children.values() if id(child) in done]
        children.sort(key=lambda child: -child.total)
        own, total = node.of(1.0)
        done[id(node)] = FlameNode(node.frame, total, own, shares(node.anywhere), tuple(children))
    return done[id(root)]
