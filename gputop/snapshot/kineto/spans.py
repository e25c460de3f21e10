"""Arithmetic on stretches of time: unions, gaps, overlaps, self times. All times are microseconds."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

Span = tuple[float, float]


class Intervals:
    """Many (start, duration, number) triples in little memory."""

    def __init__(self) -> None:
        self.starts = array("d")
        self.durations = array("d")
        self.numbers = array("l")

    def __len__(self) -> int:
        return len(self.starts)

    def add(self, start: float, duration: float, number: int) -> None:
        """Keep one."""
        self.starts.append(start)
        self.durations.append(duration)
        self.numbers.append(number)

    def pairs(self) -> Iterator[tuple[int, float]]:
        """Yield (number, duration)."""
        return zip(self.numbers, self.durations, strict=True)

    def ordered(self) -> list[int]:
        """Return the positions by start; of those that start together the longest, the outer one, first."""
        return sorted(range(len(self)), key=lambda i: (self.starts[i], -self.durations[i]))

    def spans(self) -> Iterator[Span]:
        """Yield (start, end), in order."""
        for i in self.ordered():
            yield self.starts[i], self.starts[i] + self.durations[i]


def joined(*all_of: Intervals) -> Intervals:
    """Return the triples of several in one."""
    whole = Intervals()
    for one in all_of:
        whole.starts.extend(one.starts)
        whole.durations.extend(one.durations)
        whole.numbers.extend(one.numbers)
    return whole


def union(spans: Iterable[Span]) -> list[Span]:
    """Join spans, given by start, that touch or overlap."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and start <= joined[-1][1]:
            if end > joined[-1][1]:
                joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined


def total(spans: Iterable[Span]) -> float:
    """Return the length of disjoint spans."""
    return sum(end - start for start, end in spans)


def gaps(joined: Sequence[Span], window: Span) -> list[Span]:
    """Return what of the window a union leaves open."""
    edges = [window[0], *(edge for span in joined for edge in span), window[1]]
    return [(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if end > start]


def overlap(one: Sequence[Span], other: Sequence[Span]) -> float:
    """Return how long two unions are open together."""
    shared, i, j = 0.0, 0, 0
    while i < len(one) and j < len(other):
        shared += max(0.0, min(one[i][1], other[j][1]) - max(one[i][0], other[j][0]))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return shared


def self_times(calls: Intervals) -> Iterator[tuple[int, float, float]]:
    """Yield (number, start, microseconds without the calls inside) for the nested calls of one thread."""
    opened: list[tuple[float, float, int, float]] = []  # end, start, number, time of the calls inside
    for i in calls.ordered():
        start, duration = calls.starts[i], calls.durations[i]
        while opened and opened[-1][0] <= start:
            yield _closed(opened)
        opened.append((start + duration, start, calls.numbers[i], 0.0))
    while opened:
        yield _closed(opened)


def innermost(calls: Intervals) -> Iterator[tuple[int, float, float]]:
    """Yield (number, start, end) of the stretches in which a call of one thread runs and none inside it, in order."""
    opened: list[tuple[float, int]] = []  # end, number
    at = float("-inf")
    for i in calls.ordered():
        start = calls.starts[i]
        while opened and opened[-1][0] <= start:
            end, number = opened.pop()
            if end > at:
                yield number, at, end
                at = end
        if opened and start > at:
            yield opened[-1][1], at, start
        at = max(at, start)
        opened.append((start + calls.durations[i], calls.numbers[i]))
    while opened:
        end, number = opened.pop()
        if end > at:
            yield number, at, end
            at = end


def within(stretches: Sequence[tuple[int, float, float]], window: Span) -> dict[int, float]:
    """Return the time of each number within a window; the stretches are in order and apart from each other."""
    sums: dict[int, float] = {}
    first = bisect_right(stretches, window[0], key=lambda stretch: stretch[2])
    for number, start, end in islice(stretches, first, None):
        if start >= window[1]:
            break
        sums[number] = sums.get(number, 0.0) + min(end, window[1]) - max(start, window[0])
    return sums


def _closed(opened: list[tuple[float, float, int, float]]) -> tuple[int, float, float]:
    end, start, number, inside = opened.pop()
    if opened:
        outer = opened[-1]
        opened[-1] = (*outer[:3], outer[3] + end - start)
    return number, start, max(0.0, end - start - inside)
