"""Torch traces from outside on a machine with a GPU and torch; no pytest, no gdb.

    python -m tests.gpu.kineto_check [DIRECTORY]     4 minutes, a line a finding, exit code 1 if one fails

A training loop and the decoding of a language model, launched by gputop and attached to (with KINETO_USE_DAEMON set
by the user, found by its sockets): time from key to file, sizes, the clocks' distance, kernel times beside those of
torch.profiler in the program itself, slow-down while armed and while recording, and a program that ends meanwhile.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from gputop.model import Frame, ProcessBatch, ProcessInfo, Session, StackBatch, StackSegment
from gputop.snapshot.camera import Camera
from gputop.snapshot.flight import Saved
from gputop.snapshot.kineto import apart
from gputop.snapshot.kineto.events import events
from gputop.snapshot.kineto.request import Options
from gputop.snapshot.kineto.route import READY, Policy
from gputop.store import Store

SECONDS = 2.0
#: What fails the check (issue 5): kernel times within 2 % of torch.profiler's, clocks within 1 ms.
KERNELS_WITHIN, CLOCKS_WITHIN_S = 0.02, 1e-3

_failed: list[str] = []


def say(what: str, good: bool = True) -> None:
    """Print a finding, and remember a bad one."""
    print("ok  " if good else "FAIL", what, flush=True)
    if not good:
        _failed.append(what)


class Job:
    """A running job and what it told."""

    def __init__(self, kind: str, environ: Mapping[str, str]) -> None:
        script = Path(__file__).with_name("traced_job.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), kind],
            env={**os.environ, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.steps: list[tuple[float, int]] = []
        self.answers: list[dict[str, float]] = []
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", "the job did not start"
        self.info = ProcessInfo(self.process.pid, os.getpid(), time.time(), (kind,), name=kind)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            facts = json.loads(line)
            if "steps" in facts:
                self.steps.append((facts["at"], facts["steps"]))
            else:
                self.answers.append(facts)

    def order(self, line: str) -> None:
        """Tell the job what to do."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """End it and return its exit code."""
        self.order("end")
        code = self.process.wait(60)
        self._reader.join(5)
        return code

    def rate(self, start: float, end: float) -> float:
        """Return its steps a second between two times."""
        inside = [(at, steps) for at, steps in self.steps if start <= at <= end]
        return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0]) if len(inside) > 1 else 0.0


def watched(job: Job) -> Store:
    """Return a store with a second of samples of the job."""
    store = Store()
    now, pid = time.monotonic(), job.process.pid
    store.add(Session(job.info, time.time() - now, "gpu-machine", os.cpu_count() or 1, "check"))
    store.add(ProcessBatch(now, (job.info,)))
    stack = (Frame("main", "traced_job.py", 1),)
    segment = StackSegment(pid, now - 1, now, 0)
    store.add(StackBatch(pid, now - 1, now, {pid: "MainThread"}, (stack,), (segment,), 100, 0, 100.0))
    return store


def wait(until: float) -> bool:
    time.sleep(max(0.0, until - time.monotonic()))
    return True


def shoot(job: Job, camera: Camera, path: Path, options: Options) -> tuple[Saved, float, float, float]:
    """Take a trace; returns it, seconds from key to file, and the recording's start and end."""
    recording: list[float] = []

    def progress(sentence: str) -> None:
        if sentence.startswith("recording"):
            recording.append(time.monotonic())

    start = time.monotonic()
    (saved,) = camera.take((job.info,), options, 1.0, path, wait, progress)
    began = recording[0] if recording else start
    return saved, time.monotonic() - start, began, began + options.seconds


def base_us(path: Path) -> float:
    """Return where a trace's clock starts, in Unix microseconds."""
    with gzip.open(path, "rb") as file:
        return int(file.read(1 << 20).split(b'"baseTimeNanoseconds":')[1].split(b",")[0]) / 1e3


