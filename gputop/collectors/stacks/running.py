"""The py-spys that run now, and the CPU time of those and all before them; asked from any thread."""

from __future__ import annotations

import contextlib
import threading

from gputop import procfs
from gputop.collectors.stacks.window import Outcome, Window


class Running:
    """Which py-spys are ours."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._windows: dict[int, Window] = {}
        self._ended_cpu_s = 0.0

    def add(self, window: Window) -> None:
        """Count a new py-spy."""
        with self._lock:
            self._windows[window.pid] = window

    def finish(self, window: Window) -> Outcome:
        """Collect an ended or killed py-spy; from here on nobody signals its process id any more."""
        with self._lock:
            del self._windows[window.pid]
            outcome = window.finish()
            self._ended_cpu_s += outcome.cpu_seconds
        return outcome

    def all(self) -> tuple[Window, ...]:
        """Return them."""
        with self._lock:
            return tuple(self._windows.values())

    def pids(self) -> tuple[int, ...]:
        """Return their process ids."""
        with self._lock:
            return tuple(self._windows)

    def cpu_s(self) -> float:
        """Return the CPU seconds that they and all before them have used."""
        with self._lock:
            total = self._ended_cpu_s
            for pid in self._windows:
                with contextlib.suppress(OSError):
                    total += procfs.process_cpu_s(pid)
            return total

    def kill(self, why: str) -> None:
        """Kill them all."""
        with self._lock:
            for window in self._windows.values():
                window.kill(why)
