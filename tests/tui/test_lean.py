"""Rows written in few bytes look on the terminal as those written in full."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from gputop.tui import theme
from gputop.tui.lean import LeanStrip

_CONSOLE = Console(color_system="truecolor", force_terminal=True)
_STYLES = [
    palette.style(key)
    for palette in (theme.theme("dark"), theme.theme("ansi"), theme.theme("dark", colour=False))
    for key in ("text", "strong!b", "dim", "ink/warn!b", "letter/python", "python/native", "text/select", "accent!u")
]


def _cells(strip: Strip) -> Iterator[tuple[str, Style | None]]:
    """Yield what each cell of the row shows once a terminal has read it."""
    for text in AnsiDecoder().decode(strip.render(_CONSOLE)):
        for segment in text.render(_CONSOLE):
            for char in segment.text.rstrip("\n"):
                yield char, _seen(char, segment.style)


def _seen(char: str, style: Style | None) -> Style | None:
    if style is None or char != " " or style.reverse or style.underline:
        return style
    return Style(bgcolor=style.bgcolor)


@given(st.lists(st.tuples(st.sampled_from(["ab", " ", "  ", "█"]), st.sampled_from(_STYLES)), max_size=8))
def test_a_lean_row_shows_the_same_in_no_more_bytes(parts: list[tuple[str, Style]]) -> None:
    segments = [Segment(text, style) for text, style in parts]
    full, lean = Strip(segments), LeanStrip(segments)
    assert list(_cells(lean)) == list(_cells(full))
    assert len(lean.render(_CONSOLE)) <= len(full.render(_CONSOLE))


def test_what_is_cut_off_a_lean_row_is_lean() -> None:
    style = theme.theme("dark").style
    row = LeanStrip([Segment("ab", style("text")), Segment("cd", style("dim")), Segment("ef", style("text"))])
    part = row.crop(1, 4)
    assert isinstance(part, LeanStrip)
    assert part.text == "bcd"
    assert part.render(_CONSOLE).count("48;5") == 1, "one ground, written once"
    assert row.crop(0, 6) is row


@pytest.mark.parametrize("system", ["256", "standard"])
def test_fewer_colours_are_written_for_terminals_that_have_fewer(system: str) -> None:
    console = Console(color_system=system, force_terminal=True)  # type: ignore[arg-type]
    written = LeanStrip([Segment("x", theme.theme("dark").style("gpu"))]).render(console)
    assert ("38;5;75" in written) == (system == "256")
