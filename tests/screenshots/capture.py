"""Runs the screen over a recording, without a terminal, and looks at it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rich.segment import Segment
from textual.pilot import Pilot

from gputop.config import Settings
from gputop.engine.replay import Replay
from gputop.model import Window
from gputop.target.code import Code
from gputop.tui.app import GputopApp
from gputop.tui.source import Outcome
from tests.screenshots.svg import Row

#: This repository, and its name in the recordings.
ROOT, AS = Path(__file__).parents[2], "/home/ada/gputop"
RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"


class Shown(Replay):
    """A recording whose program lies in this repository under another name."""

    def code(self, file: str) -> Code:
        """Return the file as it is here: a checkout is newer than any recording."""
        path = ROOT / Path(file).relative_to(AS) if file.startswith(f"{AS}/") else Path(file)
        return Code(tuple(path.read_text(encoding="utf-8").splitlines())) if path.is_file() else super().code(file)


class Playing(Shown):
    """A recording that plays: what comes after `now` seconds from its start has not happened yet."""

    live = True

    def __init__(self, path: Path, now: float) -> None:
        super().__init__(path)
        self.now = now

    @property
    def exited(self) -> tuple[int | None] | None:
        """Return that the target lives."""
        return None

    def span(self) -> Window | None:
        """Return the time played so far."""
        whole = super().span()
        assert whole is not None, "a recording without samples does not open"
        return Window(whole.start, min(whole.end, whole.start + self.now))


@asynccontextmanager
async def showing(
    source: Replay, size: tuple[int, int], theme: str = "dark"
) -> AsyncIterator[tuple[GputopApp, Pilot[Outcome]]]:
    """Run the app over a source until the first summary is on the screen."""
    app = GputopApp(Settings(theme=theme), source)
    async with app.run_test(size=size) as pilot:
        await settled(app, pilot)
        yield app, pilot


async def settled(app: GputopApp, pilot: Pilot[Outcome]) -> None:
    """Wait until what is shown is what was asked for last."""
    deadline = time.monotonic() + 20
    while app.scene.summary is None or app._wanted is None or app.scene.summary.window != app._wanted.window:
        assert time.monotonic() < deadline, "no summary came"
        await pilot.pause(0.02)
    await pilot.pause(0.1)


async def press(app: GputopApp, pilot: Pilot[Outcome], keys: tuple[str, ...]) -> None:
    """Press keys one after the other and wait for what they open."""
    for key in keys:
        await pilot.press(key)
        await pilot.pause(0.3)
    await settled(app, pilot)


def rows(app: GputopApp) -> list[Row]:
    """Return what the screen shows now."""
    return [[Segment(*segment[:2]) for segment in strip] for strip in app.screen._compositor.render_strips()]
