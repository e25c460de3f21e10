"""The target comes to no harm: no EINTR, no lost signal, never left stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CDLL, c_int, c_void_p
from pathlib import Path

import pytest

from gputop.collectors.native import client, syscalls
from gputop.collectors.native.ptrace import tracer_of
from gputop.collectors.native.task import Task
from gputop.model import PeekBatch
from tests.unit.native_tools import SOURCES, compiled, needs_gcc, needs_ptrace, running, watching

pytestmark = [needs_gcc, needs_ptrace]

ROOT = Path(__file__).parents[2]

#: The highest rate, with a budget that does not lower it.
FAST = {"rate": 500.0, "budget": 1.0}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("native")
    return {name: compiled(directory, name) for name in ("eintr", "signals", "counts", "chains")}


def _hammer(pid: int, *numbers: int) -> tuple[int, int]:
    """Run `native_hammer` on a process and return the two numbers that it prints."""
    command = [sys.executable, "-m", "tests.fakes.native_hammer", str(pid), *map(str, numbers)]
    first, second = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    return int(first), int(second)


def test_system_calls_that_the_kernel_does_not_restart_never_end_with_eintr(programs: dict[str, str]) -> None:
    with running(programs["eintr"]) as target:
        stops, repaired = _hammer(target.pid, 5000)
        output, _ = target.communicate()
    calls, interrupted = map(int, output.split())
    assert stops >= 5000
    assert repaired > 500, "the calls were hardly ever interrupted: this proves nothing"
    assert calls > 100
    assert interrupted == 0


def test_a_sleep_that_was_interrupted_is_still_seen_as_a_sleep(programs: dict[str, str]) -> None:
    """The kernel goes on with it under another number (restart_syscall)."""
    with running(programs["chains"], "park") as target:
        with watching(target.pid) as watch:
            watch.see(lambda seen: seen.syscall == "clock_nanosleep")
        _hammer(target.pid, 3)
        number = Path(f"/proc/{target.pid}/syscall").read_text().split()[0]
        with watching(target.pid) as watch:
            seen = watch.see(lambda seen: seen.syscall)
    assert syscalls.name_of(int(number), os.uname().machine) == syscalls.RESTART
    assert (seen.syscall, seen.waits_on, seen.complete) == ("clock_nanosleep", "timer", True)


def test_no_queued_signal_is_lost(programs: dict[str, str]) -> None:
    sent = 4000
    with running(programs["signals"]) as target, watching(target.pid, **FAST) as watch:
        watch.wait_for(lambda seen: any(batch.stops for batch in seen.batches), "a stop")
        for _ in range(sent):
            assert CDLL(None).sigqueue(target.pid, c_int(signal.SIGRTMIN), c_void_p(42)) == 0
            time.sleep(0.0002)
        stops = sum(batch.stops for batch in watch.batches)
        target.terminate()
        output, _ = target.communicate()
    assert int(output) == sent
    assert stops > 50, "hardly ever stopped: this proves nothing"


def _values(path: Path, threads: int) -> list[int]:
    data = path.read_bytes()
    return [int.from_bytes(data[8 * index : 8 * index + 8], "little") for index in range(threads)]


def _states(pid: int) -> set[str]:
    return {Task(pid, int(tid), 0.0, keep_open=False).read_state() for tid in os.listdir(f"/proc/{pid}/task")}


def _assert_runs_on(pid: int, counters: Path, threads: int) -> None:
    """Every thread counts on, none is stopped, none is traced."""
    before = _values(counters, threads)
    deadline = time.monotonic() + 5
    while any(now <= then for now, then in zip(_values(counters, threads), before, strict=True)):
        assert time.monotonic() < deadline, f"a thread stands still: {_states(pid)}"
        time.sleep(0.002)
    assert not _states(pid) & {"t", "T"}
    assert not any(tracer_of(pid, int(tid)) for tid in os.listdir(f"/proc/{pid}/task"))


def test_killing_the_tracer_at_any_moment_leaves_nothing_stopped(programs: dict[str, str], tmp_path: Path) -> None:
    threads, kills = 3, 100
    with running(programs["counts"], str(tmp_path / "counters"), str(threads)) as target:
        traced, left = _hammer(target.pid, 1_000_000, kills)
        assert left == 0
        assert traced > kills / 4, "hardly ever killed in the act: this proves nothing"
        _assert_runs_on(target.pid, tmp_path / "counters", threads)


def test_a_killed_worker_is_replaced_and_the_trouble_is_told(programs: dict[str, str], tmp_path: Path) -> None:
    with running(programs["counts"], str(tmp_path / "counters"), "1") as target:
        with watching(target.pid) as watch:
            watch.wait_for(lambda seen: seen.batches, "a batch")
            (worker,) = watch.collector.own_pids()
            os.kill(worker, signal.SIGKILL)
            watch.wait_for(lambda seen: any("started again" in note.what for note in seen.notes), "the note")
            told = len(watch.batches)
            watch.wait_for(lambda seen: len(seen.batches) > told, "a batch of the next worker")
            assert watch.collector.own_pids() != (worker,)
            watch.wait_for(lambda seen: seen.notes[-1].what == "", "the note's end")
        _assert_runs_on(target.pid, tmp_path / "counters", 1)


def test_the_worker_dies_with_its_collector(programs: dict[str, str], tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "from gputop.collectors.native import PeekCollector\n"
        "from gputop.model import ProcessInfo\n"
        "collector = PeekCollector(lambda batch: print(*collector.own_pids(), flush=True))\n"
        "collector.follow((ProcessInfo(int(sys.argv[1]), 0, 0.0, ()),))\n"
        "collector.start()\n"
        "time.sleep(60)\n"
    )
    with running(programs["counts"], str(tmp_path / "counters"), "1") as target:
        owner = subprocess.Popen(
            [sys.executable, "-c", script, str(target.pid)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert owner.stdout is not None
        worker = int(owner.stdout.readline())
        owner.kill()
        owner.communicate()
        _wait_until_gone(worker)
        _assert_runs_on(target.pid, tmp_path / "counters", 1)


def _wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 5
    while Task(pid, pid, 0.0, keep_open=False).read_state() not in "XZ":
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.005)


def test_a_stopped_process_stays_stopped_and_is_said_to_be(programs: dict[str, str], tmp_path: Path) -> None:
    with running(programs["counts"], str(tmp_path / "counters"), "2") as target:
        os.kill(target.pid, signal.SIGSTOP)
        with watching(target.pid, **FAST) as watch:
            watch.see(lambda seen: seen.stopped == "T")
            assert sum(batch.stops for batch in watch.batches) == 0
            os.kill(target.pid, signal.SIGCONT)
            watch.see(lambda seen: seen.running and not seen.stopped)
            os.kill(target.pid, signal.SIGSTOP)
            told = len(watch.batches)
            watch.wait_for(lambda seen: any(_stopped(batch) for batch in seen.batches[told + 1 :]), "stopped again")
            assert _states(target.pid) == {"T"}


def _stopped(batch: PeekBatch) -> bool:
    return all(seen.stopped == "T" for seen in batch.observations)


@contextmanager
def _traced(pid: int) -> Iterator[int]:
    """Have a debugger hold on to a process that runs; yields the debugger's pid."""
    script = (
        "import ctypes, sys\n"
        "assert ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), None, None) == 0\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with running(sys.executable, "-c", script, str(pid)) as debugger:
        yield debugger.pid


def test_a_thread_that_another_tracer_has_is_left_alone(programs: dict[str, str], tmp_path: Path) -> None:
    counters = tmp_path / "counters"
    with running(programs["counts"], str(counters), "1") as target, _traced(target.pid) as debugger:
        with watching(target.pid) as watch:
            seen = watch.see(lambda seen: seen.unreadable)
            assert seen.running
            assert str(debugger) in seen.unreadable
            assert tracer_of(target.pid, target.pid) == debugger
        before = _values(counters, 1)
        while _values(counters, 1) == before:
            time.sleep(0.001)


def test_a_worker_that_hangs_is_killed_and_replaced(
    programs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_SILENCE_S", 1.0)
    with running(programs["counts"], str(tmp_path / "counters"), "1") as target:
        with watching(target.pid) as watch:
            watch.wait_for(lambda seen: seen.batches, "a batch")
            os.kill(watch.collector.own_pids()[0], signal.SIGSTOP)
            watch.wait_for(lambda seen: any("silent" in note.what for note in seen.notes), "the note")
            told = len(watch.batches)
            watch.wait_for(lambda seen: len(seen.batches) > told, "a batch of the next worker")
        _assert_runs_on(target.pid, tmp_path / "counters", 1)


def test_a_32_bit_program_is_said_to_be_one_and_spoils_nothing(programs: dict[str, str], tmp_path: Path) -> None:
    narrow = tmp_path / "narrow"
    flags = ["-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-fno-stack-protector"]
    built = subprocess.run(["gcc", *flags, "-o", str(narrow), str(SOURCES / "narrow.c")], capture_output=True)
    if built.returncode:
        pytest.skip("gcc makes no 32-bit programs here")
    with running(str(narrow)) as first, running(programs["counts"], str(tmp_path / "counters"), "1") as second:
        with watching(first.pid, second.pid) as watch:
            assert "32-bit" in watch.see(lambda seen: seen.unreadable, first.pid).unreadable
            told = len(watch.seen(second.pid))
            watch.wait_for(lambda seen: len(seen.seen(second.pid)) > told + 20)
        assert all(seen.complete for _, seen in watch.seen(second.pid))
        assert first.poll() is None
