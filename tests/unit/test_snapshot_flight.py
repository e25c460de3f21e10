"""The last seconds and the next ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gputop import config
from gputop.errors import SnapshotError, UsageError
from gputop.model import Window
from gputop.snapshot import flight
from gputop.snapshot.sampled import SUMMARY_PID
from gputop.snapshot.track_ids import STACKS_TID
from gputop.store import Store
from tests.fakes import shots
from tests.fakes.shots import MAIN, PID, START


class Clock:
    """A clock that `wait` moves; what comes at which time is in `coming`."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.coming: list[tuple[float, object]] = []
        self.stop_at = float("inf")

    def __call__(self) -> float:
        return self.now

    def wait(self, until: float) -> bool:
        self.now = min(max(until, self.now), self.stop_at)
        for at, happen in [item for item in self.coming if item[0] <= self.now]:
            self.coming.remove((at, happen))
            happen()  # type: ignore[operator]
        return self.now < self.stop_at


def stacks(store: Store, start: float) -> None:
    shots.add_stacks(store, PID, [(start, start + 1.0, (MAIN,))])


def test_waits_for_the_next_seconds_and_for_stacks_that_come_late(tmp_path: Path) -> None:
    store = shots.story()
    clock = Clock(START + 2.0)
    clock.coming = [(START + 3.6, lambda: stacks(store, 2.1)), (START + 4.7, lambda: stacks(store, 3.2))]
    told: list[str] = []
    saved = flight.take(store, 1.0, 2.0, tmp_path / "a.json", clock.wait, told.append, clock)
    assert saved.window == Window(START + 1.0, START + 4.0)
    assert clock.now == pytest.approx(START + 4.7, abs=0.11), "no longer than the stacks took"
    assert told == ["recording: 2 s left", "recording: 1 s left", "writing a.json"]
    events = json.loads(saved.path.read_text())["traceEvents"]
    ends = [event["ts"] for event in events if event["ph"] == "E" and event["tid"] == STACKS_TID + PID]
    end = [event["ts"] for event in events if event["ph"] == "E" and event["pid"] == SUMMARY_PID]
    assert max(ends) == pytest.approx(end[0], abs=0.1), "the stacks reach the window's end"


def test_does_not_wait_for_stacks_for_ever(tmp_path: Path) -> None:
    clock = Clock(START + 2.0)
    flight.take(shots.story(), 1.0, 1.0, tmp_path / "a.json", clock.wait, clock=clock)
    assert clock.now == pytest.approx(START + 3.0 + flight.LATE_S, abs=0.11)


def test_does_not_wait_for_stacks_where_there_are_none(tmp_path: Path) -> None:
    store = shots.store()
    shots.add_peeks(store, PID, [(0.1 * i, shots.WAITING) for i in range(1, 20)], 0.1)
    clock = Clock(START + 2.0)
    flight.take(store, 1.0, 1.0, tmp_path / "a.json", clock.wait, clock=clock)
    assert clock.now == START + 3.0


def test_stopping_saves_what_there_is(tmp_path: Path) -> None:
    """As long a time as was asked for, of what was before as far as that is kept."""
    clock = Clock(START + 2.0)
    clock.stop_at = START + 2.5
    saved = flight.take(shots.story(), 1.0, 5.0, tmp_path / "a.json", clock.wait, clock=clock)
    assert saved.window == Window(START, START + 2.5)
    assert saved.path.exists()


def test_window_begins_where_samples_do(tmp_path: Path) -> None:
    saved = flight.save(shots.story(), Window(START - 60, START + 2), tmp_path / "a.json")
    assert saved.window == Window(START, START + 2)
    assert saved.bytes == saved.path.stat().st_size
    assert saved.sentence == f"sampled trace: {saved.path} ({saved.bytes / 1e3:.0f} kB); open it at ui.perfetto.dev"


def test_what_cannot_work_is_refused_before_waiting(tmp_path: Path) -> None:
    clock = Clock(START)
    (tmp_path / "there.json").write_text("")
    for store, name, error in (
        (shots.story(), "a.trace", UsageError),
        (shots.story(), "there.json", SnapshotError),
        (Store(), "a.json", SnapshotError),
    ):
        with pytest.raises(error):
            flight.take(store, 1.0, 5.0, tmp_path / name, clock.wait, clock=clock)
    assert clock.now == START


def test_default_name_is_new_and_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = flight.default_path(shots.session(), now=1_795_999_900.25)
    assert path == tmp_path / "node-7_4121.1795999900250.sampled.json.gz"
    assert os.listdir(tmp_path) == []


def test_default_name_is_in_the_state_directory_when_here_is_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/proc")
    assert flight.default_path(shots.session()).parent == config.state_dir()


def test_a_sampled_trace_says_why_it_is_not_torchs(tmp_path: Path) -> None:
    saved = flight.Saved(tmp_path / "a.json", 81_000, "sampled trace", "open it", Window(0, 1), "gdb is not installed")
    assert saved.sentence.splitlines()[1] == "no torch trace: gdb is not installed"
