"""What gputop uses itself at defaults: python -m tests.bench.own_cpu [--job J] [--size 160x48] [--seconds S].

The real screen runs in a pseudo-terminal over a job; its CPU and its helpers' is read from /proc, by process and by
thread, as shares of one core. Beside it, what gputop says of itself in a report on the same job.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from tests.bench.accuracy import gputop_report
from tests.bench.harness import has_gpu, running
from tests.gpu.jobs import JOBS
from tests.tui.terminal import Terminal

#: Symbols are read, caches filled and the governor has settled by then, seconds.
_SETTLE = 12.0


def used(pid: int) -> dict[str, float]:
    """Return the CPU seconds so far of a gputop by part; helpers that have ended count as "py-spy", for it starts anew.

    The main thread draws the screen; the other threads of the process are one part.
    """
    parts: dict[str, float] = defaultdict(float)
    for task in Path(f"/proc/{pid}/task").iterdir():
        part = "main thread (screen)" if task.name == str(pid) else "other threads"
        parts[part] += int((task / "schedstat").read_text().split()[0]) / 1e9
    parts["py-spy"] += _ended_children(pid)
    for part, seconds in _helpers(pid):
        parts[part] += seconds
    return parts


def _helpers(pid: int) -> Iterator[tuple[str, float]]:
    for child in psutil.Process(pid).children(recursive=True):
        try:
            times, line = child.cpu_times(), " ".join(child.cmdline())
        except psutil.NoSuchProcess:
            continue
        part = "py-spy" if "py-spy" in line else "peek"
        yield part, times.user + times.system + times.children_user + times.children_system


def _ended_children(pid: int) -> float:
    """Return the CPU seconds of the children that a process has waited for (proc(5), cutime and cstime)."""
    numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(numbers[13]) + int(numbers[14])) / os.sysconf("SC_CLK_TCK")


def screen(pid: int, columns: int, rows: int, seconds: float) -> Mapping[str, float]:
    """Return the shares of one core that the screen over a process takes by part, once it has settled."""
    with Terminal([sys.executable, "-m", "gputop", "--pid", str(pid)], columns, rows) as terminal:
        terminal.expect(f"pid {pid}")
        terminal.read(_SETTLE)
        before, start = used(terminal.process.pid), time.monotonic()
        terminal.read(seconds)
        after, took = used(terminal.process.pid), time.monotonic() - start
        terminal.press("q")
        terminal.read(2.0)
    return {part: (after[part] - before.get(part, 0.0)) / took for part in after}


def _print(title: str, parts: Mapping[str, float]) -> None:
    print(f"{title}: {100 * sum(parts.values()):.1f} % of a core")
    for part, share in sorted(parts.items(), key=lambda item: -item[1]):
        print(f"  {part:<22} {100 * share:5.1f}")
    sys.stdout.flush()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", default="mixed", choices=sorted(JOBS))
    parser.add_argument("--size", default="160x48")
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    columns, rows = map(int, options.size.split("x"))
    with running(options.job, cpu=not has_gpu()) as job:
        _print(f"screen {options.size} over {options.job}, by /proc", screen(job.pid, columns, rows, options.seconds))
        cost = gputop_report(job.pid, options.seconds)["cost"]
    _print("report without a screen, by its own account (last second)", cost["own_cpu_parts"])
    limited = cost["limited"] or "not limited"
    print(f"rates: stacks {cost['stack_rate_hz']:.0f} Hz, peek {cost['peek_rate_hz']:.0f} Hz; {limited}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
