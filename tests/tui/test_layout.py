"""Where panels go: nothing overlaps, nothing gets less than it needs, nothing is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.tui.layout import TWO_COLUMNS, Need, Place, arrange, share
from gputop.tui.panels import PANELS
from tests.fakes.source import SCENES
from tests.tui.running import places, still

SIZES = [(1, 1), (20, 5), (40, 10), (60, 15), (80, 24), (100, 30), (120, 30), (160, 48), (200, 60), (400, 100)]


@pytest.mark.parametrize("name", sorted(SCENES))
@pytest.mark.parametrize("size", SIZES)
def test_panels_fill_their_places_exactly(name: str, size: tuple[int, int]) -> None:
    """Every panel draws exactly the rows and cells it is given, at every size, whatever the data."""
    from gputop.tui.cells import width_of

    scene = still(name)
    found = places(scene, *size)
    assert "header" in found
    for panel in PANELS:
        if panel.key in found:
            place = found[panel.key]
            lines = panel.draw(scene, place.width, place.height)
            assert len(lines) == place.height, panel.key
            assert {width_of(line) for line in lines} == {place.width}, panel.key


@pytest.mark.parametrize("name", sorted(SCENES))
@pytest.mark.parametrize("size", SIZES)
def test_places_do_not_overlap_and_stay_inside(name: str, size: tuple[int, int]) -> None:
    taken: set[tuple[int, int]] = set()
    for place in places(still(name), *size).values():
        cells = {(x, y) for x in range(place.x, place.x + place.width) for y in range(place.y, place.y + place.height)}
        assert not cells & taken
        taken |= cells
    assert all(x < size[0] and y < size[1] for x, y in taken)


def test_what_matters_most_is_kept_longest() -> None:
    scene = still("launched")
    kept = [set(places(scene, 40, height)) for height in (2, 3, 6, 10, 40)]
    assert kept[0] == {"header", "status"}
    assert {"header", "verdict", "timeline", "status"} <= kept[2]
    assert "hot" in kept[3]
    assert kept[4] == {panel.key for panel in PANELS} - {"notes", "message", "threads"}
    assert all(small <= large for small, large in pairwise(kept))


def test_wide_screens_have_two_columns() -> None:
    scene = still("starved")
    wide, narrow = places(scene, TWO_COLUMNS, 40), places(scene, TWO_COLUMNS - 1, 40)
    assert wide["cores"].x > wide["hot"].width
    assert wide["hot"].y == wide["gpus"].y
    assert narrow["cores"].x == 0


_NEEDS = st.lists(
    st.builds(
        Need,
        key=st.uuids().map(str),
        column=st.sampled_from(["full", "left", "right"]),
        priority=st.integers(0, 9),
        minimum=st.integers(1, 6),
        want=st.integers(6, 40),
        weight=st.floats(0.5, 5),
    ),
    min_size=1,
    max_size=8,
)


@given(_NEEDS, st.integers(0, 60))
def test_rows_are_shared_without_loss(needs: list[Need], height: int) -> None:
    rows = share(needs, height)
    assert sum(rows) <= height
    for need, got in zip(needs, rows, strict=True):
        assert got == 0 or need.minimum <= got <= need.want
    if all(rows):
        assert sum(rows) == min(height, sum(need.want for need in needs))


def test_an_empty_screen_has_no_places() -> None:
    assert arrange([Need("a", "full", 0, 1, 1)], 0, 0) == {}
    assert arrange([Need("a", "full", 0, 1, 9)], 5, 3) == {"a": Place(0, 0, 5, 3)}
