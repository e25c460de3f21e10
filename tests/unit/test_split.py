"""What a thread's time went into: known answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.analysis.split import BLOCKED, ON_CPU, thread_states
from gputop.analysis.tally import tally
from gputop.analysis.tiles import Tiles, of
from gputop.model import NA, Observation, PeekBatch, PeekSample, Window
from gputop.store import Store, ThreadKey
from tests.unit.analysis_tools import (
    DECODE,
    LOADER,
    LOCK,
    MAIN,
    NATIVE,
    PID,
    PYTHON,
    SLEEP,
    STEP,
    SYNC,
    WORKER,
    host,
    looks,
    peeks,
    stacks,
    stored,
)

KEY = ThreadKey(PID, PID)


def test_shares_are_the_time_of_the_looks() -> None:
    store = stored(peeks(PID, [(0, 4, PYTHON), (4, 7, SYNC), (7, 9, NATIVE), (9, 10, SLEEP)]))
    split = thread_states(store, KEY, Window(0, 10))
    assert split.states == pytest.approx({"python": 0.4, "gpu_wait": 0.3, "native": 0.2, "idle": 0.1}, abs=1e-6)
    assert split.detail["gpu_wait.sync"] == pytest.approx(0.3, abs=1e-6)
    assert sum(split.states.values()) == pytest.approx(1.0, abs=1e-9)
    assert split.looks == 500
    assert split.seconds == pytest.approx(10.0, abs=1e-5)


def test_a_window_cuts_looks() -> None:
    store = stored(peeks(PID, [(0, 4, PYTHON), (4, 8, NATIVE)], period=0.4))
    assert thread_states(store, KEY, Window(3.5, 4.5)).states == pytest.approx({"python": 0.5, "native": 0.5})


def test_starved_time_is_taken_from_the_state_seen() -> None:
    store = stored(peeks(PID, [(0, 10, NATIVE)], period=0.02, starved=0.005))
    assert thread_states(store, KEY, Window(0, 10)).states == pytest.approx({"native": 0.75, "starved": 0.25}, abs=1e-6)


def test_a_wait_is_told_by_the_python_stack_at_that_time() -> None:
    store = stored(
        peeks(PID, [(0, 10, LOCK)]),
        stacks(PID, [(0, 6, LOADER), (6, 10, (MAIN, DECODE))]),
    )
    split = thread_states(store, KEY, Window(0, 10))
    assert split.states == pytest.approx({"data": 0.6, "lock": 0.4}, abs=1e-5)
    assert split.detail["data.loader"] == pytest.approx(0.6, abs=1e-5)


def test_without_a_stack_a_wait_is_what_it_is_at_other_times() -> None:
    """py-spy is late by a second: the newest looks are not yet covered."""
    store = stored(peeks(PID, [(0, 10, LOCK)]), stacks(PID, [(0, 6, LOADER), (6, 8, (MAIN, DECODE))]))
    assert thread_states(store, KEY, Window(0, 10)).states == pytest.approx({"data": 0.75, "lock": 0.25}, abs=1e-5)


def test_work_is_work_whatever_the_stack_says() -> None:
    store = stored(peeks(PID, [(0, 10, NATIVE)]), stacks(PID, [(0, 10, LOADER)]))
    assert thread_states(store, KEY, Window(0, 10)).states == {"native": 1.0}


@pytest.mark.parametrize("window", [Window(0, 100), Window(3, 100), Window(55, 100)])
def test_a_gap_in_the_looks_belongs_to_no_state(window: Window) -> None:
    """Nobody looked from 2 s to 60 s, wherever the window begins."""
    after = PeekSample(60.0, PID, 0, 58.0, 0.0)
    looks = PeekBatch(PID, 0, 0, (NATIVE,), (after,), {})
    store = stored(peeks(PID, [(0, 2, PYTHON)]), looks, peeks(PID, [(60, 62, PYTHON)]))
    seconds = {what.state: time for what, time in thread_states(store, KEY, window).time.items()}
    assert seconds == pytest.approx({"native": 0.02, "python": 4.0 if window.start == 0 else 2.0}, abs=1e-5)


def test_time_nobody_looked_at_is_not_in_the_shares() -> None:
    store = stored(peeks(PID, [(0, 2, PYTHON), (8, 10, NATIVE)]))
    split = thread_states(store, KEY, Window(0, 10))
    assert split.states == pytest.approx({"python": 0.5, "native": 0.5}, abs=1e-6)
    assert split.seconds == pytest.approx(4.0, abs=1e-5)


def test_without_looks_cpu_times_tell_on_and_off_the_cpu() -> None:
    store = stored(*(host(0.5 * number, {PID: 0.6}, starved=0.1) for number in range(1, 21)))
    window = Window(0, 10)
    split = thread_states(store, KEY, window, store.cpu(window)[KEY])
    assert split.looks == 0
    assert split.states == pytest.approx({"unknown": 0.9, "starved": 0.1}, abs=1e-6)
    assert split.detail == pytest.approx({"unknown.on_cpu": 0.6, "unknown.blocked": 0.3}, abs=1e-6)
    assert split.time[ON_CPU] == pytest.approx(6.0, abs=1e-5)
    assert split.time[BLOCKED] == pytest.approx(3.0, abs=1e-5)


def test_a_stopped_thread_is_told_as_stopped_whatever_its_cpu_time_says() -> None:
    stopped = Observation(syscall="clock_nanosleep", waits_on="timer", stopped="T")
    store = stored(peeks(PID, [(0, 10, stopped)]), host(10.0, {PID: 0.0}))
    split = thread_states(store, KEY, Window(0, 10), store.cpu(Window(0, 10))[KEY])
    assert split.detail == pytest.approx({"unknown.stopped": 1.0})


def test_nothing_known_is_no_share_at_all() -> None:
    store = stored(host(1.0, {PID: NA("gone")}))
    window = Window(0, 10)
    split = thread_states(store, KEY, window, store.cpu(window)[KEY])
    assert (split.states, split.detail, split.seconds) == ({}, {}, 0.0)


def test_stacks_carry_the_states_seen_while_they_stood() -> None:
    store = stored(
        peeks(PID, [(0, 2, PYTHON), (2, 4, NATIVE), (4, 8, SYNC)]),
        stacks(PID, [(0, 3, (MAIN, DECODE)), (3, 8, (MAIN, STEP))]),
    )
    split = thread_states(store, KEY, Window(0, 8))
    times = {stack[-1].name: {what.state: seconds for what, seconds in time.items()} for stack, time in split.stacks}
    assert times["decode"] == pytest.approx({"python": 2.0, "native": 1.0}, abs=1e-5)
    assert times["step"] == pytest.approx({"native": 1.0, "gpu_wait": 4.0}, abs=1e-5)
    assert split.unlooked == pytest.approx(0.0, abs=1e-5)


def test_time_of_a_stack_without_looks_takes_the_rest_of_it_and_is_counted() -> None:
    store = stored(
        peeks(PID, [(0, 2, PYTHON), (2, 4, NATIVE)]),
        stacks(PID, [(0, 8, (MAIN, DECODE)), (8, 10, (MAIN, STEP))]),
    )
    split = thread_states(store, KEY, Window(0, 10))
    times = {stack[-1].name: {what.state: seconds for what, seconds in time.items()} for stack, time in split.stacks}
    assert times["decode"] == pytest.approx({"python": 4.0, "native": 4.0}, abs=1e-5)
    assert times["step"] == pytest.approx({"python": 1.0, "native": 1.0}, abs=1e-5)
    assert split.unlooked == pytest.approx(6.0, abs=1e-5)


def _by_leaf(store: Store, window: Window) -> dict[str, dict[str, float]]:
    split = thread_states(store, KEY, window)
    return {stack[-1].name: {what.state: seconds for what, seconds in time.items()} for stack, time in split.stacks}


def test_a_look_that_saw_something_new_counts_for_the_stack_at_its_moment() -> None:
    """It stands for the 20 ms before, most of which were spent under another stack."""
    rows = [(0.02 * number, PYTHON if number % 2 else SYNC, None) for number in range(1, 101)]
    stood = [
        (0.02 * number - 0.004, 0.02 * number + 0.016, (MAIN, (STEP, DECODE)[number % 2])) for number in range(101)
    ]
    times = _by_leaf(stored(looks(PID, rows), stacks(PID, stood)), Window(0, 2))
    assert times["decode"].keys() == {"python"}
    assert times["step"].keys() == {"gpu_wait"}


def test_the_frame_of_a_look_decides_against_the_stack_at_that_time() -> None:
    """py-spy's times are 10 ms late; a look whose own frame is unknown is joined by time as before."""
    rows = [(0.02 * number, PYTHON if number % 2 else SYNC, DECODE if number % 2 else STEP) for number in range(1, 101)]
    late = [(0.02 * number, 0.02 * number + 0.02, (MAIN, (STEP, DECODE)[number % 2])) for number in range(101)]
    unknown = [(time, seen, None) for time, seen, _ in rows]
    exact = _by_leaf(stored(looks(PID, rows), stacks(PID, late)), Window(0, 2))
    assert exact["decode"].keys() == {"python"}
    assert exact["step"].keys() == {"gpu_wait"}
    joined = _by_leaf(stored(looks(PID, unknown), stacks(PID, late)), Window(0, 2))
    assert joined["decode"].keys() == {"gpu_wait"}


