"""Marked ranges on the time axis, and the way from a column of the screen to a time and back."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor

from gputop.analysis.results import Timeline, Window
from gputop.tui.bars import merged
from gputop.tui.cells import Line
from gputop.tui.view import Scene, View

#: Times of columns are sums of fractions.
_ROUNDING = 1e-6
#: What the last two marked ranges are called.
NAMES = "AB"


def name(view: View) -> str:
    """Return what the range that is shown is called; empty where none is."""
    if view.range is None:
        return ""
    return next(
        (f"range {letter}" for letter, marked in zip(NAMES, view.ranges, strict=False) if marked == view.range),
        "a range",
    )


def _shown(scene: Scene) -> Iterator[tuple[str, Window]]:
    """Yield what is marked now, with the letter that it begins with."""
    view = scene.view
    if view.mark is not None and scene.summary is not None:
        yield "m", Window(view.mark, max(view.mark, scene.summary.window.end))
    yield from zip(NAMES, view.ranges, strict=False)
    if view.dragged is not None:
        yield " ", view.dragged


def over(scene: Scene, timeline: Timeline | None, text: str) -> Line:
    """Return the axis with the marks over its text."""
    cells = [(char, "faint") for char in text]
    bar = scene.glyphs.meter[0]
    for letter, marked in _shown(scene):
        first, last = _cells(timeline, marked, len(cells))
        for place in range(max(0, first), min(len(cells), last + 1)):
            cells[place] = (letter if place == first and letter != " " else bar, "accent!b")
    return merged(cells)


def _cells(timeline: Timeline | None, marked: Window, count: int) -> tuple[int, int]:
    """Return the first and the last cell of the axis that a range is in; the newest column is the last cell."""
    if timeline is None or not timeline.columns:
        return count, count
    step, begin = timeline.columns[-1].seconds or 1.0, timeline.columns[0].start
    offset = count - len(timeline.columns)
    first, end = floor((marked.start - begin) / step + _ROUNDING), ceil((marked.end - begin) / step - _ROUNDING)
    return first + offset, max(first, end - 1) + offset


def between(timeline: Timeline, start: int, end: int, count: int) -> Window | None:
    """Return the time from one cell of the axis to another, both counted in; None before the first column."""
    columns = timeline.columns[-count:]
    if not columns:
        return None
    missing = count - len(columns)
    first, last = sorted(max(0, min(len(columns) - 1, cell - missing)) for cell in (start, end))
    return Window(columns[first].start, columns[last].start + columns[last].seconds)
