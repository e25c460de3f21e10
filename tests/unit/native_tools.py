"""What the tests of native stacks share: compiled targets that are ready, and what a collector saw of them."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gputop.collectors.native import PeekCollector
from gputop.model import Batch, Note, Observation, PeekBatch, PeekSample, ProcessInfo

SOURCES = Path(__file__).parent.parent / "targets" / "native"
PATIENCE_S = 20.0

_PTRACE_SEIZE = 0x4206


def may_trace() -> bool:
    """May we trace our own children here? Containers often forbid it."""
    libc = ctypes.CDLL(None, use_errno=True)
    with subprocess.Popen(["sleep", "60"]) as child:
        seized = libc.ptrace(_PTRACE_SEIZE, child.pid, None, None)
        child.kill()
    return bool(seized == 0)


needs_ptrace = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")


def compiled(directory: Path, name: str, *flags: str) -> str:
    """Compile `targets/native/NAME.c`."""
    program = directory / "-".join([name, *(flag.strip("-").replace("=", "_") for flag in flags)])
    source = SOURCES / f"{name}.c"
    subprocess.run(["gcc", "-O1", *flags, "-o", str(program), str(source), "-lpthread", "-lm"], check=True)
    return str(program)


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that says "ready"; it is killed on the way out."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready"
            yield process
        finally:
            process.kill()


class Watch:
    """A collector and what it has emitted so far."""

    def __init__(self, rate: float = 50.0, budget: float = 0.01) -> None:
        self._changed = threading.Condition()
        self._batches: list[Batch] = []
        self.collector = PeekCollector(self._emit, rate=rate, budget=budget)

    def _emit(self, batch: Batch) -> None:
        with self._changed:
            self._batches.append(batch)
            self._changed.notify_all()

    def follow(self, *pids: int) -> None:
        """Follow processes whose start is not known."""
        self.collector.follow(tuple(ProcessInfo(pid, 0, 0.0, ()) for pid in pids))

    @property
    def batches(self) -> list[PeekBatch]:
        with self._changed:
            return [batch for batch in self._batches if isinstance(batch, PeekBatch)]

    @property
    def notes(self) -> list[Note]:
        with self._changed:
            return [batch for batch in self._batches if isinstance(batch, Note)]

    def seen(self, tid: int | None = None) -> list[tuple[PeekSample, Observation]]:
        """Return the samples, of one thread or of all, with what they saw."""
        return [
            (sample, batch.observations[sample.observation])
            for batch in self.batches
            for sample in batch.samples
            if tid is None or sample.tid == tid
        ]

    def wait_for(self, condition: Callable[[Watch], object], what: str = "") -> None:
        """Wait until what was seen fulfils a condition."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition(self):
            with self._changed:
                assert self._changed.wait(deadline - time.monotonic()), f"never saw {what or condition}"

    def see(self, condition: Callable[[Observation], object], tid: int | None = None) -> Observation:
        """Wait for an observation that fulfils a condition, and return it."""
        self.wait_for(lambda watch: any(condition(seen) for _, seen in watch.seen(tid)))
        return next(seen for _, seen in self.seen(tid) if condition(seen))


@contextmanager
def watching(*pids: int, rate: float = 50.0, budget: float = 0.01) -> Iterator[Watch]:
    """Peek at processes (any start time), as long as the context lasts."""
    watch = Watch(rate, budget)
    watch.follow(*pids)
    watch.collector.start()
    try:
        yield watch
    finally:
        watch.collector.stop()


def names(seen: Observation) -> list[str]:
    """Return the symbols of a chain, leaf first."""
    return [frame.symbol for frame in seen.chain]