def test_looks_beside_are_shared_out_by_the_time_of_the_stacks_that_end_there() -> None:
    """Two callers of one line: its looks at times of other stacks go to both, by their time."""
    other = DECODE._replace(name="caller")
    stood = [(0.0, 3.0, (MAIN, STEP)), (3.0, 4.0, (MAIN, other, STEP)), (4.0, 8.0, (MAIN, DECODE))]
    rows = [(4.0 + 0.02 * number, SYNC, STEP) for number in range(1, 100, 2)]
    rows += [(4.0 + 0.02 * number, NATIVE, DECODE) for number in range(2, 101, 2)]
    split = thread_states(stored(looks(PID, rows), stacks(PID, stood)), KEY, Window(0, 8))
    times = {stack: {what.state: seconds for what, seconds in time.items()} for stack, time in split.stacks}
    assert times[MAIN, STEP] == pytest.approx({"gpu_wait": 3.0})
    assert times[MAIN, other, STEP] == pytest.approx({"gpu_wait": 1.0})
    assert times[MAIN, DECODE] == pytest.approx({"native": 4.0})
    assert split.states == pytest.approx({"gpu_wait": 0.5, "native": 0.5})


def test_without_stacks_the_frames_of_looks_are_stacks_of_one() -> None:
    """As under a free-threaded Python, which py-spy cannot read; what is in no known frame is in no stack."""
    rows = [(0.02 * number, *((PYTHON, DECODE), (SYNC, STEP), (NATIVE, None))[number % 3]) for number in range(1, 91)]
    split = thread_states(stored(looks(PID, rows)), KEY, Window(0, 1.8))
    times = {stack: {what.state: seconds for what, seconds in time.items()} for stack, time in split.stacks}
    assert times == {(DECODE,): {"python": pytest.approx(0.6)}, (STEP,): {"gpu_wait": pytest.approx(0.6)}}


