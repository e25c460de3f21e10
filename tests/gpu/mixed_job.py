"""A CUDA job that knows the truth about itself: Python, native work, launches, synchronise, `.item()`, `.cpu()`, sleep.

Speaks the language of `tests/targets` ("ready", works until standard input is closed, prints the truth as JSON), with
`rate` as well: rounds a second, for measuring how much a profiler slows it. Needs torch with CUDA, and nvcc for the
launch phase.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "targets"))

import torch
from common import LIMIT_S, Clock, asked_to_end, compute_native, compute_python, tell

#: GPU clock, to turn milliseconds into spin cycles; roughly right is enough, since the CPU side is timed.
_CYCLES_PER_MS = 1_900_000


def build_launcher() -> Callable[[int], int]:
    """Compile `launcher.cu` and return its launch function."""
    source = Path(__file__).with_name("launcher.cu")
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "liblauncher.so"
        flags = ["-O2", "--shared", "-Xcompiler", "-fPIC", "-cudart", "shared"]
        subprocess.run(["nvcc", *flags, "-o", str(library), str(source)], check=True)
        function: Callable[[int], int] = ctypes.CDLL(str(library)).launch_many
    return function


def spin_gpu(milliseconds: int) -> None:
    """Keep the GPU busy; returns at once."""
    torch.cuda._sleep(milliseconds * _CYCLES_PER_MS)  # type: ignore[no-untyped-call]


def main() -> None:
    launch_many = build_launcher()
    image = torch.ones(64 << 20, dtype=torch.uint8, device="cuda")

    def step(clock: Clock) -> None:
        with clock.timed("python"):
            compute_python(0.02)
        with clock.timed("native"):
            compute_native(0.015)
        with clock.timed("gpu_api"):
            for _ in range(8):
                launch_many(400)
        with clock.timed("gpu_wait"):
            spin_gpu(20)
            torch.cuda.synchronize()
            spin_gpu(12)
            image[0].item()
            image.cpu()
        with clock.timed("idle"):
            time.sleep(0.015)

    step(Clock())
    clock, rounds, marks = Clock(), 0, []
    print("ready", flush=True)
    while not asked_to_end() and time.monotonic() - clock.start < LIMIT_S:
        step(clock)
        rounds += 1
        marks.append(time.monotonic())
    tell(clock, __file__, rate=rounds / (time.monotonic() - clock.start), marks=marks)


if __name__ == "__main__":
    main()
