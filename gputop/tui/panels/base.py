"""What a panel is, and the few things that all of them draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gputop.analysis.results import Window
from gputop.analysis.states import BY_ID
from gputop.tui.cells import Line, Span, line
from gputop.tui.view import Scene


class Rows(NamedTuple):
    """How many rows a panel needs at least, has use for, and how fast it grows between them."""

    minimum: int
    want: int
    weight: float = 1.0


def _no_click(_scene: Scene, _x: int, _y: int, _width: int) -> str:
    return ""


def _no_drag(_scene: Scene, _start: int, _end: int, _width: int) -> Window | None:
    return None


@dataclass(frozen=True)
class Panel:
    """A part of the overview.

    Attributes:
        key: its name.
        column: "full" width, or "left" or "right" on wide screens; "over" lies on others, above the last row.
        priority: 0 is kept longest when the screen gets small.
        rows: what it needs, from the scene and the screen's (width, height); (0, 0) leaves it out.
        draw: its lines, from the scene and its own width and height.
        click: the action that a click at (x, y) asks for, "" for none.
        drag: the range of time from one column to another, None where columns are no times.
    """

    key: str
    column: str
    priority: int
    rows: Callable[[Scene, int, int], Rows]
    draw: Callable[[Scene, int, int], list[Line]]
    click: Callable[[Scene, int, int, int], str] = _no_click
    drag: Callable[[Scene, int, int, int], Window | None] = _no_drag


def rule(scene: Scene, title: Iterable[Span], width: int, right: Iterable[Span] = ()) -> Line:
    """Return a title set in a thin rule; where `right` says nothing the rule goes on to the edge."""
    dash = scene.glyphs.rule
    left = ((dash + " ", "rule"), *title, (" ", "rule"))
    said = [span for span in right if span[0]]
    end = ((" ", "rule"), *said, (" " + dash, "rule")) if said else ()
    return line(left, width, end, (dash, "rule"))


def swatch(scene: Scene, state: str) -> Span:
    """Return the one cell that stands for a state, as the areas of the charts show it."""
    if not (scene.coloured and scene.glyphs.fine):
        return scene.glyphs.states[state], state
    return BY_ID[state].letter, f"{'idle_letter' if state == 'idle' else 'glyph'}/{state}"


def padded(lines: list[Line], width: int, height: int) -> list[Line]:
    """Return exactly `height` lines."""
    blank = line((), width)
    return lines[:height] + [blank] * (height - len(lines))
