"""Functions with their source: known times beside known lines."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gputop.analysis.results import LineRow
from gputop.target.code import Code
from gputop.tui import listing, syntax
from gputop.tui.cells import width_of
from gputop.tui.glyphs import ASCII, BLOCK
from gputop.tui.listing import Listing, Timed
from gputop.tui.screens.overview import Overview
from gputop.tui.screens.source import SourceScreen, panes
from tests.fakes.program import code_of
from tests.fakes.source import FakeSource
from tests.tui.running import page, running, still, until

_DATA = "/home/ada/train/data.py"


def _listing(at: int = 31) -> Listing:
    scene = still("starved")
    shown = Listing(_DATA, code_of(_DATA))
    shown.update(scene.summary)
    shown.go(at, 20, centre=True)
    return shown


def _drawn(shown: Listing, width: int, height: int, **look: object) -> list[str]:
    scene = still("starved", **look)  # type: ignore[arg-type]
    shown.go(shown.at, listing.page(shown, height), centre=True)
    lines = listing.draw(scene, shown, width, height, focused=True)
    assert {width_of(row) for row in lines} == {width}
    assert len(lines) == height
    return ["".join(text for text, _ in row).rstrip() for row in lines]


def test_each_line_has_its_time_and_the_running_one_its_mark() -> None:
    rows = _drawn(_listing(), 100, 34, glyphs=BLOCK, coloured=False)
    assert rows[0].startswith("─ /home/ada/train/data.py ─")
    assert rows[0].endswith("line 31 of 60 ─")
    assert rows[1].split() == ["self", "total", "doing", "line"]
    hot = next(row for row in rows if " 31  " in row)
    assert hot.split()[:4] == ["39.8", "%", "40.2", "%"]
    assert "▶ 31      return image.convert('RGB')" in hot
    caller = next(row for row in rows if " 22  " in row)
    assert "▶" not in caller
    assert caller.split()[:4] == ["0.6", "%", "50.5", "%"]
    cold = next(row for row in rows if " 27  " in row)
    assert cold.split()[0] == "27"


def test_a_narrow_listing_drops_bars_and_indentation() -> None:
    rows = _drawn(_listing(), 40, 8, glyphs=ASCII)
    assert rows[1].split() == ["total", "line"]
    assert " 40.2 % > 31  return image.convert(" in "\n".join(rows)


@pytest.mark.parametrize("code", [Code(missing="the file changed since the program started"), None])
def test_without_the_text_the_times_are_still_there(code: Code | None) -> None:
    shown = _listing()
    shown.code = code
    rows = _drawn(shown, 80, 14)
    if code is None:
        assert "reading" in rows[1]
    else:
        assert "the file changed since the program started" in rows[2]
        assert any(row.endswith("31  in decode_image") for row in rows)


def test_a_remark_is_shown_above_the_text() -> None:
    shown = _listing()
    shown.code = Code(code_of(_DATA).lines, remark="recorded on node7")
    rows = _drawn(shown, 80, 14)
    assert "recorded on node7" in rows[2]
    assert len(rows) - 3 == listing.page(shown, 14)


def test_hot_lines_in_turn_and_search() -> None:
    shown = _listing(1)
    visited = []
    for _ in range(4):
        shown.go(shown.hot(1), 20)
        visited.append(shown.at)
    assert visited == [22, 31, 57, 57], "line 60 takes too little"
    shown.go(shown.hot(-1), 20)
    assert shown.at == 31
    assert [shown.find("NORMALISE", 1), shown.find("normalise", -1), shown.find("no such", 1)] == [54, 22, 0]


def test_two_functions_on_one_line_count_once_in_all() -> None:
    rows = [
        LineRow("a.py", 3, "f", 0.1, 0.6, {"python": 1.0}, {"native": 1.0}),
        LineRow("a.py", 3, "<lambda>", 0.5, 0.5, {"python": 1.0}, {"python": 1.0}),
        LineRow("a.py", 4, "f", 0.0, 0.0001, {}, {}),
    ]
    (time,) = listing.timed(rows).values()
    assert time == Timed(pytest.approx(0.6), 0.6, {"native": 1.0}, "f")  # type: ignore[arg-type]


def _styles(lines: Sequence[str]) -> dict[int, list[tuple[str, str]]]:
    found = syntax.parts(lines)
    return {number: syntax.spans(text, found.get(number, ())) for number, text in enumerate(lines, 1)}


def test_syntax() -> None:
    shown = _styles(["def f(x):  # why", '    """Two', '    lines."""', "    return f'{x} {'y'}'"])
    assert shown[1] == [
        ("def", "keyword"),
        (" ", "text"),
        ("f", "strong!b"),
        ("(x):  ", "text"),
        ("# why", "comment"),
    ]
    assert shown[2] == [("    ", "text"), ('"""Two', "literal")]
    assert shown[3] == [('    lines."""', "literal")]
    assert "".join(text for text, _ in shown[4]) == "    return f'{x} {'y'}'"


@pytest.mark.parametrize("text", ["x = '", "\x00", "    def f(:\n  )", "if x:\n        y\n   z"])
def test_a_text_that_is_no_python_is_shown_plain(text: str) -> None:
    lines = text.split("\n")
    assert ["".join(part for part, _ in row) for row in _styles(lines).values()] == lines


