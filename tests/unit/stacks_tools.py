"""What the stack tests share: targets that are ready, and what a collector emitted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gputop.collectors.stacks import StackCollector
from gputop.collectors.stacks.command import find_binary
from gputop.model import Batch, Note, ProcessInfo, StackBatch

TARGETS = Path(__file__).parent.parent / "targets"
VERSIONS = ("3.8", "3.10", "3.11", "3.12", "3.13")


def process(pid: int, python: str | None = "3.11.7", started: float = 0.0) -> ProcessInfo:
    return ProcessInfo(pid, 1, started, ("python", "job.py"), name="job.py", python=python)


def interpreter(version: str) -> str | None:
    """Find an interpreter of this version on the PATH or where pyenv keeps them."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    kept = sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    return str(kept[-1]) if kept else shutil.which(f"python{version}")


@contextmanager
def running(script: str, *arguments: str, python: str = sys.executable) -> Iterator[tuple[int, list[str]]]:
    """Run a target; yields its pid and the lines that it tells, as they come, once it is ready."""
    command = [python, str(TARGETS / script), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        assert target.stdout is not None
        lines: list[str] = []
        for line in target.stdout:
            if line == "ready\n":
                break
            lines.append(line)
        reader = threading.Thread(target=lambda out: lines.extend(out), args=(target.stdout,), name="pytest-reader")
        reader.start()
        try:
            yield target.pid, lines
        finally:
            target.kill()
            reader.join()


class Emitted:
    """Takes what a collector emits, and waits for what a test needs to see."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self._changed = threading.Condition()

    def __call__(self, batch: Batch) -> None:
        with self._changed:
            self.batches.append(batch)
            self._changed.notify_all()

    def stacks(self) -> list[StackBatch]:
        return [batch for batch in self.batches if isinstance(batch, StackBatch)]

    def notes(self) -> list[Note]:
        return [batch for batch in self.batches if isinstance(batch, Note)]

    def wait(self, condition: Callable[[], object], seconds: float = 15.0) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, seconds), f"still waiting; emitted: {self.batches}"


@contextmanager
def collecting(
    *processes: ProcessInfo, find: Callable[[], Path | None] = find_binary, share: float = 1.0, rate_hz: float = 100.0
) -> Iterator[tuple[Emitted, StackCollector]]:
    """Run a collector over these processes."""
    emitted = Emitted()
    collector = StackCollector(emitted, find=find, share=share, rate_hz=rate_hz)
    collector.follow(processes)
    collector.start()
    try:
        yield emitted, collector
    finally:
        collector.stop()
