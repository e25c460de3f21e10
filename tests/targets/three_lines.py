"""A loop of 5 ms whose three lines are Python, native work and a wait for the GPU: three_lines.py LIBRARY.

Each line lasts less than one sampling period, so that its states come out right only when line and state are taken at
the same moment. The truth has the lines' numbers beside the states, whose shares include time without a CPU.
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path

from common import Clock, asked_to_end, driver, hot, microseconds, starved_s, tell

BLOCK = bytes(1 << 23)


def fold(count: int) -> int:
    total = 0
    for number in range(count):
        total = (total * 31 + number) & 0xFFFF  # hot python
    return total


def calibrate(seconds: float) -> tuple[int, memoryview]:
    """Return how much Python and how much hashing last about `seconds` here."""
    fold(20_000)
    start = time.perf_counter()
    fold(20_000)
    count = int(20_000 * seconds / (time.perf_counter() - start))
    start = time.perf_counter()
    hashlib.sha256(BLOCK).digest()
    size = min(len(BLOCK), int(len(BLOCK) * seconds / (time.perf_counter() - start)))
    return count, memoryview(BLOCK)[:size]


def main() -> None:
    synchronize = driver(sys.argv[1]).cuStreamSynchronize
    wait = microseconds(0.0016)
    count, block = calibrate(0.0017)
    clock, now = Clock(), time.perf_counter
    print("ready", flush=True)
    begun = starved_s()
    python = native = gpu = 0.0
    while not asked_to_end():
        for _ in range(20):
            a = now()
            fold(count)  # hot call
            b = now()
            hashlib.sha256(block).digest()  # hot native
            c = now()
            synchronize(wait)  # hot gpu_wait
            d = now()
            python, native, gpu = python + b - a, native + c - b, gpu + d - c
    clock.seconds.update(python=python, native=native, gpu_wait=gpu, included_starved=starved_s() - begun)
    lines = {mark: hot(Path(__file__), mark) for mark in ("python", "native", "gpu_wait")}
    tell(clock, __file__, "python", lines=lines)


if __name__ == "__main__":
    main()