def test_a_line_without_looks_takes_those_of_its_function_then_those_at_its_time() -> None:
    line = STEP._replace(line=99)
    stood = [(0.0, 1.0, (MAIN, line)), (1.0, 2.0, (MAIN, DECODE))]
    rows = [(0.02 * number, SYNC, STEP) for number in range(1, 101, 2)]
    times = _by_leaf(stored(looks(PID, rows), stacks(PID, stood)), Window(0, 2))
    assert times["step"].keys() == {"gpu_wait"}
    assert times["decode"].keys() == {"gpu_wait"}


def test_a_wait_under_another_stack_is_told_by_its_own_frame_or_by_habit() -> None:
    """The data loader's stack is there by py-spy's clock; the look was in code of the user's, or in a lock's."""
    user, plumbing = DECODE, LOADER[-1]._replace(line=9)
    rows = [(0.02 * number, LOCK, user if number % 2 else plumbing) for number in range(1, 101)]
    store = stored(looks(PID, rows), stacks(PID, [(0.0, 2.0, LOADER)]))
    assert thread_states(store, KEY, Window(0, 2)).states == pytest.approx({"lock": 1.0})


def test_a_short_wait_in_plumbing_is_told_by_the_stacks_that_end_there() -> None:
    """Waits shorter than the time of stacks is known to fall on others; those that end in their frame tell them."""
    deeper = LOADER[-1]._replace(line=9)
    stood = [(0.0, 0.6, (*LOADER, deeper)), (0.6, 0.8, (MAIN, DECODE, deeper)), (0.8, 2.0, (MAIN, STEP))]
    rows = [(0.8 + 0.02 * number, LOCK, deeper) for number in range(1, 61)]
    split = thread_states(stored(looks(PID, rows), stacks(PID, stood)), KEY, Window(0, 2))
    assert split.states == pytest.approx({"data": 0.75, "lock": 0.25})
    states = [{what.state for what in time} for stack, time in split.stacks if stack[-1] == deeper]
    assert states == [{"data"}, {"lock"}]


