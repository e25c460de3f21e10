"""The snapshot key in full: what is possible is said before it is pressed, options, and what the trace shows."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from gputop.snapshot.kineto.detect import Library, Torch
from gputop.snapshot.kineto.request import Options
from gputop.snapshot.kineto.route import GDB, READY, SAMPLED, Route
from gputop.tui import snapshots
from tests.fakes.source import FakeSource
from tests.tui.running import page, running, text, until

TORCH = Route(READY, "torch trace: ready (torch 2.13.0)")
ASKS = Route(GDB, "torch tracing is off in it. Turn it on with gdb? This stops process 4121 for about 0.1 s", True)
LESS = Route(SAMPLED, "sampled trace: gdb is not installed", remedy="install gdb (apt install gdb) to switch it on")
READING = tuple(f"fact {number}" for number in range(9))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.tui.app.FIRST_LOOK_S", 0.01)
    monkeypatch.setattr("gputop.tui.app.LOOK_EVERY_S", 0.05)


@pytest.mark.parametrize(
    ("route", "words"), [(TORCH, "s torch trace "), (ASKS, "s torch trace (asks first)"), (LESS, "s sampled trace")]
)
async def test_the_status_line_names_the_trace_before_the_key_is_pressed(route: Route, words: str) -> None:
    async with running(FakeSource(possible=route), (160, 40)) as (app, pilot):
        await until(pilot, lambda: words in text(app, "status"))


async def test_what_is_possible_is_looked_at_again_but_not_twice_at_once() -> None:
    source = FakeSource(possible=LESS)
    async with running(source, (160, 40)) as (app, pilot):
        await until(pilot, lambda: "sampled trace" in text(app, "status"))
        source.possible = TORCH
        await until(pilot, lambda: "torch trace" in text(app, "status"))


async def test_reasons_and_remedy_are_on_the_trace_screen() -> None:
    async with running(FakeSource(possible=LESS), (120, 40)) as (app, pilot):
        await pilot.press("T")
        await until(pilot, lambda: "gdb is not installed" in page(app))
        assert "for more: install gdb" in page(app)
        assert "memory" in page(app)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.NAME == "overview")  # type: ignore[attr-defined]


@pytest.mark.parametrize("launched", [False, True])
async def test_what_torch_does_to_a_program_that_ends_meanwhile_is_said(launched: bool) -> None:
    library = Library(0, "/venv/torch/lib/libtorch_cpu.so")
    route = replace(TORCH, torch=Torch("2.13.0", library, None, None, "", cuda=False))
    async with running(FakeSource(possible=route, launched=launched), (120, 40)) as (app, pilot):
        await pilot.press("T")
        await until(pilot, lambda: "ready (torch 2.13.0)" in page(app))
        assert ("crashes in a program that ends" in page(app)) is not launched


async def test_options_are_changed_with_the_arrows_and_used() -> None:
    source = FakeSource(possible=TORCH)
    async with running(source, (120, 40)) as (app, pilot):
        await pilot.press("T")
        await until(pilot, lambda: "seconds   2 s" in page(app))
        await pilot.press("right", "down", "right", "down", "space", "left", "right", "s")
        await until(pilot, lambda: bool(app.scene.tracing.files))
        assert source.options == Options(5.0, stacks=True, shapes=True)


async def test_the_reading_is_shown_after_the_snapshot_and_kept() -> None:
    async with running(FakeSource(possible=TORCH, shows=READING), (120, 50)) as (app, pilot):
        await pilot.press("s")
        await until(pilot, lambda: "fact 5" in text(app, "message"))
        assert "train-4121.json.gz" in text(app, "message")
        assert "fact 6" not in text(app, "message")
        assert "T: all 9 lines" in text(app, "message")
        await pilot.press("escape", "T")
        await until(pilot, lambda: "fact 8" in page(app))


async def test_a_long_reading_is_scrolled_to_its_end() -> None:
    async with running(FakeSource(possible=TORCH), (80, 16)) as (app, pilot):
        app.scene.tracing.reading = READING
        await pilot.press("T")
        await until(pilot, lambda: "what s saves" in page(app))
        assert "fact 8" not in page(app)
        await pilot.press(*["down"] * 12)
        await until(pilot, lambda: "fact 8" in page(app))
        await pilot.press("pageup", "pageup")
        await until(pilot, lambda: "what s saves" in page(app))


async def test_a_second_press_is_refused_with_what_runs() -> None:
    source = FakeSource()
    async with running(source) as (app, pilot):
        source.gate = threading.Event()
        await pilot.press("s")
        await until(pilot, lambda: "writing" in app.scene.busy)
        await pilot.press("s")
        await until(pilot, lambda: "one at a time" in text(app, "message") and "writing" in text(app, "message"))
        source.gate.set()


def test_looks_are_rare() -> None:
    assert snapshots.LOOK_EVERY_S >= 5.0
