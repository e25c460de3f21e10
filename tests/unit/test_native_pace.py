"""How often threads are looked at, what that may cost, and the pipe in between."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from gputop.collectors.native.agenda import Agenda
from gputop.collectors.native.pace import Pace
from gputop.collectors.native.task import Counters, Look, Task
from gputop.collectors.native.wire import Receiver, Sender, encode
from tests.unit.native_tools import compiled, names, needs_gcc, needs_ptrace, running, watching


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compiled(tmp_path_factory.mktemp("pace"), "counts")


def _task(running_now: bool, cpu_share: float) -> tuple[Task, Counters]:
    """Return a task that was looked at a second ago, and its counters then."""
    task = Task(os.getpid(), os.getpid(), 100.0, keep_open=False)
    before = Counters(0, 0, 0)
    task.counters = Counters(int(cpu_share * 1e9), 0, 1)
    task.look = Look(running=running_now)
    return task, before


@pytest.mark.parametrize(
    ("running_now", "cpu_share", "main", "hz"),
    [(True, 0.0, False, 50), (False, 0.5, False, 50), (False, 0.0, True, 50), (False, 0.0, False, 5)],
)
def test_busy_and_main_threads_are_looked_at_often(running_now: bool, cpu_share: float, main: bool, hz: float) -> None:
    pace = Pace(50.0, 0.01)
    task, before = _task(running_now, cpu_share)
    delays = [pace.after(task, before, 1.0, main)[1] for _ in range(2000)]
    mean = sum(delays) / len(delays)
    # 2000 uniform draws of ±50 %: the mean's standard error is 0.65 % of the interval.
    assert mean == pytest.approx(1 / hz, rel=0.03)
    assert 0.5 / hz <= min(delays) < 0.55 / hz
    assert 1.45 / hz < max(delays) <= 1.5 / hz


def test_when_a_main_thread_is_looked_at_does_not_follow_the_phases_of_its_steps() -> None:
    """It was just seen at work, or waiting: that must not tell how soon it is looked at again."""
    pace = Pace(50.0, 0.01)
    pace._slowed = 0.1
    delays: dict[bool, list[float]] = {True: [], False: []}
    task, before = _task(False, 0.0)
    for number in range(4000):
        works = number % 4 == 0
        task.look, task.counters = Look(running=works), Counters(before.run_ns + works * 5_000_000, 0, number)
        delays[works].append(pace.after(task, before, 0.025, main=True)[1])
        before = task.counters
    at_work, waiting = (sum(delays[works][100:]) / len(delays[works][100:]) for works in (True, False))
    assert at_work == pytest.approx(waiting, rel=0.05)


@pytest.mark.parametrize(
    ("workers", "cpu_share", "main", "part"),
    [
        (0, 1.0, True, 0.9),
        (2, 1.0, True, 0.9),
        (3, 1.0, True, 0.45),
        (0, 0.0, True, 0.4),
        (3, 0.0, True, 0.2),
        (3, 1.0, False, 0.1),
        (0, 0.0, False, 0.1),
    ],
)
def test_where_looks_are_dear_a_main_thread_leaves_some_to_many_busy_ones(
    workers: int, cpu_share: float, main: bool, part: float
) -> None:
    """Looks may take a tenth of what is asked for; main threads are asked first, but not for all."""
    pace, now = Pace(50.0, 0.01), time.monotonic()
    for tid in range(workers):
        worker, before = _task(True, 1.0)
        worker.tid, worker.looked = 1000 + tid, now
        pace.after(worker, before, 1.0, main=False)
    pace.adapt()
    pace._slowed, pace.threads = 0.1, 1000
    task, before = _task(running_now=bool(cpu_share), cpu_share=cpu_share)
    task.wanted = cpu_share
    delays = [pace.after(task, before, 1.0, main)[1] for _ in range(2000)]
    rate = 50.0 if main or cpu_share else 5.0
    assert sum(delays) / len(delays) == pytest.approx(1 / (rate * part), rel=0.03)


def test_however_dear_looks_are_workers_and_parked_threads_are_seen() -> None:
    """Twenty looks a second for four workers, and twenty for forty parked threads."""
    pace, now = Pace(50.0, 0.01), time.monotonic()
    pace._slowed, pace.threads = 0.01, 44
    delays: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2000):
        task, before = _task(number % 2 == 0, 1.0 - number % 2)
        task.tid, task.looked = 1000 + (number % 8 if number % 2 == 0 else 9), now
        delays[number % 2 == 0].append(pace.after(task, before, 1.0, main=False)[1])
    busy, parked = (sum(delays[kind][8:]) / len(delays[kind][8:]) for kind in (True, False))
    assert busy == pytest.approx(4 / 20, rel=0.05)
    assert parked == pytest.approx(40 / 20, rel=0.05)


def test_a_thread_that_was_held_up_too_long_is_left_alone_until_its_budget_has_paid() -> None:
    pace = Pace(50.0, 0.01)
    task, before = _task(True, 1.0)
    task.owed_s = 0.030
    _, delay = pace.after(task, before, 0.0, main=True)
    assert delay == pytest.approx((0.030 - 0.01) / 0.01)
    _, delay = pace.after(task, before, 2.0, main=True)
    assert delay <= 1.5 / 50
    assert task.owed_s == pytest.approx(0.010)


@needs_gcc
@needs_ptrace
def test_the_budget_bounds_the_time_that_the_target_is_held_up(program: str, tmp_path: Path) -> None:
    budget = 0.002
    with running(program, str(tmp_path / "counters"), "1") as target:
        with watching(target.pid, rate=500, budget=budget) as watch:
            watch.wait_for(lambda seen: len(seen.batches) >= 5)
        batches = watch.batches
    covered = batches[-1].end - batches[0].start
    held = sum(batch.stopped_s for batch in batches)
    assert held > 0
    # What the budget pays back, a second's credit, and one stop on a machine whose CPUs are all taken.
    assert held <= budget * (covered + 1) + 0.02
    assert sum(batch.stops for batch in batches) < 500 * covered / 2


@needs_gcc
@needs_ptrace
def test_without_a_budget_nothing_is_stopped_and_it_is_said(program: str, tmp_path: Path) -> None:
    with running(program, str(tmp_path / "counters"), "1") as target, watching(target.pid, budget=0) as watch:
        seen = watch.see(lambda seen: seen.running)
        assert "budget" in seen.unreadable
        assert sum(batch.stops for batch in watch.batches) == 0


@needs_gcc
@needs_ptrace
def test_waiting_for_a_cpu_is_told_from_having_one(program: str, tmp_path: Path) -> None:
    with running(program, str(tmp_path / "counters"), "2") as target:
        for tid in map(int, os.listdir(f"/proc/{target.pid}/task")):
            os.sched_setaffinity(tid, {min(os.sched_getaffinity(0))})
        with watching(target.pid) as watch:
            watch.wait_for(lambda seen: len(seen.batches) >= 4)
        samples = [sample for sample, seen in watch.seen() if seen.running]
        assert {name for _, seen in watch.seen() for name in names(seen)[:1]} <= {"count", "main"}
        assert all(seen.complete for _, seen in watch.seen())
    starved, seconds = sum(sample.starved for sample in samples), sum(sample.seconds for sample in samples)
    # Two threads on one core: each has it at most half of the time, less when others want it too.
    assert starved / seconds > 0.4
    assert all(0 <= sample.starved <= sample.seconds for sample in samples)


def test_patient_actions_come_along_with_urgent_ones() -> None:
    agenda, done = Agenda(), []
    assert agenda.next_due == float("inf")
    agenda.add(1.0, lambda now: done.append("urgent"))
    agenda.add(1.015, lambda now: done.append("patient"), patient=True)
    agenda.add(1.015, lambda now: done.append("later"))
    assert agenda.next_due == 1.0
    for action in agenda.due(1.0):
        action(1.0)
    assert done == ["urgent", "patient"]
    assert agenda.next_due == 1.015


def test_messages_cross_a_pipe_in_any_pieces() -> None:
    messages = [("batch", "x" * size) for size in (0, 1, 1000, 100_000)]
    data, chance = b"".join(map(encode, messages)), random.Random(3)
    reading, writing = os.pipe()
    receiver, received = Receiver(reading), []
    while data:
        size = chance.randint(1, 5000)
        os.write(writing, data[:size])
        data = data[size:]
        received += list(receiver.receive())
    os.close(writing)
    with pytest.raises(EOFError):
        list(receiver.receive())
    os.close(reading)
    assert received == messages


def test_a_reader_that_does_not_read_never_holds_the_sender_up() -> None:
    reading, writing = os.pipe()
    sender = Sender(writing, limit_bytes=1 << 20)
    started = time.monotonic()
    sent = [sender.send("x" * 50_000) for _ in range(100)]
    assert time.monotonic() - started < 1
    assert sent[0]
    assert not sent[-1]
    receiver, received = Receiver(reading), 0
    os.set_blocking(reading, False)
    while received < sum(sent):
        received += len(list(receiver.receive()))
        sender.flush()
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        sender.send("x")
    os.close(writing)
