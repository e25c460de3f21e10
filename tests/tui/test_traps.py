"""What has broken other Textual programs, one test each."""

from __future__ import annotations

import ast
import functools
import threading
import time
from pathlib import Path

import pytest
from rich.segment import Segment

import gputop.tui
from gputop.config import Settings
from gputop.model import Window
from gputop.tui import glyphs, theme
from gputop.tui.app import Fresh, GputopApp
from gputop.tui.background import Question
from gputop.tui.canvas import Canvas
from gputop.tui.panels import PANELS
from tests.fakes.source import SCENES, FakeSource
from tests.tui.running import NOW, places, running, still, text, until

_THEMES = [theme.theme(name) for name in ("dark", "light", "ansi")] + [theme.theme("dark", colour=False)]


@functools.cache
def _styles() -> set[str]:
    """Return every style that any scene uses in any drawing mode and size."""
    used: set[str] = set()
    for name in SCENES:
        for set_, coloured in ((glyphs.BRAILLE, True), (glyphs.ASCII, True), (glyphs.BLOCK, False)):
            scene = still(name, set_, coloured=coloured)
            for size in ((160, 48), (40, 10)):
                for key, place in places(scene, *size).items():
                    panel = next(panel for panel in PANELS if panel.key == key)
                    used |= {style for row in panel.draw(scene, place.width, place.height) for _, style in row}
    return used


@pytest.mark.parametrize("palette", _THEMES, ids=lambda item: item.name)
def test_every_style_in_use_exists_and_has_a_background(palette: theme.Theme) -> None:
    """A segment without a background shows the terminal's own colour in the middle of ours."""
    for key in _styles():
        style = palette.style(key)
        assert style.bgcolor is not None, key
        assert style.color is not None, key


def test_palettes_name_the_same_colours() -> None:
    names = [set(palette.palette) for palette in _THEMES[:3]]
    assert names[0] == names[1] == names[2]


def test_without_colour_a_background_becomes_reverse_video() -> None:
    plain = theme.theme("dark", colour=False)
    assert plain.style("ink/warn!b").reverse
    assert not plain.style("text/bar").reverse
    assert plain.style("dim").dim
    with pytest.raises(KeyError):
        plain.style("no such name")


def test_readable_on_both_grounds() -> None:
    """Text has a contrast of at least 4.5 (WCAG AA), dim text 3, against what is behind it."""
    for palette in _THEMES[:2]:
        colours = {name: _luminance(colour) for name, colour in palette.palette.items()}
        for behind in ("base", "bar", "select"):
            assert _contrast(colours["text"], colours[behind]) >= 4.5
            assert _contrast(colours["strong"], colours[behind]) >= 7
        assert _contrast(colours["dim"], colours["base"]) >= 3
        for tone in ("good", "warn", "bad", "accent"):
            assert _contrast(colours["ink"], colours[tone]) >= 3, (palette.name, tone)


def _luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: float, other: float) -> float:
    light, dark = max(one, other), min(one, other)
    return (light + 0.05) / (dark + 0.05)


