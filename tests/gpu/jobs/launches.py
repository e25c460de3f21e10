"""Launches: more than the queue holds, and among everything else that a job does."""

from __future__ import annotations

import ctypes
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from tests.gpu.jobs.base import DISPATCH, Ledger, native_work, python_work, run

#: GPU clock, to turn milliseconds into spin cycles; roughly right is enough, since the CPU side is timed.
_CYCLES_PER_MS = 1_900_000
#: More launches than any queue holds.
_MANY = 3000


def queue_full(device: str) -> None:
    """Launch matrix products and wait for nothing; what a call takes beyond its usual time is waiting for a place."""
    size = 8192 if device == "cuda" else 64
    matrix = torch.ones(size, size, dtype=torch.bfloat16, device=device)
    product = torch.empty_like(matrix)

    def call() -> float:
        start = time.monotonic()
        torch.mm(matrix, matrix, out=product)
        return time.monotonic() - start

    usual = _usual(call)
    for _ in range(_MANY):
        if call() > 20 * usual:
            break

    def step(ledger: Ledger) -> None:
        ledger.divided(max(0.0, call() - usual), "gpu_wait", DISPATCH)

    run(step)


def _usual(call: Callable[[], float]) -> float:
    """Return what a call takes while the queue is empty."""
    times = []
    for _ in range(20):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(call())
    return statistics.median(times)


def build_launcher() -> Callable[[int], int]:
    """Compile `launcher.cu` and return its launch function."""
    source = Path(__file__).with_name("launcher.cu")
    library = Path(tempfile.gettempdir()) / "liblauncher.so"
    flags = ["-O2", "--shared", "-Xcompiler", "-fPIC", "-cudart", "shared"]
    subprocess.run(["nvcc", *flags, "-o", str(library), str(source)], check=True)
    function: Callable[[int], int] = ctypes.CDLL(str(library)).launch_many
    return function


def spin_gpu(milliseconds: int) -> None:
    """Keep the GPU busy; returns at once."""
    torch.cuda._sleep(milliseconds * _CYCLES_PER_MS)  # type: ignore[no-untyped-call]


def mixed(device: str) -> None:
    """Do a bit of everything."""
    launch_many = build_launcher() if device == "cuda" else None
    image = torch.ones(64 << 20, dtype=torch.uint8, device=device)

    def step(ledger: Ledger) -> None:
        with ledger.timed("python"):
            python_work(15)
        with ledger.timed("native"):
            native_work(90)
        if launch_many is not None:
            with ledger.timed("gpu_api"):
                for _ in range(8):
                    launch_many(400)
            with ledger.timed("gpu_wait"):
                spin_gpu(20)
                torch.cuda.synchronize()
                spin_gpu(12)
                image[0].item()
                image.cpu()
        with ledger.timed("idle"):
            time.sleep(0.015)

    run(step)
