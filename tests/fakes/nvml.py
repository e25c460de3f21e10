"""The compiled stand-in for NVML inside the test's own process: real pynvml code runs on top of it."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

import pytest

from gputop.collectors.gpu.backend import Seen
from gputop.collectors.gpu.nvml import NvmlBackend
from gputop.model import GpuReading

#: Seconds since the epoch when a test begins.
WALL = 1_800_000_000.0


class Nvml:
    """A script, a clock and the number of calls; the clock is the stand-in's and ours at once."""

    def __init__(self, library: Path, script: Path, devices: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pynvml = pytest.importorskip("pynvml")
        self.monkeypatch = monkeypatch
        self.stopping = threading.Event()
        self._standin = ctypes.CDLL(str(library))
        self._standin.standin_clock.argtypes = [ctypes.c_double, ctypes.c_double]
        self._script = script
        self._devices = devices
        monkeypatch.setattr(pynvml, "nvmlLib", self._standin)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        monkeypatch.setenv("GPUTOP_NVML_SCRIPT", str(script))
        self.script()
        self.now = 0.0
        self.set_clock(0.0)

    def script(self, *orders: str) -> None:
        """Say what the stand-in does from the next start of NVML on."""
        self._script.write_text("".join(f"{order}\n" for order in orders))

    def set_clock(self, now: float, wall: float | None = None) -> None:
        """Let it be `now` seconds after the start; the wall clock may go its own way."""
        self.now = now
        self.wall = WALL + now if wall is None else wall
        self._standin.standin_clock(now, WALL + now)

    def use_real_clock(self) -> None:
        """Let the stand-in's time pass by itself."""
        self._standin.standin_clock(-1.0, 0.0)

    def calls(self, function: str) -> int:
        """Return how often a function was called since NVML was started."""
        return int(self._standin.standin_calls(function.encode()))

    def backend(self, **changes: Any) -> NvmlBackend:
        """Make a backend on our clock."""
        chosen: dict[str, Any] = {"wall": lambda: self.wall, "devices": self._devices} | changes
        return NvmlBackend(self.stopping, lambda: self.now, **chosen)

    def started(self, *orders: str, **changes: Any) -> NvmlBackend:
        """Make a backend for this script and open it."""
        self.script(*orders)
        backend = self.backend(**changes)
        backend.probe()
        return backend

    def look(self, backend: NvmlBackend, *pids: int, at: float | None = None) -> list[GpuReading]:
        """Read all GPUs, at this time."""
        return [seen.reading for seen in self.see(backend, *pids, at=at)]

    def see(self, backend: NvmlBackend, *pids: int, at: float | None = None) -> list[Seen]:
        """Read all GPUs with their curves, at this time."""
        if at is not None:
            self.set_clock(at)
        return list(backend.read(frozenset(pids)))

    def looks(self, backend: NvmlBackend, *pids: int, until: float) -> list[GpuReading]:
        """Read all GPUs twice a second up to a time, and return the last readings."""
        while True:
            found = self.look(backend, *pids)
            if self.now >= until:
                return found
            self.set_clock(round(self.now + 0.5, 6))
