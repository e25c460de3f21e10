"""What gputop says beside the truth: python -m tests.bench.accuracy [JOB…] [--duration S] [--json FILE].

Each job of `tests.gpu.jobs` times itself inside while `gputop report` watches it; the truth is that of the very window
that gputop reports on. The table shows, state by state, the true share and the one seen, in percent of the window, and
the error in points. Where a phase mixes states that cannot be told apart from inside, their sum is compared.

"chance" is what sampling alone errs by in 19 of 20 windows, at most: two standard deviations, sqrt(p(1-p)/looks) each.
That holds for steps much shorter than the time between looks; longer phases, and the division into running, starved and
blocked, come out better. An error beyond it is marked: it is bias, or the one window in 20.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.harness import ROOT, Shares, Truth, has_gpu, runnable, running, shares
from tests.gpu.jobs import JOBS

#: Let clocks and caches settle before watching, seconds.
_SETTLE = 2.0
#: Smaller shares, true and seen, are not worth a row.
_FLOOR = 0.003


@dataclass(frozen=True, slots=True)
class Row:
    """One state, or sum of states, of one thread; `kind` rows break a state down and do not count as errors."""

    key: str
    truth: float
    seen: float
    kind: bool = False

    @property
    def error(self) -> float:
        return self.seen - self.truth

    def chance(self, looks: int) -> float:
        """Return two standard deviations of a share that so many looks at random moments give."""
        share = min(max(self.truth, 0.0), 1.0)
        return 2 * math.sqrt(share * (1 - share) / looks) if looks else 1.0


@dataclass(frozen=True, slots=True)
class ThreadResult:
    """One thread of one job."""

    tid: int
    main: bool
    samples: int
    rows: tuple[Row, ...]

    @property
    def largest(self) -> float:
        return max((abs(row.error) for row in self.rows if not row.kind), default=0.0)


@dataclass(frozen=True, slots=True)
class JobResult:
    """One job under gputop's eyes; `rate` is in steps a second."""

    job: str
    threads: tuple[ThreadResult, ...]
    hottest: str
    true_hottest: str | None
    rate: float
    cost: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def largest(self) -> float:
        return max(thread.largest for thread in self.threads)


def watch(name: str, duration: float, *, cpu: bool) -> JobResult:
    """Run a job, watch it with gputop and compare."""
    with running(name, cpu=cpu) as job:
        time.sleep(_SETTLE)
        report = gputop_report(job.pid, duration)
        truth = job.end()
        return _compared(name, job.pid, report, truth)


