"""Threads, without torch and a GPU: a pool with one lock, and Python alone or beside many that wait."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning
from contextlib import suppress

from tests.gpu.jobs.base import LIMIT_S, Ledger, asked_to_end, finish, native_work, python_work, run

_WORKERS, _PARKED = 4, 300


class Pool:
    """Workers that do half of their work under one lock, and so wait for each other half of the time."""

    def __init__(self) -> None:
        self.marks = [time.monotonic()]
        self.ledgers: dict[int, Ledger] = {}
        self.ended = threading.Event()
        self._lock = threading.Lock()

    def work(self) -> None:
        """Work until the end."""
        ledger = self.ledgers[threading.get_native_id()] = Ledger()
        while not self.ended.is_set():
            with ledger.waited("lock", "python"):
                self._lock.acquire()
            with ledger.waited("gil", "python+native"):
                native_work(40)
            self._lock.release()
            with ledger.waited("gil", "python+native"):
                native_work(40)
            ledger.keep()
            self.marks.append(time.monotonic())


def pool(device: str) -> None:
    """Wait for a pool's workers."""
    shared, ledger = Pool(), Ledger()
    with ThreadPoolExecutor(_WORKERS) as executor:
        futures = [executor.submit(shared.work) for _ in range(_WORKERS)]
        print("ready", flush=True)
        while not asked_to_end() and time.monotonic() - ledger.start < LIMIT_S:
            with ledger.waited("lock", "python"):
                _wait(futures[0])
            ledger.keep()
        shared.ended.set()
    finish(ledger, sorted(shared.marks), shared.ledgers)


def _wait(future: Future[None]) -> None:
    with suppress(StillRunning):
        future.result(0.2)


def loop(device: str) -> None:
    """Compute in Python."""

    def step(ledger: Ledger) -> None:
        with ledger.timed("python"):
            python_work(5)

    run(step)


def parked(device: str) -> None:
    """Compute in Python beside threads that wait for good."""
    threading.stack_size(1 << 16)
    for _ in range(_PARKED):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    loop(device)
