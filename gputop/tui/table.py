"""The rows of the hottest functions or lines: filtered, ordered with hysteresis, with a cursor that follows its row."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.analysis.results import FunctionRow, LineRow, Summary
from gputop.analysis.rules_python import is_library
from gputop.analysis.states import COMPUTE, groups
from gputop.tui.order import Order
from gputop.tui.view import View

Row = FunctionRow | LineRow
Key = tuple[str, ...]

#: Rows below this share of the window are noise.
_LEAST = 0.0005


def key(row: Row) -> Key:
    """Return what identifies a row from one tick to the next."""
    return (row.file, str(row.line)) if isinstance(row, LineRow) else (row.file, row.name)


def name(row: Row) -> str:
    """Return the function that a row is of."""
    return row.function if isinstance(row, LineRow) else row.name


def is_own(row: Row) -> bool:
    """Return whether a row is of the user's own code."""
    return not is_library(row.file)


def matches(row: Row, text: str) -> bool:
    """Return whether a filter's text is in the function or the file, without regard to case."""
    return text.lower() in f"{name(row)} {row.file}".lower()


def _shown(row: Row, view: View) -> bool:
    return row.total_share >= view.least and (not view.own or is_own(row)) and matches(row, view.filter)


def following(found: Sequence[int], at: int | None, step: int) -> int | None:
    """Return the match after a place (step 1), before it (-1), or at it or after (0), round the end; None for none."""
    if not found:
        return None
    here = -1 if at is None else at
    if step < 0:
        return next((place for place in reversed(found) if place < here), found[-1])
    return next((place for place in found if place >= here + step), found[0])


def _worth(row: Row, sort: str) -> float:
    """Return what a row is ranked by."""
    if sort == "total":
        return row.total_share
    return row.self_share * (1 - groups(dict(row.states))[COMPUTE]) if sort == "doing" else row.self_share


class Table:
    """The rows to show, in order, and where the cursor is."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.found = 0
        self._order = Order()
        self._page = 1

    def update(self, summary: Summary | None, view: View) -> None:
        """Take the rows of a new summary, or of a changed view."""
        source: Sequence[Row] = () if summary is None else summary.lines if view.by_line else summary.functions
        kept = {key(row): row for row in source if row.total_share >= _LEAST}
        self.found = len(kept)
        kept = {name: row for name, row in kept.items() if _shown(row, view)}
        self.rows = self._sorted(kept, view)
        self._clamp(view)

    def _sorted(self, rows: dict[Key, Row], view: View) -> list[Row]:
        if view.sort == "function":
            return sorted(rows.values(), key=lambda row: (name(row).lower(), row.file, row.line))
        if view.sort == "file":
            return sorted(rows.values(), key=lambda row: (row.file, row.line, name(row)))
        values = {name: _worth(row, view.sort) for name, row in rows.items()}
        return [
            rows[name] for name in self._order.settle(values, f"{view.sort} {view.by_line} {view.paused} {view.range}")
        ]

    def cursor(self, view: View) -> int | None:
        """Return the place of the selected row, None while nothing is selected or it is not in the table."""
        if view.selected is None:
            return None
        return next((place for place, row in enumerate(self.rows) if key(row) == view.selected), None)

    def move(self, view: View, step: int) -> None:
        """Move the cursor by rows; the first move selects the first row shown."""
        if not self.rows:
            return
        place = self.cursor(view)
        place = view.top if place is None else min(len(self.rows) - 1, max(0, place + step))
        self.select(view, place)

    def found_by(self, view: View) -> list[int]:
        """Return the places of the rows that hold the text searched for."""
        return [place for place, row in enumerate(self.rows) if view.search and matches(row, view.search)]

    def find(self, view: View, step: int) -> bool:
        """Go to the next row that holds the text searched for, or the one before; 0: stay where it is one already."""
        place = following(self.found_by(view), self.cursor(view), step)
        if place is not None:
            self.select(view, place)
        return place is not None

    def select(self, view: View, place: int) -> None:
        """Put the cursor on a row, and scroll so that it is shown."""
        if 0 <= place < len(self.rows):
            view.selected = key(self.rows[place])
            view.top = min(max(view.top, place - self._page + 1), place)

    def scroll(self, view: View, step: int) -> None:
        """Scroll without moving the cursor."""
        view.top += step
        self._clamp(view)

    def fitted(self, view: View, page: int) -> list[Row]:
        """Return the rows that a page of this many shows, and remember its size."""
        self._page = max(1, page)
        self._clamp(view)
        return self.rows[view.top : view.top + page]

    @property
    def page(self) -> int:
        """Return how many rows were shown last."""
        return self._page

    def _clamp(self, view: View) -> None:
        view.top = max(0, min(view.top, len(self.rows) - self._page))
