"""The screen of the program's output: follow, scroll, search."""

from __future__ import annotations

from pathlib import Path

from gputop.tui.screens.overview import Overview
from tests.fakes.source import FakeSource
from tests.tui.running import page, running, until


class _Printing(FakeSource):
    """A program that has printed `printed`."""

    printed: list[str]

    def output_lines(self, count: int) -> list[str]:
        return self.printed[-count:]


def _source(lines: int) -> _Printing:
    source = _Printing(launched=True, output=Path("/tmp/out.log"), exited=(0,))
    source.printed = [f"step {number} loss {'nan' if number in (3, 40) else number}" for number in range(lines)]
    return source


async def test_it_follows_what_is_printed() -> None:
    source = _source(100)
    async with running(source, (100, 12)) as (app, pilot):
        await pilot.press("O")
        await until(pilot, lambda: "100 lines" in page(app))
        assert "step 99 " in page(app)
        source.printed.append("done")
        await until(pilot, lambda: "done" in page(app))


async def test_scrolled_back_the_text_stands_still_until_end() -> None:
    source = _source(100)
    async with running(source, (100, 12)) as (app, pilot):
        await pilot.press("O", "pageup")
        assert "stands still" in page(app)
        before = page(app)
        source.printed += ["more"] * 5
        app.draw()
        assert page(app) == before
        await pilot.press("home")
        assert "step 0 loss 0" in page(app)
        await pilot.press("end")
        assert "more" in page(app)
        await pilot.press("up", "pagedown")
        assert "stands still" not in page(app)


async def test_search_goes_to_the_newest_match_and_on_from_there() -> None:
    async with running(_source(100), (100, 12)) as (app, pilot):
        await pilot.press("O", "slash", *"nan")
        await until(pilot, lambda: "step 40 loss nan" in page(app))
        assert "2 with nan" in page(app)
        await pilot.press("enter")
        await until(pilot, lambda: not app.scene.prompt)
        await pilot.press("N")
        await until(pilot, lambda: "step 3 loss nan" in page(app))
        await pilot.press("N")
        await until(pilot, lambda: "step 40 loss nan" in page(app))
        await pilot.press("n")
        await until(pilot, lambda: "step 3 loss nan" in page(app))
        await pilot.press("escape")
        assert isinstance(app.screen, Overview)


async def test_long_and_wide_lines_are_broken() -> None:
    source = _source(1)
    source.printed = ["日本" * 60 + "end", "x" * 300]
    async with running(source, (60, 20)) as (app, pilot):
        await pilot.press("O")
        await until(pilot, lambda: "2 lines" in page(app))
        assert "end" in page(app)
        assert page(app).count("x") == 300


async def test_without_output_it_says_why() -> None:
    async with running(FakeSource(), (120, 20)) as (app, pilot):
        await pilot.press("O")
        await until(pilot, lambda: "gputop did not start this program" in page(app))


async def test_the_titles_rule_has_no_hole_and_a_number_its_word() -> None:
    async with running(FakeSource(), (40, 10)) as (app, pilot):
        await pilot.press("O")
        await until(pilot, lambda: "0 lines" in page(app))
        title = page(app).splitlines()[0]
        assert set(title.partition("0 lines ")[2]) == {app.glyphs.rule}
    async with running(_source(1), (100, 12)) as (app, pilot):
        await pilot.press("O")
        await until(pilot, lambda: "output · 1 line ─" in page(app))
        assert page(app).splitlines()[0].endswith(" /tmp/out.log ─")
