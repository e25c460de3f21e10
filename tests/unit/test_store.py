"""The store: what goes in comes out, clipped, merged and never changed afterwards."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.model import (
    NA,
    CostBatch,
    Frame,
    GpuBatch,
    GpuReading,
    GpuUse,
    HostBatch,
    Note,
    Observation,
    PeekBatch,
    PeekSample,
    ProcessBatch,
    ProcessInfo,
    ProcessReading,
    StackBatch,
    StackSegment,
    ThreadReading,
    Window,
)
from gputop.store import Cpu, Peek, Segment, Store, ThreadKey

KEY = ThreadKey(7, 7)
SEEN = tuple(Observation(syscall=f"call{number}") for number in range(3))
STACKS = tuple((Frame("main", "main.py", 1), Frame(f"leaf{number}", "leaf.py", number)) for number in range(3))
ALL = Window(-1e9, 1e9)


def peeks(*samples: PeekSample, pid: int = 7) -> PeekBatch:
    names = {sample.tid: f"comm-{sample.tid}" for sample in samples}
    return PeekBatch(pid, 0.0, 0.0, SEEN, samples, names)


def stacks(
    *segments: StackSegment, samples: int = 0, failed: int = 0, start: float = 0.0, end: float = 0.0
) -> StackBatch:
    names = {segment.tid: f"Thread-{segment.tid}" for segment in segments}
    return StackBatch(7, start, end, names, STACKS, segments, samples, failed, 100.0)


def host(time: float, *threads: ThreadReading, seconds: float = 0.5, pid: int = 7) -> HostBatch:
    process = ProcessReading(pid, 1.5, NA("no statm"), threads)
    return HostBatch(time, seconds, (0.5, 0.25), (0.5, 0.0), 8e9, 16e9, (1.0, 2.0, 3.0), (process,))


def test_peeks_are_clipped_to_the_window_starved_time_in_proportion() -> None:
    store = Store()
    store.add(peeks(PeekSample(12.0, 7, 0, 0.5, 0.125)))
    (peek,) = store.peeks(KEY, Window(11.75, 20.0))
    assert peek == Peek(12.0, 0.25, 0.0625, SEEN[0])
    (peek,) = store.peeks(KEY, Window(0.0, 11.625))
    assert peek == Peek(11.625, 0.125, 0.03125, SEEN[0])
    assert list(store.peeks(KEY, Window(12.0, 20.0))) == []
    assert list(store.peeks(KEY, Window(0.0, 11.5))) == []


def test_segments_are_clipped_to_the_window() -> None:
    store = Store()
    store.add(stacks(StackSegment(7, 1.0, 3.0, 1)))
    assert list(store.segments(KEY, Window(2.0, 9.0))) == [Segment(2.0, 3.0, STACKS[1])]
    assert list(store.segments(KEY, Window(3.0, 9.0))) == []


def test_looks_that_see_the_same_are_one_peek() -> None:
    store = Store()
    store.add(peeks(*(PeekSample(0.25 * number, 7, 1, 0.25, 0.0) for number in range(1, 9))))
    first, rest = Peek(0.25, 0.25, 0.0, SEEN[1]), Peek(2.0, 1.75, 0.0, SEEN[1], 7, held=True)
    assert list(store.peeks(KEY, ALL)) == [first, rest]


@pytest.mark.parametrize(
    "second",
    [
        PeekSample(1.0, 7, 1, 0.5, 0.0),  # saw something else
        PeekSample(1.0, 7, 0, 0.5, 0.1),  # was starved
        PeekSample(1.2, 7, 0, 0.5, 0.0),  # not contiguous
    ],
)
def test_looks_that_differ_stay_apart(second: PeekSample) -> None:
    store = Store()
    store.add(peeks(PeekSample(0.5, 7, 0, 0.5, 0.0), second))
    assert len(list(store.peeks(KEY, ALL))) == 2


def test_a_stack_that_goes_on_over_a_short_seam_is_one_segment() -> None:
    store = Store()
    store.add(stacks(StackSegment(7, 0.0, 1.0, 0), StackSegment(7, 1.01, 2.0, 0), StackSegment(7, 2.5, 3.0, 0)))
    assert list(store.segments(KEY, ALL)) == [Segment(0.0, 2.0, STACKS[0]), Segment(2.5, 3.0, STACKS[0])]


@pytest.mark.parametrize(("gap", "stands_for"), [(0.5, 0.5), (0.6, 0.6), (0.8, 0.8), (0.9, 0.2), (60.0, 0.2)])
def test_a_long_gap_between_looks_was_not_looked_at(gap: float, stands_for: float) -> None:
    """At 5 Hz: up to four periods a look stands for all the time before it, then for one period."""
    store = Store()
    store.add(peeks(PeekSample(0.2, 7, 0, 0.2, 0.0), PeekSample(0.2 + gap, 7, 1, gap, gap / 2)))
    _, after = store.peeks(KEY, ALL)
    assert after.seconds == pytest.approx(stands_for)
    assert after.starved == pytest.approx(stands_for / 2)


def test_a_new_slower_rate_is_believed_from_the_second_look_on() -> None:
    store = Store()
    store.add(peeks(*(PeekSample(0.02 * number, 7, number % 2, 0.02, 0.0) for number in range(1, 51))))
    store.add(peeks(PeekSample(3.0, 7, 0, 2.0, 0.0)))
    store.add(peeks(PeekSample(5.0, 7, 1, 2.0, 0.0)))  # the rate before is known across batches …
    store.add(peeks(PeekSample(17.0, 7, 0, 12.0, 0.0)))  # … and chunks
    store.add(peeks(PeekSample(29.0, 7, 1, 12.0, 0.0)))
    assert [round(peek.seconds, 6) for peek in store.peeks(KEY, ALL)][-4:] == [0.02, 2.0, 2.0, 12.0]


times = st.integers(0, 4000).map(lambda tick: tick / 64)
lengths = st.integers(0, 32).map(lambda tick: tick / 64)  # no gaps here: those are another test


@given(st.lists(st.tuples(times, lengths, st.integers(0, 2)), max_size=40), times, lengths)
def test_windows_equal_brute_force(rows: list[tuple[float, float, int]], start: float, length: float) -> None:
    """Seconds of each observation in a window, whatever order looks come in and however they overlap."""
    window = Window(start, start + 4 * length)
    store = Store()
    for time, seconds, number in rows:
        store.add(peeks(PeekSample(time, 7, number, seconds, seconds / 4)))
    expected = dict.fromkeys(SEEN, 0.0)
    for time, seconds, number in rows:
        expected[SEEN[number]] += max(0.0, min(time, window.end) - max(time - seconds, window.start))
    found = dict.fromkeys(SEEN, 0.0)
    starved = 0.0
    previous = float("-inf")
    for peek in store.peeks(KEY, window):
        found[peek.observation] += peek.seconds
        starved += peek.starved
        assert window.start - 1e-9 <= peek.time - peek.seconds <= peek.time <= window.end
        assert peek.time >= previous
        previous = peek.time
    assert found == pytest.approx(expected, abs=1e-5)
    assert starved == pytest.approx(sum(expected.values()) / 4, abs=1e-5)


@given(st.lists(st.tuples(times, lengths, st.integers(0, 2)), max_size=40), times, lengths)
def test_segment_windows_equal_brute_force(rows: list[tuple[float, float, int]], start: float, length: float) -> None:
    window = Window(start, start + 4 * length)
    store = Store()
    ends: list[float] = []
    expected = [0.0, 0.0, 0.0]
    for begin, seconds, number in rows:
        if all(abs(begin - end) > 0.05 for end in ends):  # no seams here: those are another test
            store.add(stacks(StackSegment(7, begin, begin + seconds, number)))
            ends.append(begin + seconds)
            expected[number] += max(0.0, min(begin + seconds, window.end) - max(begin, window.start))
    found = [0.0, 0.0, 0.0]
    for segment in store.segments(KEY, window):
        assert window.start <= segment.start <= segment.end <= window.end
        found[STACKS.index(segment.stack)] += segment.end - segment.start
    assert found == pytest.approx(expected)


def test_threads_are_those_seen_in_the_window() -> None:
    store = Store()
    store.add(peeks(PeekSample(5.0, 1, 0, 0.5, 0.0), PeekSample(25.0, 2, 0, 0.5, 0.0)))
    store.add(stacks(StackSegment(3, 5.0, 26.0, 0)))
    assert store.threads(ALL) == (ThreadKey(7, 1), ThreadKey(7, 2), ThreadKey(7, 3))
    assert store.threads(Window(0.0, 5.5)) == (ThreadKey(7, 1), ThreadKey(7, 3))
    assert store.threads(Window(20.0, 24.75)) == (ThreadKey(7, 2), ThreadKey(7, 3))
    assert store.threads(Window(30.0, 40.0)) == ()


def test_python_names_win_and_the_newest_counts() -> None:
    store = Store()
    store.add(peeks(PeekSample(1.0, 9, 0, 1.0, 0.0)))
    assert store.name(ThreadKey(7, 9)) == "comm-9"
    store.add(stacks(StackSegment(9, 0.0, 1.0, 0)))
    assert store.name(ThreadKey(7, 9)) == "Thread-9"
    renamed = StackBatch(7, 20.0, 21.0, {9: "renamed"}, STACKS, (StackSegment(9, 20.0, 21.0, 0),), 1, 0, 1.0)
    store.add(renamed)
    assert store.names(ThreadKey(7, 9)) == ("renamed", "comm-9")
    assert store.name(ThreadKey(7, 10)) == ""


def test_what_was_returned_does_not_change() -> None:
    store = Store()
    store.add(peeks(PeekSample(0.5, 7, 0, 0.5, 0.0)))
    held = store.peeks(KEY, ALL)
    store.add(peeks(PeekSample(1.0, 7, 0, 0.5, 0.0)))
    assert list(held) == [Peek(0.5, 0.5, 0.0, SEEN[0])]


def test_equal_objects_are_one() -> None:
    store = Store()
    for number in range(3):
        fresh = tuple(Frame("".join(["ma", "in"]), "main.py", 1) for _ in range(2))
        store.add(StackBatch(7, 0, 0, {}, (fresh,), (StackSegment(number, number, number + 0.5, 0),), 1, 0, 1.0))
    found = [next(store.segments(ThreadKey(7, number), ALL)).stack for number in range(3)]
    assert found[0] is found[1] is found[2]
    assert found[0][0] is found[0][1]


def test_hosts_keep_values_and_the_last_thread_table() -> None:
    store = Store()
    reading = ThreadReading(8, "worker", 0.5, NA("no schedstat"), "S", 3)
    store.add(host(2.0, reading))
    store.add(host(1.0, reading))
    first, last = store.hosts(ALL)
    assert (first.time, last.time) == (1.0, 2.0)
    assert first.processes[0].threads == ()
    assert last == host(2.0, reading)
    assert store.hosts(Window(1.5, 3.0)) == (last,)


def test_cpu_is_the_mean_over_time() -> None:
    store = Store()
    missing = NA("gone")
    store.add(host(1.0, ThreadReading(8, "a", 1.0, missing, "R", 0), seconds=1.0))
    store.add(
        host(4.0, ThreadReading(8, "b", 0.5, 0.25, "R", 0), ThreadReading(9, "c", missing, 0.0, "R", 0), seconds=3.0)
    )
    cpu = store.cpu(Window(0.0, 10.0))
    assert cpu[ThreadKey(7, 8)] == Cpu("b", 0.625, 0.25, 4.0)
    assert cpu[ThreadKey(7, 9)] == Cpu("c", missing, 0.0, 0.0)
    store.add(host(9.0, ThreadReading(8, "b", 0.0, 0.25, "R", 0), seconds=4.0))
    assert store.cpu(Window(0.0, 10.0))[ThreadKey(7, 8)].cpu == pytest.approx(2.5 / 8)
    assert store.cpu(Window(1.0, 5.0))[ThreadKey(7, 8)].cpu == 0.5


def test_gpus_come_back_as_they_were() -> None:
    store = Store()
    reading = GpuReading(
        1, "GPU-1", "H200", {"utilization": 0.5, "fan": NA("none")}, GpuUse(0.1, NA("x"), 5.0, True), 2.0, ("thermal",)
    )
    batch = GpuBatch(3.0, (reading,), {1: ((2.5, 0.25), (2.75, 1.0))})
    store.add(batch)
    assert store.gpus(ALL) == (batch,)
    assert store.gpus(Window(3.5, 4.0)) == ()


def test_processes_and_ends() -> None:
    root, child = (ProcessInfo(pid, 1, float(pid), ("x",)) for pid in (7, 8))
    store = Store()
    store.add(ProcessBatch(1.0, (root,)))
    store.add(ProcessBatch(12.0, (root, child)))
    store.add(ProcessBatch(15.0, (root,), ((8, 3),)))
    assert store.processes(0.5) == ()
    assert store.processes(11.0) == (root,)
    assert store.processes(12.0) == (root, child)
    assert store.processes(99.0) == (root,)
    assert store.ended() == {8: 3}


def test_notes_replace_and_withdraw() -> None:
    store = Store()
    store.add(Note(1.0, "gpu", "driver", "no driver"))
    store.add(Note(3.0, "peek", "ptrace", "not allowed", "sudo"))
    store.add(Note(2.0, "gpu", "driver", "driver is back but old"))
    assert [note.what for note in store.notes()] == ["driver is back but old", "not allowed"]
    store.add(Note(0.0, "peek", "ptrace", ""))
    assert len(store.notes()) == 2, "an older note does not withdraw a newer one"
    store.add(Note(4.0, "peek", "ptrace", ""))
    assert [note.source for note in store.notes()] == ["gpu"]


def test_costs_are_those_of_the_window() -> None:
    store = Store()
    costs = [CostBatch(time, {"peek": 0.1}, 0.0, 100.0, 50.0, 0.0) for time in (1.0, 30.0)]
    for cost in costs:
        store.add(cost)
    assert store.costs(Window(0.0, 0.5)) == ()
    assert store.costs(Window(0.0, 29.0)) == (costs[0],)
    assert store.costs(Window(0.0, float("inf"))) == tuple(costs)


def test_quality_counts_windows_in_part() -> None:
    store = Store()
    store.add(stacks(samples=100, failed=10, start=0.0, end=1.0))
    store.add(stacks(samples=80, failed=0, start=9.5, end=10.5))
    assert store.stack_quality(ALL) == (180, 10)
    assert store.stack_quality(Window(0.5, 10.0)) == (90, 5)
    assert store.stack_quality(Window(2.0, float("inf"))) == (80, 0)


def test_span_and_revision_follow_what_is_added() -> None:
    store = Store()
    assert store.span() is None
    store.add(peeks(PeekSample(12.0, 7, 0, 0.5, 0.0)))
    assert store.span() == Window(11.5, 12.0)
    before = store.revision(Window(10.0, 20.0)), store.revision(Window(20.0, 30.0))
    store.add(stacks(StackSegment(7, 25.0, 25.5, 0)))
    assert store.revision(Window(10.0, 20.0)) == before[0]
    assert store.revision(Window(20.0, 30.0)) != before[1]
    assert store.span() == Window(0.0, 25.5), "the batch says that it covers time 0"


def test_readers_see_whole_batches_while_one_writes() -> None:
    """A batch holds one look of each of two threads: no reader may see one without the other."""
    store, done, torn = Store(), threading.Event(), []

    def read() -> None:
        while not done.is_set():
            seen = [sum(peek.looks for peek in store.peeks(ThreadKey(7, tid), ALL)) for tid in (1, 2)]
            torn.extend([seen] if seen[0] > seen[1] else [])  # thread 1 is read first, so it may only lag behind
            store.threads(ALL), store.span(), store.revision(Window(0, 60))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for tick in range(1, 1500):
        store.add(peeks(PeekSample(tick / 50, 1, tick % 3, 0.02, 0.0), PeekSample(tick / 50, 2, tick % 3, 0.02, 0.0)))
    done.set()
    for reader in readers:
        reader.join()
    assert torn == []
    assert sum(peek.looks for peek in store.peeks(ThreadKey(7, 1), ALL)) == 1499
