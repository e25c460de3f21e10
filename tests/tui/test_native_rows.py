"""Native functions on the screen: in the table, and above the source line that called them."""

from __future__ import annotations

from dataclasses import replace

from gputop.analysis.results import FunctionRow, NativePart
from gputop.tui import listing
from gputop.tui.cells import width_of
from gputop.tui.listing import Listing
from gputop.tui.panels import hot
from gputop.tui.screens.source import SourceScreen
from gputop.tui.view import Scene
from tests.fakes.program import code_of
from tests.fakes.source import FakeSource
from tests.tui.running import running, still, until

_DATA = "/home/ada/train/data.py"
_CALLS = (NativePart("cudaStreamSynchronize", "libcudart.so.13", 0.96), NativePart("malloc", "libc.so.6", 0.02))


def _words(scene: Scene, width: int, height: int) -> list[str]:
    return ["".join(text for text, _ in row).rstrip() for row in hot.PANEL.draw(scene, width, height)]


def _native(width: int) -> list[str]:
    scene = still("starved")
    assert scene.summary is not None
    row = FunctionRow("crunch<double>", "app", 0, 0.61, 0.7, {"native": 1.0}, is_native=True)
    scene.summary = replace(scene.summary, functions=(row,), lines=())
    scene.table.update(scene.summary, scene.view)
    return _words(scene, width, 12)


def test_a_native_function_has_its_module_and_no_line() -> None:
    row = next(text for text in _native(120) if "crunch<double>" in text)
    assert row.split()[:2] == ["61.0", "%"]
    assert row.endswith(" app")
    assert next(text for text in _native(56) if "crunch" in text).split()[-2:] == ["crunch<double>", "app"]


def test_lines_of_native_code_are_said_to_be_unknown() -> None:
    scene = still("starved")
    assert scene.summary is not None
    session = replace(scene.session, root=replace(scene.session.root, python=None, exe="/opt/app"))
    scene.summary = replace(scene.summary, session=session, lines=())
    scene.source.session = session  # type: ignore[misc]
    scene.view.by_line = True
    scene.table.update(scene.summary, scene.view)
    assert any("its lines are not known; l shows the functions" in text for text in _words(scene, 120, 12))


def _drawn(at: int, height: int) -> list[str]:
    scene = still("starved")
    assert scene.summary is not None
    lines = tuple(
        replace(row, native=_CALLS) if (row.file, row.line) == (_DATA, 31) else row for row in scene.summary.lines
    )
    shown = Listing(_DATA, code_of(_DATA))
    shown.update(replace(scene.summary, lines=lines))
    shown.go(at, listing.page(shown, height), centre=True)
    drawn = listing.draw(scene, shown, 120, height, focused=True)
    assert {width_of(row) for row in drawn} == {120}
    assert len(drawn) == height
    return ["".join(text for text, _ in row).rstrip() for row in drawn]


def test_the_chosen_line_tells_what_native_functions_it_called() -> None:
    rows = _drawn(31, 20)
    assert rows[2].split() == "line 31: cudaStreamSynchronize libcudart.so.13 96 % · malloc libc.so.6 2 %".split()
    assert _drawn(27, 20)[2].split() == ["line", "27:", "no", "native", "function"]
    assert not any("libcudart" in row for row in _drawn(31, 7)), "there is no room for more than the lines"


async def test_native_functions_are_asked_for_while_the_source_is_open() -> None:
    async with running() as (app, pilot):
        source = app.scene.source
        assert isinstance(source, FakeSource)
        assert not source.native
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, SourceScreen) and source.native)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, SourceScreen) and not source.native)
