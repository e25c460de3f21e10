"""Threads that wake up, or fall asleep, just while they are looked at: what they did at first counts."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

from gputop.analysis.rules import classify
from gputop.collectors.native.arch import X86_64, here
from gputop.collectors.native.memory import StackCopy
from gputop.collectors.native.modules import ModuleTable
from gputop.collectors.native.process import Process, Tools
from gputop.collectors.native.ptrace import Tracer
from gputop.collectors.native.task import Counters, Look, Task
from gputop.collectors.native.unwind import Unwinder
from gputop.model import NativeFrame, Observation
from tests.unit.native_tools import needs_ptrace, running

SLEEPER = """
import select, sys, time
print("ready", flush=True)
select.poll().poll()
"""


@pytest.fixture
def sleeper() -> Iterator[tuple[Process, Task]]:
    """A program blocked in poll(), and its main thread."""
    arch, stack = here(), StackCopy()
    assert arch is not None
    with running(sys.executable, "-c", SLEEPER) as target:
        tools = Tools(arch, ModuleTable(arch.elf_machine), stack, Tracer(arch, stack), Unwinder(arch))
        process = Process(target.pid, 0.0, tools)
        (task,) = process.discover(time.monotonic(), 10)
        while not task.read("syscall").startswith(b"7 "):
            time.sleep(0.001)
        yield process, task
        process.close()
        tools.modules.close()


def wakes(monkeypatch: pytest.MonkeyPatch, task: Task, *lines: bytes) -> None:
    """Let a task be put on a CPU once between any two readings of its counters, and show `lines` as its system call."""
    slices, shown = iter(range(1000)), iter(lines)
    monkeypatch.setattr(task, "read_counters", lambda: Counters(0, 0, next(slices)))
    monkeypatch.setattr(task, "read", lambda name: next(shown))


def seen(process: Process, task: Task) -> Look:
    process.peek(task, may_stop=False)
    assert task.look is not None
    return task.look


@needs_ptrace
def test_a_thread_that_wakes_up_while_it_is_read_was_blocked(
    sleeper: tuple[Process, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, task = sleeper
    line = task.read("syscall")
    wakes(monkeypatch, task, line, b"running\n")
    look = seen(process, task)
    assert (look.running, look.syscall, look.sites, look.complete) == (False, "poll", (), False)


@needs_ptrace
def test_such_a_thread_is_shown_as_in_the_same_wait_before(
    sleeper: tuple[Process, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, task = sleeper
    line, before = task.read("syscall"), seen(process, task)
    frame = task.frame
    assert before.complete
    assert before.sites
    assert frame is not None
    assert frame.line == 4
    wakes(monkeypatch, task, line, b"running\n")
    assert seen(process, task) == before
    assert task.frame == frame
    elsewhere = line.replace(b"0x7f", b"0x7e")
    wakes(monkeypatch, task, elsewhere, b"running\n")
    assert seen(process, task).sites == ()
    assert task.frame is None


@needs_ptrace
def test_a_wait_that_is_met_again_is_read(sleeper: tuple[Process, Task], monkeypatch: pytest.MonkeyPatch) -> None:
    """It woke up and sleeps in the same call again, as a loop does."""
    process, task = sleeper
    line = task.read("syscall")
    held = iter([Counters(0, 0, 1), Counters(0, 0, 2), *[Counters(0, 0, 3)] * 9])
    shown = iter([line, line, line])
    monkeypatch.setattr(task, "read_counters", lambda: next(held))
    monkeypatch.setattr(task, "read", lambda name: next(shown))
    # The second reading differs from the first, the third from the second; then attempts are over.
    assert seen(process, task).sites == ()
    held, shown = iter([Counters(0, 0, 1), *[Counters(0, 0, 2)] * 9]), iter([line, line, line])
    task.look = None
    assert seen(process, task).sites


@needs_ptrace
def test_only_so_many_waits_are_remembered(sleeper: tuple[Process, Task]) -> None:
    _, task = sleeper
    for place in range(100):
        task.remember((place, 0, 0), Look(syscall="poll"))
    assert task.recall((83, 0, 0)) is None
    assert task.recall((84, 0, 0)) == Look(syscall="poll")


def test_the_registers_tell_what_a_stop_found_asleep() -> None:
    words = [0] * X86_64.words
    accumulator, number = 10, 15
    words[number] = 7
    for code, asleep in ((-4, 7), (-512, 7), (-513, 7), (-514, 7), (-516, 7), (0, None), (-11, None)):
        words[accumulator] = code % 2**64
        assert X86_64.asleep(words) == asleep
    words[accumulator], words[number] = -512 % 2**64, 2**64 - 1
    assert X86_64.asleep(words) is None


def test_a_thread_about_to_sleep_is_not_at_work_in_the_kernel() -> None:
    chain = (NativeFrame("libc.so.6", "clock_nanosleep"), NativeFrame("python3", "time_sleep"))
    assert classify(Observation(running=True, chain=chain)).detail == "native.kernel"
    assert classify(Observation(running=True, syscall="clock_nanosleep", chain=chain)).detail == "python"


@needs_ptrace
def test_a_stop_that_finds_a_thread_asleep_says_so(sleeper: tuple[Process, Task]) -> None:
    """It ran when it was looked at, and sleeps by the time it stops."""
    process, task = sleeper
    task.read("syscall")
    real = task.read

    def read(name: str) -> bytes:
        return b"running\n" if name == "syscall" else real(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "read", read)
        process.peek(task, may_stop=True)
        for _ in range(1000):
            if task.look is not None:
                break
            time.sleep(0.001)
            for _, tid in process._tools.tracer.late(1 << 14):
                process.take_late(tid)
    assert task.look is not None
    assert (task.look.running, task.look.syscall) == (True, "poll")
