"""CPU time of children too short-lived to be looked at, against what the kernel tells their parent."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from gputop import procfs
from gputop.collectors.host.collector import _Host
from gputop.model import NA, ProcessInfo, ProcessReading, known
from tests.fakes.programs import running

#: Does what it is told, and answers with a child's process id and the CPU seconds of the children it waited for.
PARENT = """
import os, signal, sys, time
def child(seconds):
    pid = os.fork()
    if not pid:
        while time.process_time() < seconds: pass
        os._exit(0)
    return pid
print("ready", flush=True)
for line in sys.stdin:
    if line == "short\\n":
        for _ in range(5): os.waitpid(child(0.06), 0)
    elif line == "long\\n":
        pid = child(60)
    elif line == "kill\\n":
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    elif line == "reap\\n":
        os.waitpid(pid, 0)
    times = os.times()
    print(pid if "pid" in globals() else 0, times.children_user + times.children_system, flush=True)
"""

#: Steps in which the kernel tells a parent its children's time.
TICK = 0.01


def ask(process: subprocess.Popen[str], word: str) -> tuple[int, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()
    pid, seconds = process.stdout.readline().split()
    return int(pid), float(seconds)


def info(pid: int, ppid: int = 0) -> ProcessInfo:
    return ProcessInfo(pid, ppid, procfs.started_unix(procfs.stat(pid)), ())


class Looks:
    """Readings one after the other, and the CPU seconds that they tell."""

    def __init__(self) -> None:
        self._host = _Host(tree=True)
        self._time = time.monotonic()
        self.own = self.children = 0.0

    def look(self, *processes: ProcessInfo) -> None:
        now = time.monotonic()
        for reading in self._host._read_processes(now, processes):
            self.own += (known(reading.cpu) or 0.0) * (now - self._time)
            self.children += (known(reading.children) or 0.0) * (now - self._time)
        self._time = now


def test_children_between_two_looks_count() -> None:
    looks = Looks()
    with running([sys.executable, "-I", "-S", "-c", PARENT]) as parent:
        looks.look(info(parent.pid))
        _, truth = ask(parent, "short")
        looks.look(info(parent.pid))
    assert truth > 0.25
    assert looks.children == pytest.approx(truth, abs=2 * TICK)


@pytest.mark.parametrize("notice", ["killed", "reaped", "unfollowed"])
def test_a_child_that_was_seen_counts_once(notice: str) -> None:
    """Whether the end is noticed while it is a zombie, together with its reaping, or by nobody following it."""
    looks = Looks()
    with running([sys.executable, "-I", "-S", "-c", PARENT]) as parent:
        pid, _ = ask(parent, "long")
        both = (info(parent.pid), info(pid, parent.pid))
        for _ in range(3):
            looks.look(*both)
            time.sleep(0.15)
        looks.look(*both)
        seen = looks.own
        ask(parent, "kill")
        if notice == "killed":
            looks.look(*both)
        _, truth = ask(parent, "reap")
        looks.look(*(both if notice == "reaped" else both[:1]))
        _, truth = ask(parent, "short")
        looks.look(both[0])
    assert seen > 0.1
    assert looks.children == pytest.approx(truth - seen, abs=3 * TICK)


def test_no_more_is_told_than_the_machine_did() -> None:
    """A child that was not followed tells the CPU time of an hour in one look."""
    readings = (ProcessReading(1, 0.5, 1.0, (), 7000.0), ProcessReading(2, NA("first look"), 1.0, (), NA("first look")))
    first, second = _Host(tree=True)._bounded(readings, (0.9, 1.0))
    assert first.children == pytest.approx(1.4)
    assert second is readings[1]
    assert all(isinstance(reading.children, NA) for reading in _Host(tree=False)._bounded(readings, (0.9, 1.0)))
