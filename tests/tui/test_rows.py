"""What the table leaves out, and how one looks for a row in it."""

from __future__ import annotations

import pytest

from gputop.analysis.results import FunctionRow
from gputop.tui import table
from tests.fakes.source import FakeSource
from tests.tui.running import running, text, until


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("/home/ada/train.py", True),
        ("train.py", True),
        ("<string>", True),
        ("/home/ada/.venv/lib/python3.12/site-packages/torch/nn/module.py", False),
        ("/usr/lib/python3/dist-packages/yaml.py", False),
        ("/usr/lib/python3.12/threading.py", False),
        ("/opt/conda/lib/python3.11/queue.py", False),
        ("<frozen importlib._bootstrap>", False),
        ("/home/ada/lib/python/mine.py", True),
    ],
)
def test_whose_code_it_is(file: str, own: bool) -> None:
    assert table.is_own(FunctionRow("f", file, 1, 0.1, 0.1, {})) is own


async def test_own_code_only() -> None:
    async with running() as (app, pilot):
        await pilot.press("o")
        files = {row.file for row in app.scene.table.rows}
        assert files == {"/home/ada/train/data.py", "/home/ada/train/train.py"}
        assert "own code" in text(app, "hot")
        await pilot.press("o")
        assert len(app.scene.table.rows) == 12


async def test_thresholds_in_turn() -> None:
    async with running() as (app, pilot):
        for least in (0.005, 0.01, 0.05):
            await pilot.press("percent_sign")
            assert app.scene.view.least == least
            assert all(row.total_share >= least for row in app.scene.table.rows)
        assert "at least 5 %" in text(app, "hot")
        assert 0 < len(app.scene.table.rows) < 12
        await pilot.press("percent_sign")
        assert len(app.scene.table.rows) == 12


async def test_an_empty_table_says_what_emptied_it() -> None:
    async with running() as (app, pilot):
        await pilot.press("f4", *"threading", "enter", "o")
        await until(pilot, lambda: not app.scene.prompt)
        assert "none of 12 rows" in text(app, "hot")
        await pilot.press("escape")
        app.scene.view.least, app.scene.view.own = 0.99, False
        app.changed()
        assert "none of 12 rows has 99 % of the time" in text(app, "hot")


async def test_all_threads_or_one() -> None:
    source = FakeSource()
    async with running(source) as (app, pilot):
        await pilot.press("a")
        await until(pilot, lambda: source.alone)
        assert "one thread" in text(app, "hot")
        await pilot.press("a")
        await until(pilot, lambda: not source.alone)


async def test_search_goes_from_match_to_match_and_round() -> None:
    async with running() as (app, pilot):
        await pilot.press("slash", *"torch")
        assert "SEARCH" in text(app, "status")
        first = app.scene.table.cursor(app.scene.view)
        await pilot.press("enter")
        await until(pilot, lambda: not app.scene.prompt)
        assert len(app.scene.table.rows) == 12, "a search hides nothing"
        assert "search torch 1/4" in text(app, "hot")
        places = []
        for key in ("n", "n", "n", "n", "N", "N"):
            await pilot.press(key)
            places.append(app.scene.table.cursor(app.scene.view))
        assert places[3] == first
        assert places[4:] == [places[2], places[1]]
        assert places[:3] == sorted(places[:3], key=lambda place: place or 0)
        await pilot.press("escape")
        assert "search" not in text(app, "hot")


async def test_a_search_without_a_match_says_so() -> None:
    async with running() as (app, pilot):
        await pilot.press("slash", *"nowhere", "enter")
        await until(pilot, lambda: not app.scene.prompt)
        await pilot.press("n")
        assert "no row holds “nowhere”" in text(app, "message")


async def test_next_without_a_search_asks_for_one() -> None:
    async with running() as (app, pilot):
        await pilot.press("n")
        assert app.scene.prompt == "search"
