"""Where panels go: a pure function of the size of the screen and of what each panel wants.

Panels never get less than their minimum: where the screen is too small, those of the lowest priority are left
out. From `TWO_COLUMNS` cells up, the panels of the "right" column stand beside those of the "left" one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

TWO_COLUMNS = 116
#: The right column's share of the width.
_RIGHT_SHARE, _WIDEST_RIGHT = 0.44, 90
_GAP = 2


class Place(NamedTuple):
    """A rectangle of cells."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class Need:
    """What one panel asks for.

    Attributes:
        key: the panel.
        column: "full", "left" or "right"; "over" lies on the rows above the last one and moves nothing.
        priority: 0 is kept longest.
        minimum: rows below which it is left out.
        want: rows above which it has no use for more.
        weight: how fast it grows towards `want`.
    """

    key: str
    column: str
    priority: int
    minimum: int
    want: int
    weight: float = 1.0


def arrange(needs: Sequence[Need], width: int, height: int) -> dict[str, Place]:
    """Return the places of the panels that fit, in the order of `needs` from the top."""
    over = [need for need in needs if need.column == "over"]
    places = _beside([need for need in needs if need.column != "over"], width, height)
    for need in over:
        if need.minimum:
            places[need.key] = Place(0, height - 1 - need.minimum, width, need.minimum)
    return places


def _beside(needs: Sequence[Need], width: int, height: int) -> dict[str, Place]:
    if width < TWO_COLUMNS:
        return _stacked(needs, 0, 0, width, height)
    body = [need for need in needs if need.column != "full"]
    columns = {side: [need for need in body if need.column == side] for side in ("left", "right")}
    outer = _with_body(needs, columns, height)
    places = _stacked(outer, 0, 0, width, height)
    area = places.pop("body", None)
    if area is not None:
        right = right_width(width)
        left = width - right - _GAP
        places |= _stacked(columns["left"], 0, area.y, left, area.height)
        places |= _stacked(columns["right"], left + _GAP, area.y, right, area.height)
    return places


def right_width(width: int) -> int:
    """Return the width of the right column on a screen of this width."""
    return min(_WIDEST_RIGHT, round(width * _RIGHT_SHARE))


def _with_body(needs: Sequence[Need], columns: Mapping[str, list[Need]], height: int) -> list[Need]:
    """Replace the panels of the two columns by one that stands for both."""
    outer: list[Need] = []
    for need in needs:
        if need.column == "full":
            outer.append(need)
        elif not any(other.key == "body" for other in outer):
            left = columns["left"]
            smallest = sum(item.minimum for item in left)
            weight = sum(item.weight for item in left)
            outer.append(Need("body", "full", min(item.priority for item in left), smallest, height, weight))
    return outer


def _stacked(needs: Sequence[Need], x: int, y: int, width: int, height: int) -> dict[str, Place]:
    places = {}
    for need, rows in zip(needs, share(needs, height), strict=True):
        if rows:
            places[need.key] = Place(x, y, width, rows)
            y += rows
    return places


def share(needs: Sequence[Need], height: int) -> list[int]:
    """Return each panel's rows, 0 for those left out."""
    rows = [0] * len(needs)
    spare = height
    for index in sorted(range(len(needs)), key=lambda index: needs[index].priority):
        if needs[index].want >= needs[index].minimum <= spare and needs[index].minimum:
            rows[index] = needs[index].minimum
            spare -= rows[index]
    _grow(needs, rows, spare)
    return rows


def _grow(needs: Sequence[Need], rows: list[int], spare: int) -> None:
    """Hand out the spare rows, each to the panel that has least for its weight."""
    for _ in range(spare):
        hungry = [index for index, need in enumerate(needs) if rows[index] and rows[index] < need.want]
        if not hungry:
            return
        rows[min(hungry, key=lambda index: rows[index] / needs[index].weight)] += 1
