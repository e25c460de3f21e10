"""Text selected with the mouse: from one cell to another, as terminals do it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.style import Style
from textual.strip import Strip

_CHOSEN = Style(reverse=True)


class Selection(NamedTuple):
    """From the cell where the mouse went down to the one where it is, both (row, column)."""

    anchor: tuple[int, int]
    end: tuple[int, int]

    def columns(self, row: int, width: int) -> tuple[int, int]:
        """Return the first column selected in a row, and the one after the last; the same twice for none."""
        (top, left), (bottom, right) = sorted(self)
        if not top <= row <= bottom:
            return 0, 0
        return left if row == top else 0, min(width, right + 1) if row == bottom else width

    def text(self, strips: Sequence[Strip]) -> str:
        """Return what is selected, without blanks at the lines' ends."""
        found = []
        for row, strip in enumerate(strips):
            start, end = self.columns(row, strip.cell_length)
            if start < end:
                found.append(strip.crop(start, end).text.rstrip())
        return "\n".join(found)

    def shown(self, row: int, strip: Strip) -> Strip:
        """Return a row with what is selected of it in reverse video."""
        start, end = self.columns(row, strip.cell_length)
        if start >= end:
            return strip
        middle = strip.crop(start, end).apply_style(_CHOSEN)
        return Strip.join([strip.crop(0, start), middle, strip.crop(end, strip.cell_length)])
