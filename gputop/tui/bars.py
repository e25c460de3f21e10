"""Bars, stacked areas and curves as rows of cells; pure functions.

In colour, areas are solid and meet inside a cell at an eighth, by drawing the lower one as a block on the upper
one's colour; a letter every few cells says which state it is. Without colour, or in ASCII, each cell is the
state's own glyph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from gputop.analysis.states import BY_ID, STATES
from gputop.model import NA, Value
from gputop.tui.cells import Line, Span
from gputop.tui.glyphs import Glyphs

#: (name, eighths of a cell), from the start of the bar.
Parts = tuple[tuple[str, int], ...]
#: Fills what no part covers.
EMPTY = "track"
_ORDER = {state.id: index for index, state in enumerate(STATES)}
#: A letter stands in one of so many cells of an area, in a diagonal pattern.
_LETTER_EVERY = 14


class Cell(NamedTuple):
    """One cell: `eighths` of it belong to `low`, the rest to `high`."""

    low: str
    high: str
    eighths: int

    @property
    def main(self) -> str:
        """Return the part that has most of the cell."""
        return self.low if self.eighths >= 4 else self.high


def quantise(shares: Iterable[tuple[str, float]], cells: int) -> Parts:
    """Return the shares in eighths of `cells` cells, rounded so that they add up."""
    parts: list[tuple[str, int]] = []
    total, done = 0.0, 0
    for name, share in shares:
        total += share
        end = min(8 * cells, round(8 * cells * total))
        if end > done:
            parts.append((name, end - done))
            done = end
    return tuple(parts)


def in_order(states: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return (state, share) pairs in the order in which states are stacked."""
    return sorted(states, key=lambda item: _ORDER.get(item[0], len(_ORDER)))


@lru_cache(8192)
def split(parts: Parts, cells: int, empty: str = EMPTY) -> tuple[Cell, ...]:
    """Return the cells of a bar; where three parts meet in one cell, the smallest is left out."""
    bounds: list[tuple[int, int, str]] = []
    position = 0
    for name, eighths in (*parts, (empty, 8 * cells)):
        bounds.append((position, position + eighths, name))
        position += eighths
    return tuple(_cell(bounds, 8 * index) for index in range(cells))


def _cell(bounds: Sequence[tuple[int, int, str]], start: int) -> Cell:
    end = start + 8
    inside = [(min(high, end) - max(low, start), name) for low, high, name in bounds if low < end and start < high]
    if len(inside) == 1:
        return Cell(inside[0][1], inside[0][1], 8)
    largest = sorted(range(len(inside)), key=lambda index: -inside[index][0])[:2]
    (low, low_name), (high, high_name) = (inside[index] for index in sorted(largest))
    return Cell(low_name, high_name, min(7, max(1, round(8 * low / (low + high)))))


def bar(shares: Iterable[tuple[str, float]], width: int, glyphs: Glyphs, coloured: bool, empty: str = EMPTY) -> Line:
    """Return a horizontal bar of parts, each (style name or state id, share of the width)."""
    cells = split(quantise(shares, width), width, empty)
    return merged(_drawn(cell, glyphs.left, glyphs, coloured) for cell in cells)


def meter(parts: Iterable[tuple[str, float]], width: int, glyphs: Glyphs) -> Line:
    """Return a thin meter: parts, each (style name, share of the width), on a faint track; half a cell is the step."""
    full, half, empty = glyphs.meter
    spans: list[Span] = []
    for cell in split(quantise(parts, width), width, EMPTY):
        if cell.low == EMPTY:
            spans.append((empty, "rule"))
        elif cell.high == EMPTY:
            spans.append((half, cell.low))
        else:
            spans.append((full, cell.main))
    return merged(spans)


def stack(columns: Sequence[Parts], height: int, first: int, glyphs: Glyphs, coloured: bool) -> list[Line]:
    """Return `height` rows, top first, of columns stacked upwards; `first` numbers the columns for the letters."""
    grid = [split(column, height, "base") for column in columns]
    return [
        merged(
            _area(cells[height - 1 - row], first + index + 5 * row, glyphs, coloured)
            for index, cells in enumerate(grid)
        )
        for row in range(height)
    ]


def _area(cell: Cell, place: int, glyphs: Glyphs, coloured: bool) -> Span:
    if cell.low == cell.high and coloured and glyphs.fine and cell.low in BY_ID and place % _LETTER_EVERY == 0:
        return BY_ID[cell.low].letter, _letter_style(cell.low)
    return _drawn(cell, glyphs.up, glyphs, coloured)


def _letter_style(name: str) -> str:
    return f"{'idle_letter' if name == 'idle' else 'letter'}/{name}"


def _drawn(cell: Cell, pieces: str, glyphs: Glyphs, coloured: bool) -> Span:
    if not (coloured and glyphs.fine):
        return _glyph(cell.main, glyphs)
    if cell.low != cell.high:
        return pieces[cell.eighths], f"{cell.low}/{cell.high}"
    return " ", _letter_style(cell.low)


def _glyph(name: str, glyphs: Glyphs) -> Span:
    if name in (EMPTY, "base"):
        return " ", "text"
    return glyphs.states.get(name, glyphs.up[-1]), name


def curve(values: Sequence[Value], height: int, style: str, glyphs: Glyphs) -> list[Line]:
    """Return `height` rows, top first, of a filled curve of shares; nothing is drawn where nothing was measured."""
    steps = 4 * height if glyphs.name == "braille" else (len(glyphs.up) - 1) * height
    levels = [None if isinstance(value, NA) else round(steps * min(1.0, max(0.0, value))) for value in values]
    per_row = steps // height
    rows: list[Line] = []
    for row in range(height):
        floor = (height - 1 - row) * per_row
        rows.append(((_curve_row(levels, floor, per_row, row == height - 1, glyphs), style),))
    return rows


def _curve_row(levels: Sequence[int | None], floor: int, per_row: int, bottom: bool, glyphs: Glyphs) -> str:
    text = []
    before = levels[0] if levels else None
    for level in levels:
        if level is None:
            text.append(" ")
        else:
            height = _inside(level, floor, per_row, bottom)
            last = height if before is None else _inside(before, floor, per_row, bottom)
            text.append(glyphs.curve(last, height) if glyphs.name == "braille" else glyphs.up[height])
        before = level
    return "".join(text)


def _inside(level: int, floor: int, per_row: int, bottom: bool) -> int:
    """Return how much of a row is filled; a measured 0 still shows its base line."""
    height = min(per_row, max(0, level - floor))
    return max(1, height) if bottom else height


def merged(spans: Iterable[Span]) -> Line:
    """Join neighbouring spans of one style; a blank joins any span on the same background (fewer bytes to write)."""
    out: list[Span] = []
    texts: list[str] = []
    current = ""
    for text, style in spans:
        if text == " " and "/" in style and current.endswith(style[style.index("/") :]):
            texts.append(text)
            continue
        if style != current and texts:
            out.append(("".join(texts), current))
            texts = []
        current = style
        texts.append(text)
    if texts:
        out.append(("".join(texts), current))
    return tuple(out)
