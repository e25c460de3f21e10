"""A verdict on the last seconds, where they are unlike the rest of the window."""

from __future__ import annotations

import pytest

from gputop.analysis.lately import about_now
from gputop.analysis.summary import summarise
from gputop.analysis.tally import Tally
from gputop.analysis.tiles import Tiles
from gputop.model import Observation, Window
from gputop.store import Store, ThreadKey
from tests.unit.analysis_tools import LOCK, NATIVE, PID, PYTHON, SLEEP, SYNC, peeks, stored

STOPPED = Observation(stopped="T", syscall="clock_nanosleep", waits_on="timer", complete=False)


def told(store: Store, window: Window) -> str:
    verdict = about_now(store, summarise(store, window)).verdict
    return f"{verdict.id}: {verdict.sentence}"


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (STOPPED, "stopped: in the last 5 s: comm100 was stopped 100 % of the time"),
        (SLEEP, "idle: in the last 5 s: comm100 sleeps 100 % of the time"),
        (LOCK, "lock-bound: in the last 5 s: comm100 waits 100 %"),
    ],
)
def test_a_program_that_has_just_stopped_working_is_told_at_once(now: Observation, expected: str) -> None:
    store = stored(peeks(PID, [(0, 54, PYTHON), (54, 60, now)]))
    assert told(store, Window(0, 60)).startswith(expected)


def test_what_is_as_ever_is_told_of_the_whole_window() -> None:
    store = stored(peeks(PID, [(0, 60, PYTHON)]))
    assert "in the last" not in told(store, Window(0, 60))


def test_phases_of_some_seconds_are_no_change() -> None:
    """Two seconds of computing, two of waiting for the GPU, and so on."""
    phases = [(2.0 * at, 2.0 * at + 2, (NATIVE, SYNC)[at % 2]) for at in range(30)]
    for end in range(50, 61):
        assert "in the last" not in told(stored(peeks(PID, phases)), Window(end - 50, end))


def test_a_state_that_has_most_of_the_window_is_no_news() -> None:
    store = stored(peeks(PID, [(0, 25, PYTHON), (25, 60, SLEEP)]))
    assert "in the last" not in told(store, Window(0, 60))


def test_short_windows_and_windows_without_news_are_left_alone() -> None:
    store = stored(peeks(PID, [(0, 8, PYTHON), (8, 14, SLEEP)]))
    assert "in the last" not in told(store, Window(0, 14))
    late = stored(peeks(PID, [(0, 50, PYTHON), (50, 57, SLEEP)]))
    assert "in the last" not in told(late, Window(0, 60)), "the samples of the last 3 s have not come in yet"


def test_no_thread_no_news() -> None:
    store = stored()
    summary = summarise(store, Window(0, 60))
    assert about_now(store, summary) is summary


def test_the_long_window_is_not_worked_out_anew_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a picture: what the summary of 60 s keeps between pictures must outlive the question about 5 s."""
    store = stored(peeks(PID, [(0, 54, PYTHON), (54, 60, SLEEP)]))
    worked_out: list[Window] = []
    fresh = Tiles._fresh

    def counted(tiles: Tiles, store: Store, key: ThreadKey, window: Window, native: bool) -> Tally:
        worked_out.append(window)
        return fresh(tiles, store, key, window, native)

    for _ in range(2):
        summarise(store, Window(0, 60))
    monkeypatch.setattr(Tiles, "_fresh", counted)
    summarise(store, Window(0, 60))
    without = len(worked_out)
    assert "in the last 5 s" in told(store, Window(0, 60))
    worked_out.clear()
    summarise(store, Window(0, 60))
    assert len(worked_out) == without
