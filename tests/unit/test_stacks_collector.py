"""The whole collector: over real programs, and with py-spys that fail in every way."""

from __future__ import annotations

import itertools
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from gputop.collectors.stacks import StackCollector
from gputop.model import Note, StackBatch
from tests.fakes.pyspy import GOOD, fake
from tests.unit.stacks_tools import VERSIONS, Emitted, collecting, interpreter, process, running

#: A target for stand-ins, which do not look at it: ourselves.
SELF = process(os.getpid())
RATE = 500.0


class Recorded(NamedTuple):
    """What a collector saw of a program that told when it changed its function."""

    pid: int
    batches: list[StackBatch]
    notes: list[Note]
    true: dict[str, list[float]]
    first_after: float
    cpu_s: float


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    with running("stacks_flip.py") as (pid, told):
        start = time.monotonic()
        with collecting(process(pid), rate_hz=RATE) as (emitted, collector):
            emitted.wait(emitted.stacks)
            first_after = time.monotonic() - start
            emitted.wait(lambda: len(emitted.stacks()) >= 4)
            cpu_s = collector.cpu_s()
    true = defaultdict(list)
    for name, moment in (line.split() for line in told):
        true[name].append(float(moment))
    return Recorded(pid, emitted.stacks(), emitted.notes(), true, first_after, cpu_s)


def test_hot_functions_come_soon(recorded: Recorded) -> None:
    assert recorded.first_after < 1.5
    assert not recorded.notes
    assert 0 < recorded.cpu_s < 4
    leaves = {batch.stacks[one.stack][-1].name for batch in recorded.batches for one in batch.segments}
    assert {"alpha", "beta"} <= leaves <= {"alpha", "beta", "<module>"}
    assert {batch.pid for batch in recorded.batches} == {recorded.pid}
    assert [batch.threads for batch in recorded.batches] == [{recorded.pid: "MainThread"}] * len(recorded.batches)


def test_nearly_all_time_is_covered_and_none_twice(recorded: Recorded) -> None:
    segments = [segment for batch in recorded.batches for segment in batch.segments]
    assert all(before.end <= after.start for before, after in itertools.pairwise(segments))
    for batch in recorded.batches:
        assert all(batch.start <= segment.start < segment.end <= batch.end for segment in batch.segments)
    covered = sum(batch.end - batch.start for batch in recorded.batches)
    assert covered > 0.95 * (recorded.batches[-1].end - recorded.batches[0].start)


def test_samples_are_counted(recorded: Recorded) -> None:
    reads = sum(batch.samples for batch in recorded.batches)
    seconds = sum(batch.end - batch.start for batch in recorded.batches)
    assert reads / seconds == pytest.approx(RATE, rel=0.5)
    assert sum(batch.failed for batch in recorded.batches) <= reads / 5


def test_times_are_on_our_clock(recorded: Recorded) -> None:
    """Seen changes lag by the sampling interval (median 1.4 ms at 500 Hz) and what our alignment adds."""
    errors = [
        min((start - moment for moment in recorded.true[name]), key=abs)
        for name, start in _changes(recorded.batches)
        if name in recorded.true
    ]
    median = statistics.median(errors)
    print(f"median error {1000 * median:.2f} ms over {len(errors)} changes")
    assert len(errors) > 20
    assert -0.001 < median < 0.006


def _changes(batches: list[StackBatch]) -> list[tuple[str, float]]:
    """Return when which function began to be seen; the first was there before."""
    seen = [(batch.stacks[one.stack][-1].name, one.start) for batch in batches for one in batch.segments]
    return [after for before, after in itertools.pairwise(seen) if before[0] != after[0]]


