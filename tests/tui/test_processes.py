"""The screen of the processes: the tree, what each takes, and going to one."""

from __future__ import annotations

from dataclasses import replace

from gputop.analysis.results import Summary
from gputop.model import NA, GpuUse, ProcessReading, Window
from gputop.tui.screens.overview import Overview
from gputop.tui.source import Thread
from gputop.tui.tree import NO_GPU, rows
from tests.fakes.source import FakeSource
from tests.tui.running import page, running, still, until


def test_children_are_below_their_parent_and_the_ended_keep_their_place() -> None:
    summary = still("starved").summary
    assert summary is not None
    found = rows(summary)
    assert [(row.process.pid, row.depth, row.ended, row.code) for row in found] == [
        (4121, 0, False, None),
        *((4500 + rank, 1, False, None) for rank in range(4)),
        (4600, 1, True, 1),
    ]
    assert found[0].main is not None
    assert found[0].main.name == "MainThread"
    assert found[1].main is None


def test_memory_on_all_gpus_is_summed_and_found_under_the_pid_of_another_namespace() -> None:
    summary = still("bound").summary
    assert summary is not None
    use = GpuUse(0.5, 0.5, 3e9, True, ((17, 1e9), (4500, 2e9)))
    gpus = tuple(replace(gpu, target=use) for gpu in summary.gpus)
    inside = replace(summary.processes[2], aliases=(4501, 17))
    processes = (*summary.processes[:2], inside, *summary.processes[3:])
    held = {row.process.pid: row.gpu_bytes for row in rows(replace(summary, gpus=gpus, processes=processes))}
    assert (held[4500], held[4501], held[4502]) == (4e9, 2e9, NO_GPU)
    silent = tuple(replace(gpu, target=replace(use, by_process=())) for gpu in summary.gpus)
    untold = rows(replace(summary, gpus=silent))[0].gpu_bytes
    assert isinstance(untold, NA)
    assert untold != NO_GPU
    without = rows(replace(summary, gpus=()))[0].gpu_bytes
    assert isinstance(without, NA)
    assert without != NO_GPU


def test_a_process_that_is_its_own_parent_is_shown_once() -> None:
    summary = still("starved").summary
    assert summary is not None
    odd = tuple(replace(process, ppid=process.pid) for process in summary.processes)
    assert len(rows(replace(summary, processes=odd))) == 6
    one, other = summary.processes[:2]
    loop = (replace(one, ppid=other.pid), replace(other, ppid=one.pid))
    shown = rows(replace(summary, processes=loop, gone={}, ended={}))
    assert {row.process.pid for row in shown} == {one.pid, other.pid}


async def test_the_tree_and_looking_at_a_process() -> None:
    async with running(FakeSource(), (140, 30)) as (app, pilot):
        await pilot.press("p")
        await until(pilot, lambda: "5 live, 1 ended" in page(app))
        shown = page(app).splitlines()
        assert "train.py" in shown[2]
        assert "4121" in shown[2]
        assert "2/2" in shown[5]
        assert "ended, code 1" in shown[7]
        await pilot.press("down", "enter")
        await until(pilot, lambda: "no thread of this process was looked at" in page(app))
        await pilot.press("home", "enter")
        assert isinstance(app.screen, Overview)
        assert app.scene.view.thread == (4121, 4121)


class _Busy(FakeSource):
    """One of its processes has seven cores, and a size that nobody may read."""

    def summary(
        self, window: Window, columns: int, thread: Thread | None = None, *, alone: bool = False, native: bool = False
    ) -> Summary:
        found = super().summary(window, columns, thread, alone=alone, native=native)
        assert found.host is not None
        reading = ProcessReading(4502, 7.25, NA("no right to read it"), ())
        return replace(found, host=replace(found.host, processes=(reading,)))


async def test_numbers_of_a_process() -> None:
    async with running(_Busy(), (140, 30)) as (app, pilot):
        await pilot.press("p")
        await until(pilot, lambda: "processes" in page(app))
        row = next(row for row in page(app).splitlines() if "4502" in row)
        assert "7.2 cores" in row
        assert "n/a" in row


async def test_a_narrow_screen_keeps_what_the_main_threads_do() -> None:
    async with running(FakeSource(), (46, 12)) as (app, pilot):
        await pilot.press("p")
        await until(pilot, lambda: "5 live" in page(app))
        assert "native 4" in page(app).splitlines()[2]
        assert "memory" not in page(app)
