"""What the panels say, as text; the expected pictures are files. `REDRAW=1 pytest tests/tui` writes them anew."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.analysis.efficiency import Efficiency
from gputop.model import NA, GpuUse, Window
from gputop.tui.glyphs import ASCII, BLOCK, BRAILLE, Glyphs
from gputop.tui.panels import PANELS, timeline
from gputop.tui.view import Message, Scene, View
from tests.tui.running import NOW, places, still

_EXPECTED = Path(__file__).parent / "expected"
_PICTURES: list[tuple[str, str, int, int, Glyphs, bool]] = [
    ("starved-160x48", "starved", 160, 48, BRAILLE, False),
    ("launched-120x30", "launched", 120, 30, BLOCK, False),
    ("starved-80x24", "starved", 80, 24, BRAILLE, False),
    ("starved-40x10", "starved", 40, 10, BRAILLE, False),
    ("bound-100x30-ascii", "bound", 100, 30, ASCII, True),
    ("bare-80x24-ascii", "bare", 80, 24, ASCII, False),
    ("exotic-130x40", "exotic", 130, 40, BLOCK, False),
]


def picture(scene: Scene, width: int, height: int) -> str:
    """Return the overview as text, as a screen reader or a log would have it."""
    grid = [[" "] * width for _ in range(height)]
    for panel in PANELS:
        place = places(scene, width, height).get(panel.key)
        for y, row in enumerate(panel.draw(scene, place.width, place.height) if place else ()):
            text = "".join(text for text, _ in row)
            assert place is not None
            grid[place.y + y][place.x : place.x + place.width] = [text, *[""] * (place.width - 1)]
    return "\n".join("".join(row).rstrip() for row in grid) + "\n"


@pytest.mark.parametrize(("name", "scene", "width", "height", "glyphs", "coloured"), _PICTURES)
def test_pictures(name: str, scene: str, width: int, height: int, glyphs: Glyphs, coloured: bool) -> None:
    columns = timeline.columns(width)
    drawn = picture(still(scene, glyphs, coloured=coloured, columns=columns), width, height)
    file = _EXPECTED / f"{name}.txt"
    if os.environ.get("REDRAW"):
        file.write_text(drawn, encoding="utf-8")
    assert drawn == file.read_text(encoding="utf-8")


def _text(scene: Scene, key: str, width: int = 100, height: int = 12) -> str:
    panel = next(panel for panel in PANELS if panel.key == key)
    return "\n".join("".join(text for text, _ in row) for row in panel.draw(scene, width, height))


def test_before_the_first_summary_every_panel_says_what_it_waits_for() -> None:
    scene = still("starved")
    scene.summary = None
    scene.table.update(None, scene.view)
    assert "ATTACHING" in _text(scene, "verdict")
    assert "python train.py" in _text(scene, "header")
    for key in ("hot", "cores", "gpus"):
        assert "waiting for the first" in _text(scene, key)


def test_a_target_that_ended_stays_browsable() -> None:
    scene = still("launched")
    scene.source.exited = (3,)  # type: ignore[misc]
    scene.source.ended_at = NOW  # type: ignore[attr-defined]
    assert "EXITED  with code 3 after 1:12:44, still browsable" in _text(scene, "status", 160, 1)
    scene.source.exited = (139,)  # type: ignore[misc]
    assert "EXITED  with code 139 (128 + SIGSEGV?) after" in _text(scene, "status", 160, 1)
    scene.source.ended_by = 11  # type: ignore[misc]
    assert "EXITED  ended by signal 11 (SIGSEGV) after 1:12:44" in _text(scene, "status", 160, 1)
    scene.source.exited = (None,)  # type: ignore[misc]
    assert "code unknown" in _text(scene, "status", 160, 1)


def test_a_recording_says_so() -> None:
    scene = still("starved")
    scene.source.live = False  # type: ignore[misc]
    assert "RECORDING" in _text(scene, "status", 120, 1)


def test_what_does_not_work_is_named_with_its_remedy() -> None:
    shown = _text(still("bare"), "notes", 160, 2)
    assert "no NVIDIA driver" in shown
    assert "try: install the driver" in shown
    assert "--cap-add=SYS_PTRACE" in shown
    assert "+4 more" in _text(still("exotic"), "notes", 100, 1)


def test_no_gpu_is_said_in_the_gpu_panel() -> None:
    assert "no NVIDIA driver: GPU rows stay empty" in _text(still("bare"), "gpus")


def test_a_value_that_cannot_be_read_gives_the_reason_and_no_number() -> None:
    scene = still("starved")
    assert scene.summary is not None
    gpu = scene.summary.gpus[0]
    nothing = NA("not permitted in this container")
    metrics = {**gpu.metrics, "power_w": nothing, "gpm.sm_active": nothing, "gpm.sm_occupancy": nothing}
    metrics |= {"gpm.tensor": nothing, "gpm.dram": nothing}
    bare = replace(gpu, metrics=metrics, target=GpuUse(nothing, nothing, nothing), throttle=("thermal",))
    scene.summary = replace(scene.summary, gpus=(bare,))
    shown = _text(scene, "gpus")
    assert shown.count("not permitted in this container") == 2
    assert "n/a" in shown
    assert "held down: thermal" in shown


def test_a_lost_gpu_keeps_its_row() -> None:
    shown = _text(still("exotic"), "gpus", 100, 17)
    assert "  5● GPU is lost: reset it or reboot" in shown
    assert " 15 " in shown


def test_a_message_goes_away() -> None:
    scene = still("starved")
    scene.message = Message("saved it", "good", NOW + 5)
    assert "saved it" in _text(scene, "message", 100, 1)
    assert places(scene, 100, 30)["message"] == (0, 28, 100, 1)
    scene.now = NOW + 6
    assert "message" not in places(scene, 100, 30)


def test_rates_held_down_by_the_governor_are_marked() -> None:
    scene = still("starved")
    assert scene.summary is not None
    assert scene.summary.cost is not None
    scene.summary = replace(scene.summary, cost=replace(scene.summary.cost, limited="1000 threads"))
    status = next(panel for panel in PANELS if panel.key == "status")
    styles = {style for text, style in status.draw(scene, 160, 1)[0] if "stacks 100 Hz" in text}
    assert styles == {"warn/bar"}
    assert "1000 threads" in _text(scene, "status", 160, 1)


def test_not_a_python_process_says_what_still_works() -> None:
    scene = still("starved")
    scene.source.session = replace(  # type: ignore[misc]
        scene.session, root=replace(scene.session.root, python=None, frameworks=(), exe="/usr/bin/spin")
    )
    assert scene.summary is not None
    root = scene.session.root
    scene.summary = replace(scene.summary, session=scene.session, processes=(root,), functions=(), lines=())
    scene.table.update(scene.summary, scene.view)
    assert "not a Python process: states, cores and GPU still work" in _text(scene, "hot")
    assert "Python" not in _text(scene, "header")


def test_a_timeline_of_another_width_is_drawn_from_its_newest_end() -> None:
    wide, narrow = still("starved", columns=200), still("starved", columns=20)
    for scene in (wide, narrow):
        rows = _text(scene, "timeline", 100, 12).splitlines()
        assert {len(row) for row in rows} == {100}
    assert "  " * 20 in _text(narrow, "timeline", 100, 12)


def test_threads_that_only_wait_are_folded_by_role() -> None:
    scene = still("starved")
    assert scene.summary is not None
    first = scene.summary.threads[0]
    parked = [replace(first, tid=tid, name="python3", role="pool", main=False, cpu=0.0, states={"idle": 1.0})
              for tid in range(5000, 5031)]  # fmt: skip
    spinning = replace(parked[0], tid=6000, name="omp", cpu=0.9, states={"native": 1.0})
    queued = replace(parked[0], tid=6001, name="loader", role="python", states={"lock": 1.0})
    scene.summary = replace(scene.summary, threads=(*parked, spinning, queued, first))
    rows = _text(scene, "threads").splitlines()
    assert [row.split()[0] for row in rows[1:5]] == ["▌MainThread", "loader", "omp", "…"]
    assert "31 parked pool threads" in rows[4]
    scene.summary = replace(scene.summary, threads=(*parked, replace(parked[0], tid=6002, role="native"), first))
    assert "32 parked threads: 31 pool, 1 native" in _text(scene, "threads")


def test_more_threads_than_rows_are_counted() -> None:
    rows = _text(still("starved"), "threads", 70, 6).splitlines()
    assert [row.split()[0] for row in rows[1:4]] == ["▌MainThread", "pt_autograd_1", "pt_autograd_2"]
    shown, parked = int(rows[4].split()[1]), int(rows[5].split()[1])
    assert 3 + shown + parked == 41


def test_uptime_is_that_of_the_time_shown() -> None:
    scene = still("starved")
    assert scene.summary is not None
    now = scene.summary.window
    assert "up 1:12:44" in _text(scene, "header", 160, 1)
    scene.summary = replace(scene.summary, window=Window(now.start - 100, now.end - 100))
    scene.now = 1e9
    assert "up 1:11:04" in _text(scene, "header", 160, 1)


@pytest.mark.parametrize(("known", "axis"), [(0.5, 10), (9.9, 10), (12, 20), (29, 30), (31, 60), (300, 60)])
def test_the_axis_grows_in_round_steps(known: float, axis: float) -> None:
    view = View(seconds=60)
    window, columns = view.window(Window(1000 - known, 1000), 120, growing=True)
    assert window.seconds / columns == pytest.approx(axis / 120)
    assert columns <= 120
    assert window.seconds <= known + 2 * axis / 120


@pytest.mark.parametrize(("known", "axis"), [(1.5, 1.5), (14.2, 14.2), (58, 58), (61, 60)])
def test_a_recordings_axis_is_as_long_as_the_recording(known: float, axis: float) -> None:
    window, columns = View(seconds=60).window(Window(1000 - known, 1000), 120, growing=False)
    assert window.seconds / columns == pytest.approx(axis / 120)
    assert window.end >= 1000


def test_freezing_does_not_change_the_scale() -> None:
    view, span = View(seconds=60), Window(988, 1000)
    live = view.window(span, 120, growing=True)
    view.paused = 1000.0
    frozen = view.window(span, 120, growing=True)
    assert live[0].seconds / live[1] == pytest.approx(frozen[0].seconds / frozen[1])


def test_the_axis_names_the_length_that_is_drawn() -> None:
    scene = still("starved")
    scene.source._born = NOW - 15  # type: ignore[attr-defined]
    steps = timeline.columns(100)
    window, columns = scene.view.window(scene.source.span() or Window(0, NOW), steps, growing=True)
    scene.summary = scene.source.summary(window, columns)
    assert "−20 s" in _text(scene, "timeline", 100, 14)
    assert "−15 s" in _text(scene, "timeline", 100, 14)


def test_what_limits_the_gpu_is_said_in_words() -> None:
    scene = still("starved")
    assert scene.summary is not None
    found = Efficiency("ineffective", "busy but ineffective", "…", "SM active 9 % while busy")
    scene.summary = replace(scene.summary, efficiency={0: found})
    assert "busy but ineffective: SM active 9 % while busy" in _text(scene, "gpus")


def test_a_driver_that_does_not_answer_is_said() -> None:
    scene = still("starved")
    assert scene.summary is not None
    scene.summary = replace(scene.summary, gpus_at=scene.summary.window.end - 12)
    assert "read 12 s ago" in _text(scene, "gpus")
    scene.summary = replace(scene.summary, gpus=(), efficiency={})
    assert "asking the driver…" in _text(scene, "gpus")
    scene.source.live = False  # type: ignore[misc]
    assert "nothing about GPUs in this window" in _text(scene, "gpus")
