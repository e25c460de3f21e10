"""How rates and window lengths follow from what reading a process costs, and who gets a turn."""

from __future__ import annotations

import pytest

from gputop.collectors.stacks.pace import Pace
from gputop.collectors.stacks.roster import AT_ONCE, TARGET_PART, Roster
from gputop.collectors.stacks.window import Window
from tests.unit.stacks_tools import process


def measured(attach: float, read: float) -> Pace:
    pace = Pace(1)
    for _ in range(20):
        pace.learn(attach, attach + 100 * read, 100)
    return pace


def test_cheap_process_gets_what_was_asked() -> None:
    assert Pace(1).rate(100, 0.1) == 100
    assert measured(0.02, 0.0003).rate(100, 0.1) == 100


def test_many_threads_start_slowly() -> None:
    assert Pace(300).rate(100, 0.1) <= 10
    assert Pace(300).pause(100, 0.055) == 0


def test_a_thousand_threads_are_paused_after_the_first_window() -> None:
    """Before anything was measured: a second window at once would cost as much again."""
    pace = Pace(1000)
    assert pace.rate(100, 0.055) == 1
    assert pace.pause(100, 0.055) > 5


@pytest.mark.parametrize(("attach", "read"), [(0.02, 0.003), (0.05, 0.018), (0.1, 0.001)])
def test_cost_stays_within_the_share(attach: float, read: float) -> None:
    pace = measured(attach, read)
    seconds, rate = pace.seconds(0.1), pace.rate(100, 0.1)
    assert (attach + seconds * rate * read) / seconds <= 0.1
    assert rate > 1


def test_rate_is_never_below_one() -> None:
    assert measured(1.0, 10.0).rate(0.2, 0.01) == 1


@pytest.mark.parametrize(("attach", "read"), [(0.35, 0.1), (0.02, 1.0), (2.0, 0.5)])
def test_where_even_the_slowest_reading_is_too_dear_pauses_keep_the_mean(attach: float, read: float) -> None:
    """A thousand threads: 0.35 s to attach, 0.1 s to read."""
    pace = measured(attach, read)
    seconds, pause = pace.seconds(0.05), pace.pause(100, 0.05)
    assert (attach + seconds * read) / (seconds + pause) == pytest.approx(0.05, rel=1e-3)


def test_windows_without_need_have_no_pause_between_them() -> None:
    assert [measured(*cost).pause(100, 0.1) for cost in ((0.02, 0.0003), (0.05, 0.018), (0.1, 0.001))] == [0, 0, 0]


def test_small_changes_of_the_cost_change_nothing() -> None:
    assert len({measured(0.02, read).rate(100, 0.1) for read in (0.0029, 0.003, 0.0031)}) == 1


def test_windows_grow_where_attaching_is_dear() -> None:
    assert measured(0.02, 0.0003).seconds(0.1) == 1
    assert measured(0.1, 0.001).seconds(0.1) == pytest.approx(2.5, rel=1e-3)
    assert measured(5.0, 0.1).seconds(0.1) == 5


def test_window_without_reads_teaches_nothing() -> None:
    pace = Pace(4)
    before = (pace.attach, pace.read)
    pace.learn(0.5, 3.0, 0)
    assert (pace.attach, pace.read) == before


def test_few_processes_are_all_looked_at_and_the_target_gets_most() -> None:
    roster = Roster(0.1)
    roster.follow(tuple(process(pid) for pid in range(1, AT_ONCE + 1)))
    assert roster.take_turns(0.0) == (AT_ONCE, AT_ONCE)
    assert all(track.turn and track.continuous for track in roster)
    assert next(track.share for track in roster) == pytest.approx(0.1 * TARGET_PART)
    assert sum(track.share for track in roster) == pytest.approx(0.1)


def test_many_processes_take_fair_turns() -> None:
    roster = Roster(0.1)
    roster.follow(tuple(process(pid) for pid in range(1, 11)))
    turns = dict.fromkeys(range(1, 11), 0)
    for now in range(1, 91):
        assert roster.take_turns(float(now)) == (AT_ONCE, 10)
        chosen = [track for track in roster if track.turn]
        assert len(chosen) == AT_ONCE
        for track in chosen:
            turns[track.process.pid] += 1
            track.turn = track.continuous  # as after its window
    assert turns.pop(1) == 90
    assert set(turns.values()) == {90 * (AT_ONCE - 1) // 9}


def test_process_that_fails_does_not_hold_a_place() -> None:
    roster = Roster(0.1)
    roster.follow(tuple(process(pid) for pid in range(1, 11)))
    tracks = list(roster)
    for track in tracks[1:4]:
        track.not_before = 1e9
    roster.take_turns(5.0)
    assert {track.process.pid for track in tracks if track.turn} == {1, *range(5, 4 + AT_ONCE)}


def test_pid_used_again_is_another_process() -> None:
    roster = Roster(0.1)
    roster.follow((process(1, started=10.0),))
    before = list(roster)
    roster.follow((process(1, started=20.0),))
    assert list(roster) != before


def test_process_with_a_running_window_leaves_only_after_it() -> None:
    ended: list[str] = []

    class Pretended(Window):
        def __init__(self) -> None:
            self.ready, self.interrupted = 1.0, None

        def interrupt(self) -> None:
            self.interrupted = 2.0
            ended.append("interrupted")

    roster = Roster(0.1)
    roster.follow((process(1), process(2)))
    track = list(roster)[1]
    track.current = Pretended()
    roster.follow((process(1),))
    assert [track.process.pid for track in roster] == [1, 2]
    assert ended == ["interrupted"]
    track.left(track.current)
    roster.follow((process(1),))
    assert [track.process.pid for track in roster] == [1]
