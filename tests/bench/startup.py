"""How fast the screen comes and goes: python -m tests.bench.startup [--runs N] [--size 160x48] [--job J].

From exec to the first picture (the header with the process id), to the first hot function on the screen, and from `q`
to the end of the process; medians and the range over N runs of the real screen in a pseudo-terminal.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass

from tests.bench.harness import has_gpu, running
from tests.gpu.jobs import JOBS
from tests.tui.terminal import Terminal

#: The function that each job's time is spent in, as the table shows it.
_HOT = {"loop": "python_work", "parked": "python_work", "mixed": "python_work", "pool": "native_work"}


@dataclass(frozen=True, slots=True)
class Times:
    """One run, in seconds."""

    picture: float
    hot: float
    leave: float


def once(pid: int, hot: str, columns: int, rows: int) -> Times:
    """Start the screen on a process, wait for its table, and leave."""
    with Terminal([sys.executable, "-m", "gputop", "--pid", str(pid)], columns, rows) as terminal:
        data = terminal.expect(f"pid {pid}")
        picture = time.monotonic() - terminal.started
        if hot.encode() not in data:
            terminal.expect(hot)
        shown = time.monotonic() - terminal.started
        terminal.read(0.5)
        asked = time.monotonic()
        terminal.press("q")
        while terminal.process.poll() is None:
            terminal.read(0.01)
        return Times(picture, shown, time.monotonic() - asked)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--size", default="160x48")
    parser.add_argument("--job", default="loop", choices=sorted(_HOT.keys() & JOBS.keys()))
    options = parser.parse_args()
    columns, rows = map(int, options.size.split("x"))
    with running(options.job, cpu=not has_gpu()) as job:
        runs = [once(job.pid, _HOT[options.job], columns, rows) for _ in range(options.runs)]
    print(f"{options.job}, {options.size}, {options.runs} runs (first one included)")
    for label, values in (
        ("first picture", [run.picture for run in runs]),
        ("hot function", [run.hot for run in runs]),
        ("q to exit", [run.leave for run in runs]),
    ):
        print(f"{label:>14}  median {statistics.median(values):.2f} s   {min(values):.2f} to {max(values):.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
