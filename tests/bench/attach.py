"""What it costs to begin with a program: python -m tests.bench.attach [PAIRS]. Prints a table; not part of the suite.

The target trains with torch, on the GPU if there is one. Each pair looks at it once with an empty cache of symbols and
once with the one that the first has filled. "named" is the time until each of torch's libraries has shown a name; the
CPU is the worker's, and that of the child that reads its symbols.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from gputop.collectors.native import PeekCollector
from gputop.model import Batch, PeekBatch, ProcessInfo
from tests.bench.harness import has_gpu
from tests.bench.peek import program

#: Long enough for a cold cache, seconds.
_WATCH_S = 10.0
_TORCH = (
    "import time, torch\ndevice = {device!r}\n"
    "model = torch.nn.Sequential(*(torch.nn.Conv2d(8, 8, 3) for _ in range(8))).to(device)\n"
    "images = torch.randn(8, 8, 32, 32, device=device)\nmodel(images).sum().backward()\nprint('ready', flush=True)\n"
    "while True:\n    model(images).sum().backward(); model[0].bias.grad.sum().item(); time.sleep(0.002)\n"
)


@dataclass(frozen=True, slots=True)
class Attached:
    """Seconds until torch's libraries had names, CPU seconds of the worker and of its children, how many libraries."""

    named: float
    worker: float
    children: float
    libraries: int

    def __str__(self) -> str:
        return (
            f"named after {self.named:5.2f} s ({self.libraries} libraries)  worker {self.worker:5.2f} CPU-s in "
            f"{_WATCH_S:.0f} s  children {self.children:5.2f} CPU-s"
        )


def attach(pid: int) -> Attached:
    """Look at a process for a while, with a new worker."""
    batches: list[tuple[float, Batch]] = []
    started = time.monotonic()
    collector = PeekCollector(lambda batch: batches.append((time.monotonic() - started, batch)))
    collector.follow((ProcessInfo(pid, 0, 0.0, ()),))
    collector.start()
    time.sleep(_WATCH_S)
    used = psutil.Process(collector.own_pids()[0]).cpu_times()
    collector.stop()
    named = _named(batches)
    children = used.children_user + used.children_system
    return Attached(max(named.values()), used.user + used.system, children, len(named))


def _named(batches: list[tuple[float, Batch]]) -> dict[str, float]:
    """Return when each of torch's libraries first had a name."""
    named: dict[str, float] = {}
    for at, batch in batches:
        for observation in batch.observations if isinstance(batch, PeekBatch) else ():
            for frame in observation.chain:
                if frame.symbol and frame.module.startswith("libtorch"):
                    named.setdefault(frame.module, at)
    return named


def pairs(count: int) -> Iterator[tuple[Attached, Attached]]:
    """Yield what a first and a second look at the same process cost."""
    with program(_TORCH.format(device="cuda" if has_gpu() else "cpu")) as pid:
        for _ in range(count):
            with tempfile.TemporaryDirectory() as directory:
                os.environ["XDG_CACHE_HOME"] = directory
                yield attach(pid), attach(pid)


def main(count: int) -> None:
    """Print each pair, and the median of what the cache saves."""
    saved = []
    for cold, warm in pairs(count):
        print(f"cold: {cold}\nwarm: {warm}", flush=True)
        saved.append(cold.worker + cold.children - warm.worker - warm.children)
    print(f"saved: {statistics.median(saved):.2f} CPU-s (median of {count})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