def gputop_report(pid: int, duration: float) -> dict[str, Any]:
    """Return `gputop report --json` on a process."""
    command = [sys.executable, "-m", "gputop", "report", "--pid", str(pid), "--duration", str(duration), "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=duration + 60, check=True, cwd=ROOT)
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def _compared(name: str, pid: int, report: dict[str, Any], truth: Truth) -> JobResult:
    start = report["window"]["start_unix"] - (time.time() - time.monotonic())
    end = start + report["window"]["duration_s"]
    seen = {thread["tid"]: thread for thread in report["threads"]}
    threads = tuple(
        ThreadResult(tid, tid == pid, seen[tid]["samples"], tuple(compare(shares(ledger, start, end), seen[tid])))
        for tid, ledger in truth.threads(pid).items()
    )
    first = report["functions"][0] if report["functions"] else None
    hottest = f"{first['name']} {os.path.basename(first['file'])}:{first['line']} {first['self']:.1%}" if first else ""
    notes = tuple(note["what"] for note in report["notes"])
    return JobResult(name, threads, hottest, truth.hot, truth.rate(start, end), report["cost"] or {}, notes)


# ----------------------------------------------------------------------------------------------- comparing


def compare(truth: Shares, seen: dict[str, Any]) -> Iterator[Row]:
    """Yield a row for each state or sum of states, then one for each kind that the truth knows."""
    told: set[str] = set()
    for group in _groups(truth):
        told |= group
        true = sum(share for key, share in truth.items() if _states(key) <= group)
        yield from _row("+".join(sorted(group)), true, sum(seen["states"].get(state, 0.0) for state in group))
    for state in sorted(set(seen["states"]) - told):
        yield from _row(state, 0.0, seen["states"][state])
    for key, share in sorted(truth.items()):
        if "." in key:
            yield from _row(key, share, seen["detail"].get(key, 0.0), kind=True)


def _row(key: str, truth: float, seen: float, kind: bool = False) -> Iterator[Row]:
    if max(truth, seen) >= _FLOOR:
        yield Row(key, truth, seen, kind)


def _states(key: str) -> set[str]:
    return {part.partition(".")[0] for part in key.split("+")}


def _groups(truth: Shares) -> list[set[str]]:
    """Return the keys' states, those together that some key takes together."""
    groups: list[set[str]] = []
    for key in sorted(truth):
        group = _states(key)
        apart = [other for other in groups if other.isdisjoint(group)]
        groups = [*apart, group.union(*(other for other in groups if other not in apart))]
    return groups


# ------------------------------------------------------------------------------------------------ printing


def table(result: JobResult) -> Iterator[str]:
    """Yield the lines for one job."""
    for thread in result.threads:
        who = f"{result.job}" if thread.main else f"{result.job}, thread {thread.tid}"
        yield f"{who:<40} {'truth':>7} {'seen':>7} {'error':>7} {'chance':>7}   {thread.samples} looks"
        for row in thread.rows:
            key = f"    {row.key}" if row.kind else f"  {row.key}"
            chance = row.chance(thread.samples)
            numbers = f"{100 * row.truth:7.1f} {100 * row.seen:7.1f} {100 * row.error:+7.1f} {100 * chance:7.1f}"
            yield f"{key:<40} {numbers}{'  beyond' if abs(row.error) > chance else ''}"
    cost = result.cost
    yield (
        f"  largest error {100 * result.largest:.1f}; target stopped {cost.get('stopped_share', 0):.2%}, own CPU "
        f"{cost.get('own_cpu', 0):.1%}, failed {cost.get('failed_share', 0):.1%}, {result.rate:.2f} steps/s"
    )
    yield f"  hottest: {result.hottest}" + (f" (true: {result.true_hottest})" if result.true_hottest else "")
    yield from (f"  note: {note}" for note in result.notes)


def data(result: JobResult) -> dict[str, Any]:
    """Return a result as JSON-ready data, shares as fractions."""
    return {**asdict(result), "largest_error": result.largest}


def measure(names: list[str], duration: float, *, cpu: bool) -> tuple[list[JobResult], list[str]]:
    """Watch the jobs one after the other, printing as they end; return the results and what went wrong."""
    results, failures = [], []
    for name in names:
        try:
            result = watch(name, duration, cpu=cpu)
        except (RuntimeError, ValueError, KeyError, subprocess.SubprocessError) as error:
            failures.append(f"{name}: {error!r} {getattr(error, 'stderr', '') or ''}")
            print(f"{name} failed: {failures[-1]}\n", flush=True)
            continue
        results.append(result)
        print("\n".join(table(result)), "\n", flush=True)
    return results, failures


def main() -> int:
    """Measure, print, and write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(JOBS)}; default: all that can run here")
    parser.add_argument("--all", action="store_true", help="all that can run here")
    parser.add_argument("--cpu", action="store_true", help="small versions that need no GPU, to try the bench out")
    parser.add_argument("--duration", type=float, default=10.0, help="seconds to watch each (default 10)")
    parser.add_argument("--json", type=Path, help="write the results to this file, too")
    options = parser.parse_args()
    names = options.jobs or runnable()
    if unknown := sorted(set(names) - set(JOBS)):
        parser.error(f"no such job: {', '.join(unknown)}")
    results, failures = measure(names, options.duration, cpu=options.cpu or not has_gpu())
    for result in results:
        print(f"{result.job:<10} largest error {100 * result.largest:4.1f} points")
    if options.json is not None:
        document = {"cores": os.cpu_count(), "duration_s": options.duration, "failures": failures}
        options.json.write_text(json.dumps({**document, "jobs": [data(result) for result in results]}, indent=1))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