ticks = st.integers(1, 60)
observations = st.sampled_from([PYTHON, NATIVE, SYNC, LOCK, SLEEP])
stretches = st.lists(st.tuples(ticks, observations), max_size=30)
stretched = st.lists(st.tuples(ticks, st.sampled_from([(MAIN, DECODE), (MAIN, STEP), LOADER, WORKER])), max_size=30)


def _laid(rows: list[tuple[int, object]], step: float) -> list[tuple[float, float, object]]:
    laid, at = [], 0.0
    for length, what in rows:
        if length % 7:  # else: a gap
            laid.append((at, at + step * length, what))
        at += step * length
    return laid


@given(stretches, stretched, st.integers(0, 20), st.integers(1, 60))
def test_tiles_sum_to_the_same_as_the_whole(
    seen: list[tuple[int, object]], stood: list[tuple[int, object]], start: int, length: int
) -> None:
    """A window put together from kept tiles equals one walk over all of it, also when asked twice."""
    store = Store()
    if laid := _laid(seen, 0.5):
        store.add(peeks(PID, laid, period=0.05))  # type: ignore[arg-type]
    if laid := _laid(stood, 0.7):
        store.add(stacks(PID, laid))  # type: ignore[arg-type]
    window = Window(start + 0.3, start + 0.3 + length)
    whole = tally(list(store.peeks(KEY, window)), list(store.segments(KEY, window)), Tiles().classified)
    for _ in range(2):
        parts = of(store).tally(store, KEY, window)
        assert parts.time == pytest.approx(whole.time, abs=1e-5)
        assert {number: wait.alone for number, wait in parts.waits.items()} == pytest.approx(
            {number: wait.alone for number, wait in whole.waits.items()}, abs=1e-5
        )
        assert {n: entry.seconds for n, entry in parts.stacks.items()} == pytest.approx(
            {n: entry.seconds for n, entry in whole.stacks.items()}, abs=1e-5
        )
    shares = thread_states(store, KEY, window).states
    assert not shares or sum(shares.values()) == pytest.approx(1.0, abs=1e-9)


def test_kept_tiles_notice_late_stacks() -> None:
    seconds = [(float(start), start + 1.0, LOCK if start % 2 else PYTHON) for start in range(60)]
    store = stored(peeks(PID, seconds))
    window = Window(0, 60)
    assert thread_states(store, KEY, window).states == pytest.approx({"python": 0.5, "lock": 0.5}, abs=1e-6)
    store.add(stacks(PID, [(0, 60, LOADER)]))
    assert thread_states(store, KEY, window).states == pytest.approx({"python": 0.5, "data": 0.5}, abs=1e-6)
