"""The app in a test: running without a terminal, settled, and read as text."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from gputop.config import Settings
from gputop.model import Window
from gputop.tui.app import GputopApp
from gputop.tui.canvas import Canvas
from gputop.tui.glyphs import BRAILLE, Glyphs
from gputop.tui.layout import Need, Place, arrange
from gputop.tui.panels import PANELS
from gputop.tui.source import Outcome
from gputop.tui.table import Table
from gputop.tui.view import Scene
from tests.fakes.source import SCENES, FakeSource

#: A fixed moment, so that pictures are the same on every run.
NOW = 1000.0


@asynccontextmanager
async def running(
    source: FakeSource | None = None,
    size: tuple[int, int] = (120, 30),
    settings: Settings | None = None,
    **more: object,
) -> AsyncIterator[tuple[GputopApp, Pilot[Outcome]]]:
    """Run the app over a source until the first summary is on the screen."""
    app = GputopApp(settings or Settings(), source or FakeSource(), **more)  # type: ignore[arg-type]
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.scene.summary is not None)
        yield app, pilot


async def until(pilot: Pilot[Outcome], true: Callable[[], bool], within: float = 10.0) -> None:
    """Let the app work until something is true."""
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, f"still not true after {within} s"
        await pilot.pause(0.01)
    await pilot.pause()


def text(app: GputopApp, key: str) -> str:
    """Return what a panel of the overview shows."""
    return app.screen.query_one(f"#{key}", Canvas).text


def page(app: GputopApp) -> str:
    """Return what a screen with one canvas shows."""
    return app.screen.query_one(Canvas).text


def still(name: str, glyphs: Glyphs = BRAILLE, *, coloured: bool = True, columns: int = 96) -> Scene:
    """Return a scene at the fixed moment, with its summary, without an app."""
    source = SCENES[name]()
    source.clock = lambda: NOW
    source.__post_init__()
    scene = Scene(source, Table(), now=NOW, glyphs=glyphs, coloured=coloured)
    window, steps = scene.view.window(source.span() or Window(0, NOW), columns, growing=True)
    scene.summary = source.summary(window, steps)
    scene.table.update(scene.summary, scene.view)
    scene.output = source.output_lines(50)
    return scene


def places(scene: Scene, width: int, height: int) -> dict[str, Place]:
    """Return where the panels of the overview go."""
    rows = {panel: panel.rows(scene, width, height) for panel in PANELS}
    needs = [Need(p.key, p.column, p.priority, need.minimum, need.want, need.weight) for p, need in rows.items()]
    return arrange(needs, width, height)
