"""Text and numbers: exact widths whatever the text holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gputop.model import NA
from gputop.text import printable
from gputop.tui import cells

_TEXTS = st.text(max_size=60).map(printable)
_WIDTHS = st.integers(0, 50)


@given(_TEXTS, _WIDTHS)
def test_fit_gives_exactly_the_width(text: str, width: int) -> None:
    assert cell_len(cells.fit(text, width)) == width


@given(_TEXTS, _WIDTHS)
def test_fit_end_gives_exactly_the_width(text: str, width: int) -> None:
    assert cell_len(cells.fit_end(text, width)) == width


@given(st.lists(_TEXTS, max_size=5), st.lists(_TEXTS, max_size=3), _WIDTHS)
def test_a_line_gives_exactly_the_width(left: list[str], right: list[str], width: int) -> None:
    spans = cells.line([(text, "text") for text in left], width, [(text, "dim") for text in right])
    assert cells.width_of(spans) == width


@given(_TEXTS, st.integers(2, 50), st.integers(1, 4))
def test_wrapped_lines_fit(text: str, width: int, most: int) -> None:
    rows = cells.wrap(text, width, most)
    assert len(rows) <= most
    assert all(cell_len(row) <= width for row in rows)


def test_fit_keeps_a_names_start_and_a_paths_end() -> None:
    assert cells.fit("decode_image", 8) == "decode_…"
    assert cells.fit_end("torch/nn/modules/conv.py:548", 14) == "…s/conv.py:548"
    assert cells.fit("ab", 4) == "ab  "


def test_a_line_drops_its_right_part_before_it_cuts_the_left() -> None:
    assert cells.line([("left", "text")], 12, [("right", "dim")]) == (("left   ", "text"), ("right", "dim"))
    assert cells.line([("left", "text")], 8, [("right", "dim")]) == (("left    ", "text"),)
    assert cells.line([("left", "text")], 3) == (("le…", "text"),)


def test_wrap_breaks_at_spaces_and_marks_what_is_cut() -> None:
    assert cells.wrap("one two three", 8) == ["one two", "three"]
    assert cells.wrap("one two three", 8, most=1) == ["one two…"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0:00"), (62, "1:02"), (4364, "1:12:44"), (90061, "1 d 01:01"), (-5, "0:00")]
)
def test_durations(seconds: float, words: str) -> None:
    assert cells.duration(seconds) == words


def test_numbers_have_units_and_what_is_missing_says_so() -> None:
    nothing = NA("no counter")
    assert cells.percent(0.2849) == "28 %"
    assert cells.percent(0.061, 1) == "6.1 %"
    assert cells.percent(nothing) == cells.number(nothing, "W") == cells.size(nothing) == cells.gib(nothing) == "n/a"
    assert cells.number(209.6, "W") == "210 W"
    assert cells.gib(12.4 * 2**30) == "12.4"
    assert cells.gib(140.4 * 2**30) == "140"
    assert [cells.size(value) for value in (812, 812 * 2**10, 3 * 2**20, 11.9 * 2**30)] == [
        "812 B",
        "812 KiB",
        "3 MiB",
        "11.9 GiB",
    ]
