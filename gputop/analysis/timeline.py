"""States, CPU and GPUs on one time axis.

Columns begin at multiples of their own length, counted from the clock's zero. So a column stands for the same stretch
of time in every picture; it moves left instead of changing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from gputop.analysis import backward, curves, tiles
from gputop.analysis.results import Column, Series, Timeline
from gputop.analysis.split import by_cpu, shares, times
from gputop.analysis.tally import Seconds, Tally
from gputop.model import Window
from gputop.store import Store, ThreadKey


def build(
    store: Store, key: ThreadKey | None, window: Window, columns: int, helper: ThreadKey | None = None
) -> Timeline:
    """Return the window in `columns` steps; the last one may not be over yet.

    Arguments:
        key: the thread whose states are shown; None leaves them empty.
        helper: the autograd thread that tells what the thread waits for in its `backward()`.
    """
    edges = curves.edges(window, columns)
    whole = Window(edges[0], edges[-1])
    hosts, gpus = store.hosts(whole), store.gpus(whole)
    rows = curves.by_gpu(gpus)
    return Timeline(
        tuple(_columns(store, key, edges, helper)),
        Series("CPU", curves.resampled(curves.cpu(hosts), edges)),
        tuple(Series(f"GPU {index}", curves.resampled(curves.utilization(gpus, rows, index), edges)) for index in rows),
        tuple(
            Series(f"GPU {index} memory", curves.resampled(curves.readings(mine, curves.memory), edges))
            for index, mine in rows.items()
        ),
    )


def strips(
    store: Store, keys: Sequence[ThreadKey], window: Window, columns: int
) -> dict[tuple[int, int], tuple[Column, ...]]:
    """Return what each of several threads did, in `columns` steps of the window."""
    edges = curves.edges(window, columns)
    return {key: tuple(_columns(store, key, edges)) for key in keys}


def _columns(
    store: Store, key: ThreadKey | None, edges: Sequence[float], helper: ThreadKey | None = None
) -> Iterator[Column]:
    steps = [Window(start, end) for start, end in pairwise(edges)]
    spent: Sequence[Seconds] = [{} for _ in steps] if key is None else _spent(store, key, steps)
    if helper is not None and any(backward.WAITING in time for time in spent):
        spent = list(map(backward.told, spent, _spent(store, helper, steps)))
    for step, time in zip(steps, spent, strict=True):
        yield Column(step.start, step.seconds, shares(time))


def _spent(store: Store, key: ThreadKey, steps: Sequence[Window]) -> list[Seconds]:
    """Return what a thread's time went into, step by step."""
    kept = tiles.of(store)
    tallies = [kept.column(store, key, step) for step in steps]
    habits = Tally()
    for tally in tallies:
        habits.learn(tally)
    looked = any(tally.looks for tally in tallies)
    spent = []
    for step, tally in zip(steps, tallies, strict=True):
        cpu = None if looked else store.cpu(step).get(key)
        spent.append(by_cpu(cpu) if cpu else times(tally, habits, kept.classified))
    return spent