def test_side_by_side_one_above_the_other_or_in_turn() -> None:
    assert panes(160, 47, False) == ((0, 0, 64, 47), (66, 0, 94, 47))
    assert panes(80, 23, False) == ((0, 0, 80, 7), (0, 7, 80, 16))
    assert panes(40, 9, False) == ((0, 0, 40, 9), None)
    assert panes(40, 9, True) == (None, (0, 0, 40, 9))


async def _opened(app: object, pilot: object, *keys: str) -> SourceScreen:
    await pilot.press(*keys)  # type: ignore[attr-defined]
    await until(pilot, lambda: isinstance(app.screen, SourceScreen))  # type: ignore[arg-type,attr-defined]
    await until(pilot, lambda: app.screen.listing.code is not None)  # type: ignore[arg-type,attr-defined]
    screen = app.screen  # type: ignore[attr-defined]
    assert isinstance(screen, SourceScreen)
    return screen


async def test_enter_on_a_row_opens_its_source_and_the_list_leads() -> None:
    async with running(size=(160, 48)) as (app, pilot):
        screen = await _opened(app, pilot, "down", "enter")
        assert (screen.listing.file, screen.listing.at) == (_DATA, 31)
        assert "▶ 31" in page(app)
        await pilot.press("tab", "down")
        await until(pilot, lambda: screen.listing.file.endswith("train.py") and screen.listing.code is not None)
        assert screen.listing.at == 88
        await pilot.press("down")
        await until(pilot, lambda: "the file is not there" in page(app))
        await pilot.press("escape")
        assert isinstance(app.screen, Overview)


async def test_keys_in_the_source() -> None:
    async with running(size=(160, 48)) as (app, pilot):
        screen = await _opened(app, pilot, "f", "tab")
        for key, line in (("down", 32), ("up", 31), ("full_stop", 57), ("comma", 31), ("home", 1), ("G", 60)):
            await pilot.press(key)
            assert screen.listing.at == line, key
        await pilot.press("slash", *"draft", "enter")
        await until(pilot, lambda: not app.scene.prompt)
        assert screen.listing.at == 30
        await pilot.press("n")
        assert screen.listing.at == 30
        await pilot.press("escape")
        assert app.scene.view.search == ""


async def test_lines_and_search_in_the_list() -> None:
    async with running(size=(160, 48)) as (app, pilot):
        await _opened(app, pilot, "f", "l")
        assert "hottest lines" in page(app)
        await pilot.press("slash", *"data.py", "enter")
        await until(pilot, lambda: not app.scene.prompt)
        places = []
        for key in ("n", "n", "n", "n", "N"):
            await pilot.press(key)
            places.append(app.scene.table.cursor(app.scene.view))
        rows = app.scene.table.rows
        assert all(rows[place].file == _DATA for place in places if place is not None)
        assert len(set(places)) == 4
        assert places[4] == places[2]


async def test_time_travel_moves_the_source_too() -> None:
    async with running(size=(120, 30)) as (app, pilot):
        await _opened(app, pilot, "f")
        now = app.scene.summary
        await pilot.press("left")
        await until(pilot, lambda: app.scene.summary is not now)
        assert "PAUSED" in page(app)
        await pilot.press("end")
        await until(pilot, lambda: "LIVE" in page(app))


async def test_on_a_small_screen_list_and_source_take_turns() -> None:
    async with running(size=(40, 10)) as (app, pilot):
        await _opened(app, pilot, "f")
        assert "hottest functions" in page(app)
        await pilot.press("enter")
        assert "31  return image" in page(app)
        await pilot.press("tab")
        assert "hottest functions" in page(app)


async def test_clicks_choose_rows_and_lines() -> None:
    async with running(size=(160, 48)) as (app, pilot):
        screen = await _opened(app, pilot, "f")
        first = screen.listing.top
        await pilot.click(offset=(100, 5))
        assert screen.listing.at == first + 3
        await pilot.click(offset=(10, 3))
        await until(pilot, lambda: screen.listing.file.endswith("train.py"))


async def test_reading_waits_for_no_disk() -> None:
    """A file on a disk that hangs keeps the screen alive and says that it is being read."""
    import threading

    gate = threading.Event()

    class Slow(FakeSource):
        def code(self, file: str) -> Code:
            gate.wait(10)
            return code_of(file)

    async with running(Slow(), size=(120, 30)) as (app, pilot):
        await pilot.press("f")
        await until(pilot, lambda: "reading" in page(app))
        gate.set()
        await until(pilot, lambda: "decode_image(raw" in page(app))


async def test_long_lines_scroll_sideways_and_back() -> None:
    async with running(size=(112, 30)) as (app, pilot):
        screen = await _opened(app, pilot, "f")
        assert "return image.convert" in page(app)
        await pilot.press(*["greater_than_sign"] * 3)
        assert "Image.LANCZOS)" in page(app)
        assert f"from column {screen.listing.left + 1}" in page(app)
        await pilot.press(*["shift+right"] * 20)
        assert "S)" in page(app), "the end of the longest line stays in sight"
        await pilot.press(*["less_than_sign"] * 20)
        assert screen.listing.left == 0
        assert "return image.convert" in page(app)
