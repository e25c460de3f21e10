"""What gputop itself costs: CPU time by part, from the kernel's own counters."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path


def thread_cpu_s(tid: int) -> float:
    """Return the CPU seconds of one of our own threads; 0.0 when it has ended."""
    try:
        return int(Path(f"/proc/self/task/{tid}/schedstat").read_bytes().split()[0]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class OwnCpu:
    """Difference counters over our threads and helper processes.

    Threads count as the part their name begins with ("gputop-gpu" → "gpu"), the main thread as "screen", the others
    as "rest". Helpers count as the part they are given under.
    """

    def __init__(self) -> None:
        self._threads = {thread.native_id or 0: thread_cpu_s(thread.native_id or 0) for thread in threading.enumerate()}
        self._helpers: dict[str, float] = {}

    def since_last(self, seconds: float, helpers: Mapping[str, float]) -> dict[str, float]:
        """Return the share of one core by part since the last call.

        Args:
            seconds: time since the last call.
            helpers: part to CPU seconds used so far by its helper processes (counters that only grow).
        """
        used: dict[str, float] = {}
        for part, growth in (*self._thread_growth(), *self._helper_growth(helpers)):
            used[part] = used.get(part, 0.0) + growth / seconds
        return used

    def _thread_growth(self) -> list[tuple[str, float]]:
        main = threading.main_thread()
        now = {thread.native_id or 0: thread for thread in threading.enumerate()}
        counters = {tid: thread_cpu_s(tid) for tid in now}
        growth = [
            ("screen" if thread is main else _part(thread.name), counters[tid] - self._threads.get(tid, 0.0))
            for tid, thread in now.items()
            if counters[tid]
        ]
        self._threads = counters
        return growth

    def _helper_growth(self, helpers: Mapping[str, float]) -> list[tuple[str, float]]:
        growth = [(part, max(0.0, used - self._helpers.get(part, 0.0))) for part, used in helpers.items()]
        self._helpers = dict(helpers)
        return growth


def _part(thread_name: str) -> str:
    prefix, _, part = thread_name.partition("gputop-")
    return part.split("-")[0] if part and not prefix else "rest"
