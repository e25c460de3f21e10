"""Every key and every click does what the help says."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gputop.errors import SnapshotError
from gputop.tui.actions import ACTIONS, APP, OVERVIEW, on
from gputop.tui.app import GputopApp
from gputop.tui.canvas import Canvas
from gputop.tui.screens.compare import Compare
from gputop.tui.screens.dialog import Dialog
from gputop.tui.screens.flame import Flame
from gputop.tui.screens.overview import Overview
from gputop.tui.screens.source import SourceScreen
from gputop.tui.screens.threads import Threads
from gputop.tui.source import Outcome
from tests.fakes.source import FakeSource
from tests.tui.running import page, running, text, until


def _launched(exited: tuple[int | None] | None = None) -> FakeSource:
    return FakeSource(launched=True, output=Path("/tmp/out.log"), exited=exited)


def test_every_action_has_a_method_and_every_key_one_action() -> None:
    everywhere = [key for action in ACTIONS if action.method.startswith(APP) for key in action.keys]
    for screen in (Overview, SourceScreen, Flame, Compare, Threads):
        keys = [*everywhere, *(key for action in on(screen.NAME) for key in action.keys)]
        assert len(keys) == len(set(keys)), screen
        for action in on(screen.NAME):
            assert callable(getattr(screen, f"action_{action.method.partition('(')[0]}")), action
    for action in ACTIONS:
        if action.method.startswith(APP):
            assert callable(getattr(GputopApp, f"action_{action.method.removeprefix(APP)}"))
    bare_k = next(action for action in ACTIONS if "k" in action.keys)
    assert bare_k.method == "move(-1)", "a bare k never kills"


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_quit_from_an_attached_process(key: str) -> None:
    async with running() as (app, pilot):
        await pilot.press(key)
    assert app.return_value is Outcome.QUIT


@pytest.mark.parametrize(
    ("keys", "outcome"),
    [
        (["q", "e"], Outcome.TERMINATE),
        (["q", "l"], Outcome.LEAVE),
        (["ctrl+c", "down", "enter"], Outcome.LEAVE),
        (["q", "up", "enter"], Outcome.TERMINATE),
    ],
)
async def test_quit_from_a_launched_command_asks(keys: list[str], outcome: Outcome) -> None:
    async with running(_launched()) as (app, pilot):
        await pilot.press(keys[0])
        await until(pilot, lambda: not isinstance(app.screen, Overview))
        assert "end it (SIGTERM" in page(app)
        await pilot.press(*keys[1:])
    assert app.return_value is outcome


async def test_a_key_of_the_screen_ends_no_launched_command() -> None:
    assert not [action.name for action in ACTIONS if "e" in action.keys]
    async with running(_launched()) as (app, pilot):
        await pilot.press("q", "t", "s", "w", "p", "d")
        await pilot.pause()
        assert isinstance(app.screen, Dialog)
        assert app.is_running


@pytest.mark.parametrize("key", ["escape", "enter"])
async def test_quit_can_be_cancelled(key: str) -> None:
    async with running(_launched()) as (app, pilot):
        await pilot.press("q", key)
        await until(pilot, lambda: isinstance(app.screen, Overview))
        assert app.is_running


async def test_quit_after_a_launched_command_has_ended_does_not_ask() -> None:
    async with running(_launched((3,))) as (app, pilot):
        await pilot.press("q")
    assert app.return_value is Outcome.QUIT


async def test_pause_freezes_the_picture_and_says_since_when() -> None:
    async with running() as (app, pilot):
        await pilot.press("space")
        frozen = app.scene.summary
        assert "PAUSED" in text(app, "status")
        assert "ago, sampling goes on" in text(app, "status")
        assert "frozen" in text(app, "timeline")
        app._tick()
        await pilot.pause()
        assert app.scene.summary is frozen
        await pilot.press("space")
        await until(pilot, lambda: app.scene.summary is not frozen)
        assert "LIVE" in text(app, "status")


async def test_travelling_in_time_and_back_to_now() -> None:
    async with running() as (app, pilot):
        now = app.scene.summary
        assert now is not None
        await pilot.press("left", "left")
        await until(pilot, lambda: app.scene.summary.window.end < now.window.end - 9)  # type: ignore[union-attr]
        assert "PAUSED" in text(app, "status")
        assert "now" not in text(app, "timeline")
        await pilot.press("right")
        await until(pilot, lambda: app.scene.summary.window.end > now.window.end - 6)  # type: ignore[union-attr]
        await app.screen.run_action("travel(-80)")
        kept = app.scene.source.span()
        assert kept is not None
        await until(pilot, lambda: app.scene.summary.window.seconds < 5 + 2 * 60 / 88)  # type: ignore[union-attr]
        assert app.scene.summary.window.start <= kept.start  # type: ignore[union-attr]
        await pilot.press("escape")
        await until(pilot, lambda: app.scene.summary.window.end >= now.window.end)  # type: ignore[union-attr]
        assert "LIVE" in text(app, "status")


async def test_a_paused_picture_can_still_be_sorted_and_filtered() -> None:
    async with running() as (app, pilot):
        await pilot.press("space", "3")
        names = [row.name for row in app.scene.table.rows]  # type: ignore[union-attr]
        assert names == sorted(names, key=str.lower)


async def test_sort_keys() -> None:
    async with running() as (app, pilot):
        for key, sort in (("4", "file"), ("1", "self"), ("2", "total"), ("3", "function")):
            await pilot.press(key)
            assert app.scene.view.sort == sort
            assert f"{sort}▾" in text(app, "hot")


async def test_functions_and_lines() -> None:
    async with running() as (app, pilot):
        assert "hottest functions" in text(app, "hot")
        await pilot.press("l")
        assert "hottest lines" in text(app, "hot")


async def test_cursor_keys() -> None:
    async with running(size=(120, 24)) as (app, pilot):
        steps = [("down", 0), ("down", 1), ("j", 2), ("up", 1), ("k", 0), ("end", 11), ("home", 0), ("pagedown", None)]
        for key, place in steps:
            await pilot.press(key)
            if place is not None:
                assert app.scene.table.cursor(app.scene.view) == place, key
        assert app.scene.table.cursor(app.scene.view) == app.scene.table.page
        await pilot.press("escape")
        assert app.scene.view.selected is None


async def test_the_filter_narrows_while_typing() -> None:
    async with running() as (app, pilot):
        await pilot.press("f4", *"conv")
        assert [row.file.rpartition("/")[2] for row in app.scene.table.rows] == ["conv.py"]
        assert "FILTER" in text(app, "status")
        await pilot.press("enter")
        await until(pilot, lambda: "FILTER" not in text(app, "status"))
        assert "filter conv" in text(app, "hot")
        await pilot.press("escape")
        assert app.scene.view.filter == ""


@pytest.mark.parametrize("keys", [["slash"], ["f", "slash"], ["F", "slash"], ["t", "f4"]])
async def test_one_types_in_the_last_row_between_its_words(keys: list[str]) -> None:
    """The line lies over the row; were it beside it, everything would be drawn again in another size."""
    async with running(size=(100, 30)) as (app, pilot):
        await pilot.press(*keys)
        line = app.screen.query_one("Input")
        for width in (100, 60):
            await pilot.resize_terminal(width, 30)
            await until(pilot, lambda: line.region == (9, 29, app.size.width - 32, 1))
            last = next(canvas for canvas in app.screen.query(Canvas) if canvas.region.bottom == 30)
            assert last.text.splitlines()[-1].endswith("Enter keep  Esc clear")
        assert not app.screen.show_vertical_scrollbar
        assert not app.screen.show_horizontal_scrollbar


async def test_escape_while_typing_clears_the_filter() -> None:
    async with running() as (app, pilot):
        await pilot.press("f4", *"qqq")
        assert "none of 12 rows" in text(app, "hot")
        await pilot.press("escape")
        await until(pilot, lambda: not app.scene.prompt)
        assert len(app.scene.table.rows) == 12


async def test_help_lists_every_action_and_every_state() -> None:
    from gputop.analysis.states import STATES

    async with running(size=(120, 140)) as (app, pilot):
        await pilot.press("question_mark")
        await until(pilot, lambda: not isinstance(app.screen, Overview))
        shown = page(app)
        assert all(action.help in shown for action in ACTIONS)
        assert all(state.meaning in shown for state in STATES)
        await pilot.press("escape")
        assert isinstance(app.screen, Overview)


async def test_long_pages_scroll() -> None:
    async with running(size=(60, 15)) as (app, pilot):
        await pilot.press("h")
        await until(pilot, lambda: not isinstance(app.screen, Overview))
        assert "One question" in page(app)
        await pilot.press("pagedown")
        assert "One question" not in page(app)
        await pilot.press("end")
        assert "held up for a look" in page(app)
        await pilot.press("home", "down", "up")
        assert "One question" in page(app)


async def test_why_shows_evidence_and_advice() -> None:
    async with running() as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, Overview))
        assert "no data loader worker was seen" in page(app)
        assert "1. decode in worker processes" in page(app)


async def test_threads_and_looking_at_one() -> None:
    async with running() as (app, pilot):
        await pilot.press("t")
        await until(pilot, lambda: not isinstance(app.screen, Overview))
        assert "41 threads" in page(app)
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: "thread 4122" in text(app, "timeline"))
        await pilot.press("escape")
        await until(pilot, lambda: "MainThread" in text(app, "timeline"))


async def test_threads_are_searched_and_filtered() -> None:
    async with running(size=(100, 20)) as (app, pilot):
        await pilot.press("t", "slash", *"pool-6", "enter")
        await until(pilot, lambda: not app.scene.prompt)
        assert "search pool-6" in page(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Overview))
        assert app.scene.view.thread == (4121, 4127)
        await pilot.press("t", "slash", *"threadpool", "enter")
        await until(pilot, lambda: not app.scene.prompt)
        chosen = []
        for key in ("n", "n", "N"):
            await pilot.press(key)
            assert isinstance(app.screen, Threads)
            chosen.append(app.screen._selected)
        assert chosen == [(4121, 4130), (4121, 4133), (4121, 4130)]
        await pilot.press("escape", "f4", *"autograd", "enter")
        await until(pilot, lambda: not app.scene.prompt)
        assert "ThreadPool" not in page(app)
        assert "27 threads" in page(app)
        await pilot.press("escape")
        assert "41 threads" in page(app)


async def test_rates() -> None:
    source = FakeSource()
    async with running(source) as (app, pilot):
        await pilot.press("plus", "plus", "minus", "minus", "minus")
        assert source.asked == ["rate 2", "rate 4", "rate 2", "rate 1", "rate 0.5"]
        await until(pilot, lambda: "0.5" in text(app, "message"))


async def test_start_afresh_and_back() -> None:
    async with running() as (app, pilot):
        await pilot.press("r")
        await until(pilot, lambda: app.scene.summary.window.seconds < 30)  # type: ignore[union-attr]
        await pilot.press("r")
        await until(pilot, lambda: app.scene.summary.window.seconds > 59)  # type: ignore[union-attr]


async def test_a_snapshot_tells_how_far_it_is_where_it_went_and_how_to_open_it() -> None:
    source = FakeSource()
    async with running(source) as (app, pilot):
        source.gate = threading.Event()
        await pilot.press("s")
        await until(pilot, lambda: "snapshot: writing" in text(app, "status"))
        await pilot.press("s")
        await until(pilot, lambda: "already" in text(app, "message"))
        source.gate.set()
        await until(pilot, lambda: "train-4121.json.gz" in text(app, "message"))
        assert "ui.perfetto.dev" in text(app, "message")
        await pilot.press("escape")
        assert app.scene.said is None


@pytest.mark.parametrize(
    ("keys", "given"), [(["y"], True), (["n"], False), (["escape"], False), (["down", "enter"], True)]
)
async def test_a_snapshot_asks_before_it_runs_anything_in_the_target(keys: list[str], given: bool) -> None:
    source = FakeSource(question="May gputop run torch.profiler inside pid 4121 for 5 s?")
    async with running(source) as (app, pilot):
        await pilot.press("s")
        await until(pilot, lambda: not isinstance(app.screen, Overview))
        assert "torch.profiler inside pid 4121" in page(app)
        await pilot.press(*keys)
        await until(pilot, lambda: app.scene.said is not None)
        assert source.asked == [f"consent {given}"]


async def test_quitting_while_a_snapshot_waits_for_consent_leaves_nothing_behind() -> None:
    source = FakeSource(question="May gputop run something?")
    async with running(source) as (app, pilot):
        await pilot.press("s")
        await until(pilot, lambda: not isinstance(app.screen, Overview))
        app.exit(Outcome.QUIT)
    assert app.return_value is Outcome.QUIT


async def test_a_snapshot_that_fails_says_why_and_what_helps() -> None:
    source = FakeSource(snapshot_error=SnapshotError("the disk is full", "free some space"))
    async with running(source) as (app, pilot):
        await pilot.press("s")
        await until(pilot, lambda: "the disk is full; free some space" in text(app, "message"))
        assert app.scene.busy == ""


async def test_clicks() -> None:
    async with running(size=(120, 40)) as (app, pilot):
        await pilot.click("#hot", offset=(10, 1))
        assert app.scene.view.sort == "total"
        await pilot.click("#hot", offset=(30, 4))
        assert app.scene.table.cursor(app.scene.view) == 2
        await pilot.click("#status", offset=(text(app, "status").index("pause") + 1, 0))
        assert app.scene.view.paused is not None
        await pilot.click("#verdict", offset=(3, 0))
        await until(pilot, lambda: not isinstance(app.screen, Overview))


async def test_the_palette_lists_every_action() -> None:
    async with running() as (app, _pilot):
        names = [command.title for command in app.get_system_commands(app.screen)]
        assert names == [
            action.name
            for action in ACTIONS
            if action.palette and (OVERVIEW in action.screens or action.method.startswith(APP))
        ]
