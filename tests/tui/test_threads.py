"""The threads: groups, order, strips over time, own threads only."""

from __future__ import annotations

from gputop.analysis.results import Column, ThreadRow
from gputop.tui import threadlist, threadrows
from gputop.tui.actions import THREAD_SORTS
from gputop.tui.screens.threads import Threads
from gputop.tui.threadrows import Look
from tests.fakes.source import FakeSource
from tests.tui.running import page, running, still, until


def _thread(tid: int, name: str, role: str, cpu: float, **states: float) -> ThreadRow:
    return ThreadRow(7, tid, name, role, tid == 7, 100, 60.0, cpu, states, {})


_THREADS = (
    _thread(9, "python3", "native", 0.0, idle=1.0),
    _thread(8, "Loader", "python", 0.4, python=0.4, lock=0.6),
    _thread(7, "MainThread", "main", 0.1, gpu_wait=0.9, idle=0.1),
    _thread(10, "python3", "native", 0.0, idle=1.0),
)


def _tids(sort: str, *, own: bool = False) -> list[int]:
    return [row.tid for row in threadlist.listed(_THREADS, sort, own=own)]


def test_threads_are_sorted_by_any_column() -> None:
    assert list(threadlist.SORTS) == list(THREAD_SORTS)
    assert _tids("role") == [7, 8, 9, 10]
    assert _tids("thread") == [8, 7, 9, 10]
    assert _tids("tid") == [7, 8, 9, 10]
    assert _tids("cpu") == [8, 7, 9, 10]
    assert _tids("doing") == [7, 8, 9, 10]
    assert _tids("role", own=True) == [7, 8]


def test_groups_say_what_they_are_and_who_only_waits() -> None:
    entries = threadlist.grouped(threadlist.listed(_THREADS, "role"))
    heads = [entry for entry in entries if isinstance(entry, str)]
    assert heads == ["main threads: 1", "Python threads: 1", "native threads: 2, all waiting all the time"]


def test_a_click_on_a_head_finds_its_column() -> None:
    columns = threadrows.columns(160)
    heads = "".join(text for text, _ in threadrows.heads(still("starved"), "role", Look(columns, 160)))
    for name in THREAD_SORTS:
        assert columns.at(heads.index(name)) == name
    assert threadrows.columns(80).at(2 + threadrows.columns(80).name + 4) == "cpu"


def _strip(row: ThreadRow, *seen: str) -> str:
    steps = tuple(Column(at, 1.0, {name: 1.0} if name else {}) for at, name in enumerate(seen))
    scene = still("starved", coloured=False)
    columns = threadrows.columns(160)
    look = Look(columns, 160, {(7, row.tid): steps})
    text = "".join(part for part, _ in threadrows.drawn(scene, row, look))
    start = 2 + columns.name + columns.ids + 9
    return text[start : start + columns.strip][-len(seen) :]


def test_a_strip_shows_what_was_seen_and_only_a_still_thread_goes_on_unseen() -> None:
    assert _strip(_THREADS[2], "gpu_wait", "", "idle") == "G ·"
    assert _strip(_THREADS[0], "", "idle", "", "lock", "") == "···WW"


async def test_own_threads_sorting_and_strips_on_the_screen() -> None:
    source = FakeSource()
    async with running(source, size=(140, 24), colour=False) as (app, pilot):
        await pilot.press("t")
        await until(pilot, lambda: isinstance(app.screen, Threads) and "WWWW" in page(app))
        assert "thread pools 40" in page(app)
        await pilot.press("o")
        assert "1 thread · own threads" in page(app)
        await pilot.press("o", "5")
        assert "thread pools" not in page(app)
        assert "cpu▾" in page(app)
        await pilot.click(offset=(4, 1))
        assert "thread▾" in page(app)
        await pilot.press("1", "down", "y")
        assert "MainThread (main, 4121/4121): native" in app.clipboard
