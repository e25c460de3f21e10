"""The mouse: text selected and copied, hints clicked, and what that must not disturb."""

from __future__ import annotations

from rich.segment import Segment
from textual.strip import Strip

from gputop.tui.screens.overview import Overview
from gputop.tui.screens.source import SourceScreen
from gputop.tui.screens.threads import Threads
from gputop.tui.selection import Selection
from tests.tui.running import page, running, text, until


def _strips(*rows: str) -> list[Strip]:
    return [Strip([Segment(row)]) for row in rows]


def test_a_selection_runs_from_cell_to_cell_over_whole_lines_between() -> None:
    rows = _strips("abcdef  ", "ghi     ", "jklmnop ")
    forwards, backwards = Selection((0, 2), (2, 3)), Selection((2, 3), (0, 2))
    assert forwards.text(rows) == backwards.text(rows) == "cdef\nghi\njklm"
    assert Selection((1, 0), (1, 1)).text(rows) == "gh"
    assert Selection((0, 2), (2, 3)).shown(1, rows[1]).text == rows[1].text
    styled = forwards.shown(0, rows[0])
    assert [(part.text, bool(part.style and part.style.reverse)) for part in styled] == [
        ("ab", False),
        ("cdef  ", True),
    ]
    assert Selection((1, 0), (1, 1)).shown(0, rows[0]) is rows[0]


async def test_dragging_over_text_copies_it_and_is_no_click() -> None:
    async with running(size=(120, 30)) as (app, pilot):
        canvas = app.screen.query_one("#verdict")
        row = canvas.region.y
        at = text(app, "verdict").splitlines()[0].index("idle")
        await pilot.mouse_down(offset=(at, row))
        await pilot.hover(offset=(at + 8, row))
        await pilot.mouse_up(offset=(at + 8, row))
        await pilot.pause()
        assert app.clipboard == "idle 72 %"
        assert isinstance(app.screen, Overview), "the end of the selection opened something"
        await until(pilot, lambda: "copied" in text(app, "message"))


async def test_hints_can_be_clicked_on_every_screen_that_has_them() -> None:
    async with running(size=(120, 30)) as (app, pilot):
        await pilot.press("t")
        await until(pilot, lambda: isinstance(app.screen, Threads))
        foot = page(app).splitlines()[-1]
        await pilot.click(offset=(foot.index("source"), 29))
        await until(pilot, lambda: isinstance(app.screen, SourceScreen))
        foot = page(app).splitlines()[-1]
        await pilot.click(offset=(foot.index("pause"), 29))
        assert "PAUSED" in page(app)
        await pilot.click(offset=(page(app).splitlines()[-1].index("back"), 29))
        await until(pilot, lambda: isinstance(app.screen, Overview))


async def test_a_page_closes_by_a_click_on_its_words() -> None:
    async with running(size=(120, 30)) as (app, pilot):
        await pilot.press("w")
        await until(pilot, lambda: not isinstance(app.screen, Overview))
        await pilot.click(offset=(20, 5))
        assert not isinstance(app.screen, Overview)
        await pilot.click(offset=(page(app).splitlines()[0].index("back"), 0))
        await until(pilot, lambda: isinstance(app.screen, Overview))
