"""Start a job of `tests.gpu.jobs`, and read the truth that it tells at its end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gpu.jobs import JOBS

ROOT = Path(__file__).resolve().parents[2]

#: A job may take this long to end: its queue of launches has to run empty, its workers have to notice, seconds.
_PATIENCE = 60.0

#: These jobs compile something for the GPU.
_COMPILED = ("mixed", "cxx")

#: A key of the truth (a state, a state with its kind, or a sum of states) to the share of a window.
Shares = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Truth:
    """What a job says about itself at its end."""

    document: dict[str, Any]

    @property
    def hot(self) -> str | None:
        """The name of the hottest function, where the job knows it."""
        hot = self.document.get("hot")
        return hot["function"] if hot else None

    def threads(self, pid: int) -> dict[int, dict[str, Any]]:
        """Return the ledger of each thread by its id; the main thread comes first."""
        return {pid: self.document["ledger"], **{int(tid): rows for tid, rows in self.document["ledgers"].items()}}

    def rate(self, start: float, end: float) -> float:
        """Return steps a second between two times (monotonic), from the first step's end in it to the last one's."""
        marks: list[float] = self.document["marks"]
        first, last = bisect_left(marks, start), bisect_right(marks, end) - 1
        if last - first < 2:
            raise ValueError(f"fewer than two steps in {end - start:.1f} s: the window is too short for this job")
        return (last - first) / (marks[last] - marks[first])

    def ready_rate(self, start: float, end: float) -> float:
        """Return the rate per second in which the main thread was not waiting for a CPU."""
        return self.rate(start, end) / (1 - shares(self.document["ledger"], start, end).get("starved", 0.0))


def shares(ledger: dict[str, Any], start: float, end: float) -> Shares:
    """Return what a thread's time went into between two times (monotonic), as far as the job lived then."""
    rows: list[list[float]] = ledger["rows"]
    start, end = max(start, rows[0][0]), min(end, rows[-1][0])
    before, after = _at(rows, start), _at(rows, end)
    spent = zip(ledger["states"], before, after, strict=True)
    return {state: (late - early) / (end - start) for state, early, late in spent}


def _at(rows: list[list[float]], time: float) -> list[float]:
    """Return the seconds of each state at a time, between two rows in proportion."""
    place = min(max(1, bisect_left(rows, [time])), len(rows) - 1)
    before, after = rows[place - 1], rows[place]
    part = (time - before[0]) / (after[0] - before[0])
    return [early + part * (late - early) for early, late in zip(before[1:], after[1:], strict=True)]


@dataclass
class Running:
    """A job in its steady state."""

    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def end(self) -> Truth:
        """End the job and return its truth."""
        output, _ = self.process.communicate(timeout=_PATIENCE)
        if self.process.returncode != 0:
            raise RuntimeError(f"the job failed with {self.process.returncode}")
        return Truth(json.loads(output.splitlines()[-1]))


@contextmanager
def running(name: str, *, cpu: bool) -> Iterator[Running]:
    """Start a job and wait until it is in its steady state; it is ended on the way out, its files are removed.

    Raises:
        RuntimeError: the job could not get ready; it has said why on standard error.
    """
    command = [sys.executable, "-m", "tests.gpu.jobs", name, *(["--cpu"] if cpu else [])]
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": directory},
        )
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"the job {name} did not get ready")
            yield Running(process)
        finally:
            process.kill()
            process.communicate()


def has_gpu() -> bool:
    """Tell whether jobs that need a GPU can run here."""
    return any(Path("/dev").glob("nvidia[0-9]*"))


def runnable() -> list[str]:
    """Return the jobs that mean something on this machine."""
    if has_gpu():
        return [name for name in JOBS if name not in _COMPILED or shutil.which("nvcc")]
    return [name for name, job in JOBS.items() if not job.gpu]
