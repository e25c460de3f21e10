"""What every screen that opens from others has to keep to: any size, any terminal, no colour alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.tui.canvas import Canvas
from gputop.tui.screens.doors import DOORS
from gputop.tui.screens.overview import Overview
from tests.fakes.source import SCENES, FakeSource
from tests.tui.running import page, running, until

#: Key of each screen, and words that it shows.
_KEYS = {"gpus": ("d", "GPU"), "processes": ("p", "processes"), "output": ("O", "output"), "settings": ("S", "theme")}


def _exotic() -> FakeSource:
    source = SCENES["exotic"]()
    source.output = Path("/tmp/日本語/out.log")
    return source


def test_every_screen_has_a_key() -> None:
    assert DOORS.keys() - {"source", "flame", "compare"} == _KEYS.keys()


@pytest.mark.parametrize("name", sorted(_KEYS))
async def test_it_fits_every_size(name: str) -> None:
    key, words = _KEYS[name]
    async with running(_exotic(), (160, 48)) as (app, pilot):
        await pilot.press(key)
        await until(pilot, lambda: words in page(app))
        for size in ((40, 10), (250, 60), (1, 1), (116, 9), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.press("down", "G", "home")
            canvas = app.screen.query_one(Canvas)
            strips = canvas.render_lines(canvas.size.region)
            assert {strip.cell_length for strip in strips} == {size[0]}
            assert len(strips) == size[1]


@pytest.mark.parametrize("name", sorted(_KEYS))
async def test_without_utf8_and_without_colour_it_still_says_everything(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    key, words = _KEYS[name]
    async with running(_exotic(), (120, 40), encoding="latin-1", colour=False) as (app, pilot):
        await pilot.press(key)
        await until(pilot, lambda: words in page(app))
        canvas = app.screen.query_one(Canvas)
        segments = [segment for strip in canvas.render_lines(canvas.size.region) for segment in strip]
        assert "".join(segment.text for segment in segments).isascii()
        colours = [
            colour for segment in segments if segment.style for colour in (segment.style.color, segment.style.bgcolor)
        ]
        assert all(colour is None or colour.is_default for colour in colours)


async def test_from_screen_to_screen_and_back_to_the_overview() -> None:
    async with running(_exotic(), (120, 40)) as (app, pilot):
        for key, words in _KEYS.values():
            await pilot.press(key)
            await until(pilot, lambda words=words: words in page(app))  # type: ignore[misc]
            assert len(app.screen_stack) == 2
        await pilot.press("escape")
        assert isinstance(app.screen, Overview)
