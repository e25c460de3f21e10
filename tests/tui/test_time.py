"""Marked ranges, and two of them compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.analysis.results import Column, FunctionRow, Summary
from gputop.model import Window
from gputop.tui.panels import marks, timeline
from gputop.tui.screens.compare import Compare
from gputop.tui.screens.overview import Overview
from tests.fakes.source import FakeSource
from tests.fakes.verdicts import BOUND
from tests.tui.running import page, running, still, text, until


class Changed(FakeSource):
    """Was slow until some moment: decoding takes half of the time before it, nothing after it."""

    at = 0.0

    def summary(
        self,
        window: Window,
        columns: int,
        thread: tuple[int, int] | None = None,
        *,
        alone: bool = False,
        native: bool = False,
    ) -> Summary:
        made = super().summary(window, columns, thread, alone=alone, native=native)
        slow = window.end <= self.at
        share = 0.5 if slow else 0.0
        states = {"native": share, "gpu_wait": 1 - share}
        assert made.headline is not None
        curve = replace(made.timeline.gpus[0], values=(0.9 - share,) * columns)
        shares = tuple(Column(column.start, column.seconds, states) for column in made.timeline.columns)
        return replace(
            made,
            verdict=made.verdict if slow else BOUND,
            headline=replace(made.headline, states=states),
            functions=(FunctionRow("decode_image", "/a/data.py", 31, share, share, {"native": 1.0}),),
            timeline=replace(made.timeline, columns=shares, gpus=(curve,)),
        )


async def test_a_range_is_marked_shown_by_all_panels_and_left_again() -> None:
    async with running() as (app, pilot):
        await pilot.press("left", "left", "m")
        assert "start marked" in text(app, "message")
        await pilot.press("right", "m")
        await until(pilot, lambda: app.scene.summary.window == app.scene.view.range)  # type: ignore[union-attr]
        assert app.scene.summary is not None
        assert app.scene.summary.window.seconds == pytest.approx(5.0, abs=1.5)
        assert "range A marked" in text(app, "message")
        assert "range A" in text(app, "timeline")
        assert "PAUSED" in text(app, "status")
        shown = app.scene.view.range
        await pilot.press("left")
        assert shown is not None
        assert app.scene.view.range is not None
        assert app.scene.view.range.end == pytest.approx(shown.end - shown.seconds / 12)
        await pilot.press("end")
        await until(pilot, lambda: app.scene.summary.window.seconds > 50)  # type: ignore[union-attr]
        assert "LIVE" in text(app, "status")
        assert len(app.scene.view.ranges) == 1, "it is kept for comparing"


async def test_end_goes_to_now_and_then_to_the_last_row() -> None:
    async with running(size=(120, 24)) as (app, pilot):
        await pilot.press("left", "end")
        assert app.scene.view.paused is None
        assert app.scene.view.selected is None
        await pilot.press("down", "end")
        assert app.scene.table.cursor(app.scene.view) == 11


async def test_a_range_that_is_too_short_is_refused() -> None:
    async with running() as (app, pilot):
        await pilot.press("space", "m", "m")
        assert "too short" in text(app, "message")
        assert app.scene.view.ranges == ()


async def test_dragging_over_the_timeline_marks_a_range() -> None:
    async with running(size=(120, 30)) as (app, pilot):
        before = app.scene.summary
        assert before is not None
        await pilot.mouse_down("#timeline", offset=(40, 4))
        await pilot.hover("#timeline", offset=(60, 4))
        assert app.scene.view.dragged is not None
        assert "━" * 20 in text(app, "timeline").splitlines()[-1]
        await pilot.mouse_up("#timeline", offset=(60, 4))
        await until(pilot, lambda: app.scene.view.range is not None)
        marked, step = app.scene.view.ranges[0], before.timeline.columns[0].seconds
        assert marked.seconds == pytest.approx(21 * step)
        assert marked.start == pytest.approx(before.timeline.columns[32].start, abs=2 * step)
        assert app.scene.view.dragged is None


async def test_a_click_on_the_timeline_marks_nothing() -> None:
    async with running(size=(120, 30)) as (app, pilot):
        await pilot.click("#timeline", offset=(40, 4))
        assert app.scene.view.ranges == ()
        assert app.scene.view.paused is None


def test_marks_lie_where_their_times_are() -> None:
    scene = still("starved", columns=88)
    assert scene.summary is not None
    line = scene.summary.timeline
    step = line.columns[0].seconds
    scene.view.ranges = (
        Window(line.columns[10].start, line.columns[19].start + step / 2),
        Window(line.columns[80].start, line.columns[87].start + 5 * step),
    )
    scene.view.mark = line.columns[40].start
    axis = "".join(words for words, _ in marks.over(scene, line, "." * 88))
    assert axis == "." * 10 + "A" + "━" * 9 + "." * 20 + "m" + "━" * 39 + "B" + "━" * 7
    assert marks.over(scene, None, "...") == (("...", "faint"),)
    drag = timeline.PANEL.drag(scene, 8 + 10, 8 + 19, 120)
    assert drag == Window(line.columns[10].start, line.columns[19].start + line.columns[19].seconds)
    assert timeline.PANEL.drag(scene, 8 + 19, 8 + 10, 120) == drag


async def test_two_ranges_side_by_side() -> None:
    source = Changed()
    async with running(source, size=(120, 40)) as (app, pilot):
        span = source.span()
        assert span is not None
        source.at = span.end - 60
        screen = app.screen
        assert isinstance(screen, Overview)
        screen.mark_range(Window(span.end - 100, span.end - 80))
        screen.mark_range(Window(span.end - 40, span.end - 10))
        await pilot.press("c")
        await until(pilot, lambda: "The GPU is busier" in page(app))
        shown = page(app)
        assert "The GPU is busier: 40 % → 90 %; MainThread native 50 % → 0 %; decode_image 50 % → 0 %" in shown
        rows = shown.splitlines()
        assert rows[1].startswith(" A  ")
        assert "20.0 s  GPU STARVED" in rows[1]
        assert "30.0 s  GPU BOUND" in rows[2]
        native = next(row for row in rows if "native" in row and "points" in row)
        assert native.split()[2:8] == ["50.0", "%", "0.0", "%", "−50.0", "points"]
        await pilot.press("x")
        assert "The GPU is less busy: 90 % → 40 %" in page(app)
        assert page(app).splitlines()[1].startswith(" B  ")
        await pilot.press("escape", "escape")
        assert isinstance(app.screen, Overview)


async def test_one_range_is_compared_with_now() -> None:
    source = Changed()
    async with running(source, size=(60, 20)) as (app, pilot):
        span = source.span()
        assert span is not None
        source.at = span.end - 70
        await pilot.press("c")
        assert isinstance(app.screen, Overview), "nothing is marked yet"
        assert "mark a range first" in text(app, "message")
        app.screen.mark_range(Window(span.end - 100, span.end - 80))
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, Compare) and "The GPU is busier" in page(app))
        assert page(app).splitlines()[2].startswith(" now ")
        await pilot.press("G")
        assert "decode_image" in page(app)


async def test_ranges_that_cannot_be_summed_up_say_so() -> None:
    async with running(size=(120, 30)) as (app, pilot):
        assert isinstance(app.screen, Overview)
        app.screen.mark_range(Window(1.0, 5.0))
        await until(pilot, lambda: app.scene.summary.window.end == 5.0)  # type: ignore[union-attr]

        def broken(*_: object, **__: object) -> Summary:
            raise ValueError("too old")

        app.scene.source.summary = broken  # type: ignore[method-assign]
        await pilot.press("c")
        await until(pilot, lambda: "cannot be compared" in page(app))


class Stopping(FakeSource):
    """Has just stopped."""

    def about_now(self, summary: Summary) -> Summary:
        return replace(summary, verdict=replace(summary.verdict, title="Stopped now"))


async def test_the_verdict_is_about_now_only_while_now_is_shown() -> None:
    async with running(Stopping(), (120, 40)) as (app, pilot):
        await until(pilot, lambda: "STOPPED NOW" in text(app, "verdict"))
        await pilot.press(*["left"] * 20)
        await until(pilot, lambda: "STOPPED NOW" not in text(app, "verdict"))
        await pilot.press("end")
        await until(pilot, lambda: "STOPPED NOW" in text(app, "verdict"))
