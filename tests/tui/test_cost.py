"""What the screen may cost: bytes to the terminal, CPU for a tick, modules at start. (Measured: tests/bench/ui.py.)"""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from rich.console import Console
from rich.segment import Segment

from gputop.tui import theme
from gputop.tui.canvas import changed_columns
from gputop.tui.cells import Line, width_of
from gputop.tui.lean import LeanStrip
from gputop.tui.panels import PANELS, timeline
from gputop.tui.view import Scene
from tests.tui.running import NOW, places, still
from tests.tui.terminal import ROOT

_WIDTH, _HEIGHT, _HZ, _TICKS = 160, 48, 2, 20
#: Bytes a second, at two pictures a second with everything changing.
_BUDGET = 25_000
#: CPU seconds for drawing one picture; three times what it takes on a slow core.
_CPU = 0.030


def _tick(scene: Scene, number: int) -> dict[tuple[str, int], Line]:
    """Draw the picture of one moment; return its lines by panel and row."""
    now = NOW + number / _HZ
    scene.source.clock = lambda: now  # type: ignore[attr-defined]
    window, columns = scene.view.window(scene.source.span(), timeline.columns(_WIDTH), growing=True)  # type: ignore[arg-type]
    scene.summary, scene.now = scene.source.summary(window, columns), now
    scene.table.update(scene.summary, scene.view)
    lines = {}
    for key, place in places(scene, _WIDTH, _HEIGHT).items():
        panel = next(panel for panel in PANELS if panel.key == key)
        for row, line in enumerate(panel.draw(scene, place.width, place.height)):
            lines[key, row] = line
    return lines


@pytest.mark.parametrize(("name", "ticks"), [("starved", _TICKS), ("exotic", 4)])
def test_bytes_to_the_terminal_stay_in_the_budget(name: str, ticks: int) -> None:
    scene, palette = still(name), theme.theme("dark")
    console = Console(color_system="truecolor", force_terminal=True)
    before, written = _tick(scene, 0), 0
    for number in range(1, ticks + 1):
        now = _tick(scene, number)
        for place, line in now.items():
            if line != before.get(place):
                _, end = changed_columns(before.get(place, ()), line, width_of(line))
                strip = LeanStrip([Segment(text, palette.style(style)) for text, style in line]).crop(0, end)
                written += len(strip.render(console).encode()) + len("\x1b[10;100H")
        before = now
    assert 0 < written * _HZ / ticks < _BUDGET


def test_a_picture_is_drawn_in_little_cpu_time() -> None:
    scene = still("starved")
    took = []
    for number in range(10):
        started = time.thread_time()
        _tick(scene, number)
        took.append(time.thread_time() - started)
    assert min(took) < _CPU


def test_a_thousand_threads_and_five_thousand_functions_do_not_slow_it_down() -> None:
    scene = still("exotic")
    summary = scene.summary
    assert summary is not None
    assert len(summary.threads) == 1000
    assert len(summary.functions) == 5000
    took = []
    for _ in range(5):
        started = time.thread_time()
        scene.table.update(summary, scene.view)
        for key, place in places(scene, _WIDTH, _HEIGHT).items():
            next(panel for panel in PANELS if panel.key == key).draw(scene, place.width, place.height)
        took.append(time.thread_time() - started)
    assert min(took) < 3 * _CPU


def test_only_what_the_first_picture_needs_is_imported() -> None:
    code = "import sys, gputop.tui.app; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    modules = set(loaded.split())
    unwanted = (
        "gputop.engine",
        "gputop.store",
        "gputop.collectors",
        "gputop.snapshot",
        "gputop.target",
        "gputop.report",
    )
    later = ("gputop.tui.screens.picker", "gputop.tui.screens.threads", "gputop.tui.screens.page", "psutil", "pynvml")
    assert not modules & {*unwanted, *later}
    assert "gputop.tui.screens.overview" in modules