@pytest.mark.parametrize("version", VERSIONS)
def test_native_thread_ids_under_every_python(version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    with running("stacks_threads.py", python=python) as (pid, told):
        truth = {int(ident): name for name, ident in (line.split() for line in told)}
        with collecting(process(pid, version)) as (emitted, _):
            emitted.wait(lambda: any(len(batch.threads) == 4 for batch in emitted.stacks()))
    batch = next(batch for batch in emitted.stacks() if len(batch.threads) == 4)
    assert truth.items() <= batch.threads.items()
    leaf = {batch.threads[one.tid]: [frame.name for frame in batch.stacks[one.stack]] for one in batch.segments}
    assert "wait_in_first" in leaf["first"]
    assert "wait_in_second" in leaf["second"]
    assert "spin" in leaf["MainThread"]


@pytest.mark.parametrize("version", ["3.10", "3.12"])
def test_native_thread_ids_in_a_container(version: str, tmp_path: Path) -> None:
    """Inside, the threads are called 1, 2, 3 …; seen from here they have other ids."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    container = tmp_path / "container"
    container.write_text(f'#!/bin/sh\nexec unshare --pid --fork --mount-proc --kill-child {python} "$@"\n')
    container.chmod(0o755)
    if subprocess.run([container, "-c", ""], capture_output=True).returncode:
        pytest.skip("no right to make a PID namespace here")
    with running("stacks_threads.py", python=str(container)) as (outside, told):
        (pid,) = (child.pid for child in psutil.Process(outside).children())
        inside = {int(ident): name for name, ident in (line.split() for line in told)}
        with collecting(process(pid, version)) as (emitted, _):
            emitted.wait(lambda: any(len(batch.threads) == 4 for batch in emitted.stacks()))
        truth = {task: inside.get(int(_namespaced(pid, task)), "reader") for task in _tasks(pid)}
    assert 1 in inside
    assert truth in [batch.threads for batch in emitted.stacks()]


def _tasks(pid: int) -> list[int]:
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]


def _namespaced(pid: int, task: int) -> str:
    status = Path(f"/proc/{pid}/task/{task}/status").read_text()
    return next(line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:"))


def test_program_is_seen_from_its_first_moments() -> None:
    """py-spy finds half an interpreter while Python starts; that is retried without a word."""
    code = "import time\nend = time.monotonic() + 30\nwhile time.monotonic() < end: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as target:
        try:
            with collecting(process(target.pid)) as (emitted, _):
                emitted.wait(emitted.stacks)
        finally:
            target.kill()
    assert not emitted.notes()


def test_follows_and_leaves_processes() -> None:
    with (
        running("stacks_flip.py") as (first, _),
        running("stacks_flip.py") as (second, _),
        collecting(process(first), process(second, python=None)) as (emitted, collector),
    ):
        emitted.wait(emitted.stacks)
        collector.follow((process(first), process(second)))
        emitted.wait(lambda: {batch.pid for batch in emitted.stacks()} == {first, second})
        collector.follow((process(second),))
        emitted.wait(lambda: [batch.pid for batch in emitted.stacks()][-2:] == [second] * 2)
        assert len(collector.own_pids()) <= 2


def test_ended_process_leaves_its_last_stacks_and_no_note() -> None:
    with running("stacks_flip.py") as (pid, _), collecting(process(pid)) as (emitted, _):
        emitted.wait(emitted.stacks)
        os.kill(pid, signal.SIGKILL)
        emitted.wait(lambda: len(emitted.stacks()) >= 2)
        time.sleep(0.5)  # as long as several tries to attach again
        assert not emitted.notes()


def test_stop_brings_the_last_batch() -> None:
    with running("stacks_flip.py") as (pid, _), collecting(process(pid)) as (emitted, collector):
        emitted.wait(lambda: len(emitted.stacks()) >= 2)
        time.sleep(0.5)
        stopped = time.monotonic()
        collector.stop()
        assert stopped - emitted.stacks()[-1].end < 0.2


@pytest.mark.parametrize(
    "body",
    ["time.sleep(60)", "signal.signal(signal.SIGINT, signal.SIG_IGN); attach(); time.sleep(60)", GOOD, "fail('x')"],
    ids=["never attaches", "never ends", "works", "fails"],
)
def test_stop_is_quick_whatever_py_spy_does(tmp_path: Path, body: str) -> None:
    binary = fake(tmp_path, body)
    with collecting(SELF, find=lambda: binary) as (_, collector):
        _wait_until(lambda: collector.own_pids() or body == "fail('x')")
        start = time.monotonic()
        collector.stop()
        assert time.monotonic() - start < 0.3 + 0.2  # of which 0.2 s for a loaded machine
        collector.stop()


def _wait_until(condition: object, seconds: float = 10.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_stop_without_start() -> None:
    collector = StackCollector(Emitted())
    collector.stop()
    assert collector.own_pids() == ()


FAILURES = {
    "permission": ("fail('Permission Denied: Try running again')", "no right to read", "SYS_PTRACE"),
    "version": ("fail('Error: Unsupported version of Python: 3.15.0')", "cannot read Python 3.15.0", "--upgrade"),
    "options": ("fail('error: unexpected argument', 2)", "does not know the options", "--upgrade"),
    "not Python": ("fail('Error: Failed to find python version from target process')", "no Python found", "still"),
    "torn": ("fail('Error: Failed to copy PyCodeObject')", "cannot be read", "keeps trying"),
    "full disk": ("attach(); fail('Error: No space left on device (os error 28)')", "no room", "free some space"),
    "killed": ("attach.__call__; os.kill(os.getpid(), 9)", "being killed from outside (signal 9)", "memory"),
    "panic": ("fail('thread main panicked', 101)", "failed (status 101)", "keeps trying"),
    "nothing": ("pass", "failed (status 0)", "keeps trying"),
}


@pytest.mark.parametrize(("body", "what", "remedy"), FAILURES.values(), ids=FAILURES.keys())
def test_failures_are_told_with_their_remedy(tmp_path: Path, body: str, what: str, remedy: str) -> None:
    binary = fake(tmp_path, body)
    with collecting(SELF, find=lambda: binary) as (emitted, _):
        emitted.wait(emitted.notes)
    note = emitted.notes()[0]
    assert what in note.what
    assert remedy in note.remedy
    assert note.source == "stacks"
    assert not emitted.stacks()


def test_note_is_withdrawn_when_py_spy_works_again(tmp_path: Path) -> None:
    binary = fake(tmp_path, "fail('panic', 101)")
    with collecting(SELF, find=lambda: binary) as (emitted, _):
        emitted.wait(emitted.notes)
        fake(tmp_path, GOOD, "mended").replace(binary)
        emitted.wait(lambda: len(emitted.notes()) == 2)
        emitted.wait(emitted.stacks)
    told, withdrawn = emitted.notes()
    assert (withdrawn.key, withdrawn.what) == (told.key, "")


def test_note_is_withdrawn_when_its_process_is_left(tmp_path: Path) -> None:
    binary = fake(tmp_path, "fail('Permission Denied')")
    with collecting(SELF, find=lambda: binary) as (emitted, collector):
        emitted.wait(emitted.notes)
        collector.follow(())
        emitted.wait(lambda: len(emitted.notes()) == 2)
    assert emitted.notes()[1].what == ""


def test_missing_py_spy_is_told() -> None:
    with collecting(SELF, find=lambda: None) as (emitted, _):
        emitted.wait(emitted.notes)
    assert emitted.notes()[0].remedy == "pip install py-spy"


def test_py_spy_that_cannot_be_executed_is_told_and_tried_again(tmp_path: Path) -> None:
    binary = tmp_path / "py-spy"
    binary.write_text("no program")
    with collecting(SELF, find=lambda: binary) as (emitted, _):
        emitted.wait(emitted.notes)
        fake(tmp_path, GOOD, "mended").replace(binary)
        emitted.wait(emitted.stacks)
    assert [note.key for note in emitted.notes()] == ["launch", "launch"]


def test_bug_in_the_loop_becomes_a_note(tmp_path: Path) -> None:
    def broken() -> Path:
        raise RuntimeError("oops")

    with collecting(SELF, find=broken) as (emitted, _):
        emitted.wait(emitted.notes)
    assert "oops" in emitted.notes()[0].what


@pytest.mark.parametrize(
    "trace",
    ['"not json"', "'[]'", """'[{"ph": "B"}, null, 3]'""", """'[{"ph": "B", "name": "thread (1): x", "arg'"""],
)
def test_garbage_instead_of_a_trace_with_failed_reads_still_counts_them(tmp_path: Path, trace: str) -> None:
    binary = fake(tmp_path, f"attach(); write({trace}, samples=0, errors=12)")
    with collecting(SELF, find=lambda: binary) as (emitted, _):
        emitted.wait(emitted.stacks)
    batch = emitted.stacks()[0]
    assert (batch.samples, batch.failed, batch.segments) == (12, 12, ())


def test_failing_py_spy_is_not_started_in_a_tight_loop(tmp_path: Path) -> None:
    count = tmp_path / "count"
    binary = fake(tmp_path, f"open({str(count)!r}, 'a').write('x'); fail('panic', 101)")
    with collecting(SELF, find=lambda: binary):
        time.sleep(1.2)
    assert count.stat().st_size <= 3


def test_too_many_processes_take_turns(tmp_path: Path) -> None:
    binary = fake(tmp_path, GOOD)
    followed = tuple(process(pid) for pid in range(1001, 1008))
    with collecting(*followed, find=lambda: binary) as (emitted, collector):
        emitted.wait(lambda: {batch.pid for batch in emitted.stacks()} == {one.pid for one in followed})
        assert len(collector.own_pids()) <= 4  # three at a time, and the next one of the target
    assert emitted.notes()[0].what == "Python stacks of 3 of 7 processes at a time, in turn"


def test_dear_process_is_read_less_often(tmp_path: Path) -> None:
    burn = "signal.signal(signal.SIGINT, note)\nsay('Sampling process')\nwhile time.process_time() < 0.3: pass\n"
    binary = fake(tmp_path, burn + GOOD)
    with collecting(SELF, find=lambda: binary, share=0.05) as (emitted, _):
        emitted.wait(emitted.notes)
        emitted.wait(lambda: emitted.stacks()[-1].rate_hz < emitted.stacks()[0].rate_hz)
    assert "times a second" in emitted.notes()[0].what


def test_rate_can_be_changed(tmp_path: Path) -> None:
    binary = fake(tmp_path, GOOD)
    with collecting(SELF, find=lambda: binary) as (emitted, collector):
        emitted.wait(emitted.stacks)
        collector.set_rate(30)
        emitted.wait(lambda: emitted.stacks()[-1].rate_hz == 30)