def check_trace(job: Job, name: str, path: Path) -> None:
    """Look into one trace: clocks, kernels a step, what the reading says."""
    steps: list[tuple[float, float]] = []  # start in the trace, start by the job's own clock
    work: list[tuple[float, float]] = []
    for event in events(path):
        mark = str(event.get("name"))
        if event.get("cat") == "user_annotation" and mark.startswith("step "):
            steps.append((event["ts"], int(mark.split()[1]) / 1e3))
        elif event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            work.append((event["ts"], event["dur"]))
    if len(steps) < 2:
        say(f"{name}: {len(steps)} steps of the job in the trace", False)
        return
    base = base_us(path)
    distance = median(ts + base - own for ts, own in steps) / 1e6
    say(f"{name}: clocks {distance * 1e6:.0f} µs apart, median of {len(steps)}", abs(distance) < CLOCKS_WITHIN_S)
    first, last = min(steps)[0], max(steps)[0]
    ours = sum(duration for ts, duration in work if first <= ts < last) / (len(steps) - 1)
    job.answers.clear()
    job.order(f"profile {min(len(steps), 200)}")
    while not job.answers:
        time.sleep(0.1)
    theirs = job.answers[0]["kernel_us"]
    error = abs(ours / theirs - 1) if theirs else 1.0
    say(f"{name}: kernels {ours:.0f} µs a step, torch.profiler {theirs:.0f} µs ({error:.1%})", error < KERNELS_WITHIN)
    for sentence in apart.sentences(apart.read_apart(path)):
        print("       ", sentence)


def check_job(kind: str, directory: Path) -> None:
    """Trace one kind of job, launched and attached to."""
    for way in ("launched", "attached"):
        armed = Camera(Store(), Policy())
        environ = armed.launch_environment({}) if way == "launched" else {"KINETO_USE_DAEMON": "1"}
        job = Job(kind, environ)
        camera = Camera(watched(job), Policy())
        name = f"{kind}, {way}"
        time.sleep(3.0)
        route = camera.route(job.info)
        say(f"{name}: {route.sentence}", route.kind == READY)
        for options in (Options(SECONDS), Options(SECONDS, stacks=True, shapes=True)):
            label = ", stacks and shapes" if options.stacks else ""
            path = directory / f"{kind}-{way}{'-stacks' if options.stacks else ''}.pt.trace.json.gz"
            saved, took, began, ended = shoot(job, camera, path, options)
            before, during = job.rate(began - 3, began), job.rate(began - 0.25, ended + 0.25)
            change = during / before - 1 if before else 0.0
            good = saved.what == "torch trace"
            say(f"{name}{label}: {saved.what}, {took:.1f} s, {saved.bytes / 1e6:.1f} MB, speed {change:+.1%}", good)
            time.sleep(2.0)
        check_trace(job, name, directory / f"{kind}-{way}.pt.trace.json.gz")
        say(f"{name}: exit code {(code := job.end())}", code == 0)
        camera.close()
        armed.close()


def check_armed(kind: str) -> None:
    """Compare speeds with and without polling, in pairs."""
    ratios = []
    for _ in range(3):
        rates = []
        for on in (False, True):
            camera = Camera(Store(), Policy())
            job = Job(kind, camera.launch_environment({}) if on else {})
            start = time.monotonic() + 1
            time.sleep(6.0)
            rates.append(job.rate(start, time.monotonic()))
            job.end()
            camera.close()
        ratios.append(rates[1] / rates[0] - 1)
    shown = ", ".join(f"{ratio:+.2%}" for ratio in ratios)
    say(f"{kind}: speed while armed {shown}; median {median(ratios):+.2%}", median(ratios) > -0.01)


def check_exit(directory: Path) -> None:
    """End a launched program while it is recorded."""
    armed = Camera(Store(), Policy())
    job = Job("train", armed.launch_environment({}))
    camera = Camera(watched(job), Policy())

    def progress(sentence: str) -> None:
        if sentence.startswith("recording"):
            job.order("end")

    time.sleep(2.0)
    path = directory / "exit.pt.trace.json.gz"
    (saved,) = camera.take((job.info,), Options(SECONDS), 1.0, path, wait, progress)
    code = job.process.wait(60)
    whole = any(event.get("cat") == "kernel" for event in events(path))
    say(f"program that ends while recorded: exit code {code}, {saved.what}, kernels {whole}", code == 0 and whole)
    camera.close()
    armed.close()


def main(argv: list[str]) -> int:
    directory = Path(argv[1]) if len(argv) > 1 else Path(tempfile.mkdtemp())
    checks: list[Any] = [
        lambda: check_job("train", directory),
        lambda: check_job("decode", directory),
        lambda: check_exit(directory),
        lambda: check_armed("decode"),
    ]
    for check in checks:
        try:
            check()
        except Exception as error:
            say(f"{type(error).__name__}: {error}", False)
    print(f"{len(_failed)} failed; traces in {directory}")
    return 1 if _failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
