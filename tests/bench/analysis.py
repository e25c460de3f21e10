"""What the store and the analysis cost: run with `python -m tests.bench.analysis [busy threads] [parked threads]`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median

from gputop.analysis.summary import summarise
from gputop.model import Window
from gputop.store import Store, ThreadKey
from tests.fakes.feed import PID, Feed

_START = 5000.0
_FILL, _TICKS = 70, 20


def _milliseconds(what: str, work: Callable[[], object], times: int) -> None:
    began = time.process_time()
    for _ in range(times):
        work()
    print(f"{what:<44}{1000 * (time.process_time() - began) / times:8.2f} ms")


def main(busy: int, parked: int) -> None:
    """Print CPU time for adding a second of input, for queries, and for the screen's summary twice a second."""
    feed, store = Feed(busy, parked), Store()
    seconds = [list(feed.second(_START + second)) for second in range(_FILL + _TICKS)]
    store.add(feed.session())
    began = time.process_time()
    for batches in seconds[:_FILL]:
        for batch in batches:
            store.add(batch)
    print(f"{busy} busy threads, {parked} parked")
    print(f"{'add one second of input':<44}{1000 * (time.process_time() - began) / _FILL:8.2f} ms")
    end = _START + _FILL
    window = Window(end - 60, end)
    key = ThreadKey(PID, PID)
    _milliseconds("peeks of the main thread, 60 s", lambda: list(store.peeks(key, window)), 20)
    _milliseconds("segments of the main thread, 60 s", lambda: list(store.segments(key, window)), 20)
    _milliseconds("cpu of all threads, 60 s", lambda: store.cpu(window), 20)
    _milliseconds("hosts, 60 s", lambda: store.hosts(window), 20)
    _milliseconds("gpus, 60 s", lambda: store.gpus(window), 20)
    _milliseconds("first summary of 60 s", lambda: summarise(store, window), 1)
    spent = []
    for number, batches in enumerate(seconds[_FILL:]):
        for batch in batches:
            store.add(batch)
        for half in (0.5, 1.0):
            now = end + number + half
            began = time.process_time()
            summarise(store, Window(now - 60, now))
            spent.append(time.process_time() - began)
    print(f"{'summary of 60 s, each half second':<44}{1000 * median(spent):8.2f} ms")
    print(f"store holds {store.bytes / 2**20:.1f} MiB for {_FILL + _TICKS} s")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:3] or ("1", "40")))
