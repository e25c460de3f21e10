"""The store's memory: bounded, honestly estimated, and given back with the oldest time."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterable, Iterator

import pytest

from gputop.model import (
    Batch,
    Frame,
    NativeFrame,
    Note,
    Observation,
    PeekBatch,
    PeekSample,
    ProcessBatch,
    ProcessInfo,
    StackBatch,
    StackSegment,
    Window,
)
from gputop.store import Store, ThreadKey
from tests.fakes.feed import Feed

ALL = Window(-1e18, 1e18)


def _training(second: int) -> Iterable[Batch]:
    return FEED.second(float(second))


def _many_threads(second: int) -> Iterable[Batch]:
    return CROWD.second(float(second))


def _never_the_same(second: int) -> Iterator[Batch]:
    """Names, threads and processes that never come again, as from generated code in short-lived workers."""
    time, unique = float(second), range(20 * second, 20 * second + 20)
    stacks = tuple(
        (Frame("main", "main.py", 1), Frame(f"generated_{number}", f"<{number}>", number)) for number in unique
    )
    segments = tuple(StackSegment(number, time, time + 0.5, place) for place, number in enumerate(unique))
    names = {number: f"Thread-{number}" for number in unique}
    yield StackBatch(1, time, time + 1, names, stacks, segments, 100, 0, 100.0)
    seen = tuple(Observation(chain=(NativeFrame(f"{number}.so", f"symbol_{number}"),) * 5) for number in unique)
    samples = tuple(PeekSample(time, number, place, 0.5, 0.0) for place, number in enumerate(unique))
    yield PeekBatch(1, time, time + 1, seen, samples, names)
    yield ProcessBatch(time, tuple(ProcessInfo(number, 1, time, (f"worker {number}", "x" * 100)) for number in unique))
    yield Note(time, "target", f"{second}", "something new")


FEED, CROWD = Feed(1, 40, 1), Feed(0, 300, 4, cores=64)


@pytest.mark.parametrize(
    ("source", "limit"), [(_training, 1 << 20), (_many_threads, 2 << 20), (_never_the_same, 1 << 20)]
)
def test_hours_of_input_stay_within_the_limit(source: Callable[[int], Iterable[Batch]], limit: int) -> None:
    """Input goes on until the limit has been reached, and half that time more."""
    gc.collect()
    tracemalloc.start()
    store, second, full = Store(limit), 0, 0
    before = tracemalloc.get_traced_memory()[0]
    while second < 1.5 * full or not full:
        for batch in source(second):
            store.add(batch)
            assert store.bytes <= limit
        second += 1
        span = store.span()
        assert span is not None
        full = full or (second if span.start > 5.0 else 0)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used <= 1.3 * limit
    assert used >= 0.6 * store.bytes, "nor is the estimate far too high"
    assert full > 10


def test_all_sources_lose_the_oldest_time_together() -> None:
    store = Store(3 << 19)
    for second in range(120):
        for batch in FEED.second(float(second)):
            store.add(batch)
    span = store.span()
    assert span is not None
    assert 10 < span.start < 110
    assert span.end == 120.0
    gone = Window(0.0, span.start - 1)
    assert store.threads(gone) == ()
    assert store.hosts(gone) == ()
    assert store.gpus(gone) == ()
    assert store.hosts(ALL)[0].time <= span.start + 1
    assert store.gpus(ALL)[0].time <= span.start + 1


def test_what_is_older_than_everything_kept_is_ignored() -> None:
    store = Store(3 << 19)
    for second in range(120):
        for batch in FEED.second(float(second)):
            store.add(batch)
    span = store.span()
    store.add(PeekBatch(1, 0, 1, (Observation(),), (PeekSample(1.0, 5, 0, 0.5, 0.0),), {}))
    assert store.span() == span
    assert ThreadKey(1, 5) not in store.threads(ALL)


def test_a_burst_larger_than_the_limit_is_dropped_too() -> None:
    store = Store(50 << 10)
    for number in range(100):
        stack = tuple(Frame(f"f{number}.{depth}", "x.py", depth) for depth in range(20))
        store.add(StackBatch(1, 0, 1, {1: "t"}, (stack,), (StackSegment(1, number / 100, number / 100, 0),), 1, 0, 1.0))
        assert store.bytes <= 50 << 10


def test_processes_are_known_after_their_batch_was_dropped() -> None:
    store = Store(3 << 19)
    root = ProcessInfo(1, 0, 0.0, ("python",))
    store.add(ProcessBatch(0.0, (root,)))
    for second in range(60):
        for batch in FEED.second(float(second)):
            store.add(batch)
    assert store.span() != Window(0.0, 60.0)
    assert store.processes(60.0) == (root,)