async def test_no_color_runs_and_shows_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A style of None, or a filter not applied, crashes Textual or leaks colours under NO_COLOR."""
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(colour=False) as (app, pilot):
        for key in ("question_mark", "escape", "t", "escape", "enter", "escape", "f", "slash", "i", "F", "v", "G"):
            await pilot.press(key)
            assert all(_colourless(segment) for strip in _strips(app) for segment in strip), key
        await pilot.press("escape", "escape")
        segments = [segment for strip in _strips(app) for segment in strip]
        assert segments
        assert all(segment.style is not None for segment in segments)
        assert all(_colourless(segment) for segment in segments)
        assert "GG" in text(app, "timeline"), "glyphs carry the meaning"


def _strips(app: GputopApp) -> list[list[Segment]]:
    return [list(strip) for canvas in app.screen.query(Canvas) for strip in canvas.render_lines(canvas.size.region)]


def _colourless(segment: Segment) -> bool:
    style = segment.style
    return style is not None and all(color is None or color.is_default for color in (style.color, style.bgcolor))


@pytest.mark.parametrize(
    ("asked", "encoding", "name"),
    [
        ("auto", "utf-8", "block"),
        ("auto", "UTF8", "block"),
        ("braille", "utf-8", "braille"),
        ("block", "utf-8", "block"),
        ("ascii", "utf-8", "ascii"),
        ("auto", "ascii", "ascii"),
        ("braille", "latin-1", "ascii"),
        ("auto", None, "ascii"),
        ("auto", "no-such-encoding", "ascii"),
    ],
)
def test_glyphs_fit_the_terminals_encoding(asked: str, encoding: str | None, name: str) -> None:
    assert glyphs.choose(asked, encoding).name == name


@pytest.mark.parametrize("scene", sorted(SCENES))
async def test_a_terminal_without_utf8_gets_ascii_only(scene: str) -> None:
    async with running(SCENES[scene](), encoding="latin-1", size=(120, 40)) as (app, pilot):
        for key in (
            "space",
            "question_mark",
            "escape",
            "t",
            "escape",
            "enter",
            "escape",
            "f",
            "F",
            "v",
            "i",
            "escape",
            "c",
        ):
            await pilot.press(key)
            shown = "".join(segment.text for strip in _strips(app) for segment in strip)
            assert shown.isascii(), sorted(set(filter(lambda char: not char.isascii(), shown)))


def test_no_expensive_widget_in_the_live_path() -> None:
    """DataTable, Sparkline and Static cost ten times a canvas; `Static.update` even lays the screen out again."""
    package = Path(gputop.tui.__file__).parent
    imported = {
        alias.name
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("textual.widgets")
        for alias in node.names
    }
    assert imported == {"Input"}


async def test_a_slow_source_keeps_nothing_waiting() -> None:
    """Keys work and `q` ends the app within half a second while a summary hangs."""
    source = FakeSource(gate=threading.Event())
    assert source.gate is not None
    app = GputopApp(Settings(), source)
    async with app.run_test(size=(100, 30)) as pilot:
        assert "ATTACHING" in text(app, "verdict")
        await pilot.press("l")
        assert "hottest lines" in text(app, "hot")
        app._answered -= 10
        app._tick()
        started = time.monotonic()
        await pilot.press("q")
    took = time.monotonic() - started
    source.gate.set()
    assert took < 0.5


async def test_late_answers_are_told() -> None:
    async with running() as (app, pilot):
        app.scene.source.gate = threading.Event()  # type: ignore[attr-defined]
        await pilot.pause(0.6)
        app._answered -= 10
        app._tick()
        assert "LATE" in text(app, "status")
        app.scene.source.gate.set()  # type: ignore[attr-defined]
        await until(pilot, lambda: "LIVE" in text(app, "status"))


async def test_a_flood_of_answers_is_not_queued() -> None:
    """The queue of messages is unbounded: without replacement, a slow screen falls behind for ever."""
    async with running() as (app, pilot):
        drawn = 0
        draw = app.draw

        def counted() -> None:
            nonlocal drawn
            drawn += 1
            draw()

        app.draw = counted  # type: ignore[method-assign]
        summary = app.scene.summary
        assert summary is not None
        question = Question(summary.window, 1, None)
        for _ in range(500):
            app.post_message(Fresh(question, summary))
        await pilot.pause()
        assert drawn < 50


async def test_a_fault_in_analysis_is_shown_and_survived() -> None:
    async with running() as (app, pilot):
        app.post_message(Fresh(Question(Window(0, 1), 1, None), ValueError("no such thing")))
        await until(pilot, lambda: "cannot be summed up" in text(app, "message"))
        assert app.is_running


async def test_only_what_changed_is_painted() -> None:
    async with running() as (app, _pilot):
        hot = app.screen.query_one("#hot", Canvas)
        before = hot.render_lines(hot.size.region)
        app.draw()
        assert all(old is new for old, new in zip(before, hot.render_lines(hot.size.region), strict=True))
        app.scene.view.selected = ("/home/ada/train/data.py", "decode_image")
        app.draw()
        after = hot.render_lines(hot.size.region)
        assert [old is new for old, new in zip(before, after, strict=True)].count(False) == 1


@pytest.mark.parametrize(
    "keys",
    [
        [],
        ["t", "end"],
        ["question_mark"],
        ["enter"],
        ["q"],
        ["slash", "a"],
        ["s"],
        ["f", "down", "down"],
        ["f", "tab", "slash", "a"],
        ["F", "down", "down", "enter"],
        ["F", "v", "i", "slash", "a"],
        ["left", "m", "right", "m", "c"],
    ],
)
async def test_every_screen_fits_every_size(keys: list[str]) -> None:
    source = SCENES["exotic"]()
    source.launched, source.question = True, "May gputop run torch.profiler inside pid 4121? " * 5
    async with running(source, size=(160, 48)) as (app, pilot):
        await pilot.press(*keys)
        for size in ((40, 10), (400, 100), (1, 1), (116, 9)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            canvases = [canvas for canvas in app.screen.query(Canvas) if canvas.size.area]
            assert canvases
            for canvas in canvases:
                strips = canvas.render_lines(canvas.size.region)
                assert {strip.cell_length for strip in strips} == {canvas.size.width}
                assert len(strips) == canvas.size.height


async def test_an_answer_that_comes_when_the_screens_are_gone_is_no_fault() -> None:
    async with running() as (app, _):
        late = app.scene.summary
    assert late is not None
    assert app._wanted is not None
    app.on_fresh(Fresh(app._wanted, late))


async def test_a_message_goes_away_where_nothing_new_comes() -> None:
    """A recording has no news that would paint the screen."""
    async with running(FakeSource(live=False, clock=lambda: NOW), settings=Settings(hz=0.5)) as (app, pilot):
        await pilot.press("t")
        app.say("done with it")
        shown = app.screen.query_one(Canvas)
        assert "done with it" in shown.text
        assert app.scene.message is not None
        app.scene.message.until = 0.0
        app._answered = time.monotonic()
        app._tick()
        assert "done with it" not in shown.text
