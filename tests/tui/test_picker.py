"""The picker: choose a process, attach, look at it."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from gputop.config import Settings
from gputop.errors import NoPermissionError
from gputop.target.find import Candidate
from gputop.tui.app import GputopApp
from gputop.tui.canvas import Canvas
from gputop.tui.screens.overview import Overview
from gputop.tui.source import Outcome, Source
from tests.fakes.source import FakeSource
from tests.tui.running import page, until

_LONG = "/opt/conda/3.12.4/envs/nightly-jobs/bin/python3.12 /home/ada/nightly/train.py --epochs 90"
_ROWS = (
    Candidate(
        4121,
        "train.py",
        _LONG,
        "python3.12 train.py --epochs 90",
        "ada",
        1.2,
        3 << 30,
        4364.0,
        "3.12",
        True,
        True,
        True,
    ),
    Candidate(
        77,
        "serve.py",
        "python3 -m serve --port 80",
        "python3 -m serve --port 80",
        "grace",
        0.1,
        812 << 20,
        90.0,
        "3.11",
        True,
        False,
        True,
    ),
    Candidate(
        900,
        "hpc",
        "/opt/hpc/solver --deck a.inp",
        "solver --deck a.inp",
        "root",
        15.8,
        9 << 30,
        9.0,
        None,
        False,
        True,
        False,
    ),
)


@asynccontextmanager
async def picking(
    attach: Callable[[int], Source], find: Callable[[], Sequence[Candidate]] = lambda: _ROWS, width: int = 110
) -> AsyncIterator[tuple[GputopApp, Pilot[Outcome]]]:
    app = GputopApp(Settings(), find=find, attach=attach)
    async with app.run_test(size=(width, 20)) as pilot:
        await until(
            pilot,
            lambda: bool(app.screen.query(Canvas)) and re.search("of . processes|no Python", page(app)) is not None,
        )
        yield app, pilot


def _never(_pid: int) -> Source:
    raise AssertionError("nothing was chosen")


async def test_it_shows_who_runs_what() -> None:
    async with picking(_never) as (app, _pilot):
        first, *_ = (row for row in page(app).splitlines() if "4121" in row)
        for word in ("ada", "1.2 cores", "3.0 GiB", "3.12", "GPU", "python3.12 train.py --epochs 90"):
            assert word in first
        assert "3 of 3 processes" in page(app)


async def test_typing_filters_and_enter_attaches_to_what_is_left() -> None:
    asked: list[int] = []

    def attach(pid: int) -> Source:
        asked.append(pid)
        return FakeSource()

    async with picking(attach) as (app, pilot):
        await pilot.press(*"serve grace")
        assert "1 of 3 processes" in page(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Overview) and app.scene.summary is not None)
        assert asked == [77]
        await pilot.press("q")
    assert app.return_value is Outcome.QUIT


async def test_arrows_choose() -> None:
    asked: list[int] = []

    def attach(pid: int) -> Source:
        asked.append(pid)
        raise NoPermissionError("the kernel refuses", "use sudo")

    async with picking(attach) as (app, pilot):
        await pilot.press("down", "down", "up", "pagedown", "enter")
        await until(pilot, lambda: "the kernel refuses; use sudo" in page(app))
        await pilot.press("pageup", "enter")
        await until(pilot, lambda: len(asked) == 2)
        assert asked == [900, 4121]


async def test_the_second_click_on_a_row_attaches() -> None:
    asked: list[int] = []

    def attach(pid: int) -> Source:
        asked.append(pid)
        return FakeSource()

    async with picking(attach) as (app, pilot):
        await pilot.click("Canvas", offset=(20, 2))
        assert asked == []
        await pilot.click("Canvas", offset=(20, 2))
        await until(pilot, lambda: isinstance(app.screen, Overview))
        assert asked == [77]


async def test_escape_clears_the_filter_then_quits() -> None:
    async with picking(_never) as (app, pilot):
        await pilot.press(*"nothing like it")
        assert "none of 3 processes" in page(app)
        await pilot.press("escape")
        assert "3 of 3" in page(app)
        await pilot.press("escape")
    assert app.return_value is Outcome.QUIT


async def test_letters_of_other_screens_only_filter_here() -> None:
    async with picking(_never) as (app, pilot):
        await pilot.press("q", "s", "t", "l", "space")
        assert app.is_running
        assert "none of 3" in page(app)


async def test_nothing_to_choose_says_what_to_do() -> None:
    async with picking(_never, find=tuple) as (app, pilot):
        assert "gputop -- COMMAND" in page(app)
        await pilot.press("down", "enter")
        assert app.is_running


async def test_a_slow_attach_can_be_left_and_is_asked_once() -> None:
    gate, asked = threading.Event(), []

    def attach(pid: int) -> Source:
        asked.append(pid)
        gate.wait(10)
        return FakeSource()

    async with picking(attach) as (app, pilot):
        await pilot.press("enter", "enter")
        assert "attaching to 4121" in page(app)
        await pilot.press("ctrl+c")
    gate.set()
    assert app.return_value is Outcome.QUIT
    assert asked == [4121]


async def test_a_command_is_shown_whole_where_there_is_room_else_without_directories() -> None:
    for width, shown in (
        (80, " python3.12 train.py --e"),
        (110, " python3.12 train.py --epochs 90"),
        (200, f" {_LONG}"),
    ):
        async with picking(_never, width=width) as (app, _pilot):
            (row,) = (row for row in page(app).splitlines() if "4121" in row)
            assert row.partition(" GPU")[2].startswith(shown)
    async with picking(_never, width=80) as (app, pilot):
        await pilot.press(*"nightly")
        assert "1 of 3 processes" in page(app), "what is not shown can be looked for"


async def test_narrow_terminals() -> None:
    async with picking(_never, width=40) as (app, _pilot):
        assert "4121" in page(app)
        assert all(len(row) <= 40 for row in page(app).splitlines())
