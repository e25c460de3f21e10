"""How much a profiler slows a job: python -m tests.bench.overhead [--job J…] [--tools T,…] [--rounds N] [--seconds S].

Within one running job of `tests.gpu.jobs`, windows in which nothing watches alternate with windows in which one tool
does, in random order. A slow-down is one minus the rate of the job's steps in a tool's window over the mean of the
rates before and after. "whole" is from the tool's start to its end, attaching and all; "steady" leaves out its first
seconds; "ready" is steady, too, and per second in which the job's main thread was not waiting for a CPU, which is what
can be compared on a machine that others load. The interval holds the median with 95 % (bootstrap over the windows). CPU
is the tool's, with its helpers', start and end included, as a share of one core over its window.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench.harness import Truth, has_gpu, running
from tests.bench.tools import LEFT_OUT, TOOLS, Tool, Watched, available, watch
from tests.gpu.jobs import JOBS

#: Left out of a "steady" window at its start: what tools need to attach, seconds.
_ATTACH = 2.0
#: Let the job settle before the first window and after each tool, seconds.
_SETTLE = 1.0
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Slowdown:
    """One window of a tool: the share of the job's speed that it cost, and the CPU it used itself (share of a core)."""

    tool: str
    whole: float
    steady: float
    ready: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A median, and the bounds between which it is with 95 %."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.median:6.2f} [{100 * self.low:6.2f} … {100 * self.high:6.2f}]"


@dataclass(frozen=True, slots=True)
class _Visit:
    """A tool's window and the quiet ones on both sides (monotonic)."""

    tool: str
    before: tuple[float, float]
    watched: Watched
    after: tuple[float, float]


def measure(job: str, tools: Sequence[Tool], rounds: int, seconds: int, *, cpu: bool) -> list[Slowdown]:
    """Run a job and let each tool watch it `rounds` times; a tool that fails says so and is left out from then on."""
    order = [tool for tool in tools for _ in range(rounds)]
    random.Random(len(order)).shuffle(order)
    visits: list[_Visit] = []
    failed: list[Tool] = []
    with running(job, cpu=cpu) as target, tempfile.TemporaryDirectory() as directory:
        before = _quiet(seconds)
        for tool in order:
            if tool in failed:
                continue
            try:
                watched = watch(tool, target.pid, seconds, Path(directory))
            except RuntimeError as error:
                failed.append(tool)
                print(error, flush=True)
                continue
            after = _quiet(seconds)
            visits.append(_Visit(tool.name, before, watched, after))
            before = after
        truth = target.end()
    return [_slowdown(visit, truth) for visit in visits]


def _quiet(seconds: int) -> tuple[float, float]:
    """Let the job run unwatched, half as long as a tool's window."""
    time.sleep(_SETTLE)
    start = time.monotonic()
    time.sleep(seconds / 2)
    return start, time.monotonic()


def _slowdown(visit: _Visit, truth: Truth) -> Slowdown:
    start, end, cpu_s = visit.watched.start, visit.watched.end, visit.watched.cpu_s
    attached = start + _ATTACH
    free = (truth.rate(*visit.before) + truth.rate(*visit.after)) / 2
    ready = (truth.ready_rate(*visit.before) + truth.ready_rate(*visit.after)) / 2
    return Slowdown(
        visit.tool,
        1 - truth.rate(start, end) / free,
        1 - truth.rate(attached, end) / free,
        1 - truth.ready_rate(attached, end) / ready,
        cpu_s / (end - start),
    )


def interval(values: Sequence[float]) -> Interval:
    """Return the median of some values with its bootstrap interval (Efron, 1979: percentiles)."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    return Interval(statistics.median(values), medians[_RESAMPLES // 40], medians[-_RESAMPLES // 40])


def table(job: str, slowdowns: Sequence[Slowdown]) -> Iterator[str]:
    """Yield the lines for one job."""
    yield f"{job + ': slow-down, %':<22} {'whole':^25} {'steady':^25} {'ready':^25} {'own CPU, %':>10} {'windows':>8}"
    for name in dict.fromkeys(slowdown.tool for slowdown in slowdowns):
        own = [slowdown for slowdown in slowdowns if slowdown.tool == name]
        columns = ([each.whole for each in own], [each.steady for each in own], [each.ready for each in own])
        intervals = " ".join(f"{interval(values)!s:^25}" for values in columns)
        yield f"  {name:<20} {intervals} {100 * statistics.median(each.cpu for each in own):10.1f} {len(own):8}"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", action="append", choices=sorted(JOBS), help="default: decode; loop without a GPU")
    parser.add_argument("--tools", default=",".join(TOOLS), help=f"of {', '.join(TOOLS)}; default: all")
    parser.add_argument("--rounds", type=int, default=5, help="windows for each tool (default 5)")
    parser.add_argument("--seconds", type=int, default=10, help="length of a tool's window (default 10)")
    parser.add_argument("--cpu", action="store_true", help="small versions of the jobs that need no GPU")
    parser.add_argument("--json", type=Path, help="write the results to this file, too")
    options = parser.parse_args()
    tools, missing = available(options.tools.split(","))
    print("\n".join([*missing, LEFT_OUT]), flush=True)
    results = {}
    for job in options.job or ["decode" if has_gpu() else "loop"]:
        results[job] = measure(job, tools, options.rounds, options.seconds, cpu=options.cpu or not has_gpu())
        print("\n".join(table(job, results[job])), flush=True)
    if options.json is not None:
        jobs = {job: [asdict(each) for each in slowdowns] for job, slowdowns in results.items()}
        document = {"cores": os.cpu_count(), "seconds": options.seconds, "jobs": jobs}
        options.json.write_text(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
