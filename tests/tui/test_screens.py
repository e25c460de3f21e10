"""Pictures of the screens behind the overview, as text; `REDRAW=1 pytest tests/tui` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputop.config import Settings
from gputop.model import Window
from gputop.tui.screens.overview import Overview
from tests.fakes.source import FakeSource
from tests.tui.running import NOW, page, running, until

_EXPECTED = Path(__file__).parent / "expected"
_PICTURES = [
    ("source-160x48", (160, 48), "auto", ["f"], "decode_image(raw"),
    ("source-80x24", (80, 24), "ascii", ["o", "f", "tab", "full_stop"], "normalise(image"),
    ("source-40x10", (40, 10), "auto", ["down", "enter"], "image.convert"),
    ("flame-120x30", (120, 30), "auto", ["F"], "run_epoch"),
    ("flame-80x24-states", (80, 24), "ascii", ["F", "v", "i"], "callers"),
    ("compare-58x30", (58, 30), "auto", ["c"], "points|change"),
]


@pytest.mark.parametrize(("name", "size", "glyphs", "keys", "shows"), _PICTURES)
async def test_pictures(name: str, size: tuple[int, int], glyphs: str, keys: list[str], shows: str) -> None:
    source = FakeSource(clock=lambda: NOW)
    async with running(source, size, Settings(glyphs=glyphs), colour=False) as (app, pilot):
        assert isinstance(app.screen, Overview)
        app.scene.view.ranges = (Window(NOW - 90, NOW - 70), Window(NOW - 40, NOW - 10))
        await pilot.press(*keys)
        await until(pilot, lambda: any(word in page(app) for word in shows.split("|")))
        drawn = page(app) + "\n"
    file = _EXPECTED / f"{name}.txt"
    if os.environ.get("REDRAW"):
        file.write_text(drawn, encoding="utf-8")
    assert drawn == file.read_text(encoding="utf-8")
