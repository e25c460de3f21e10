"""Processes and threads that come, go and change, and those that we may not look into."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from gputop.collectors.native.arch import here
from gputop.collectors.native.memory import StackCopy
from gputop.collectors.native.modules import ModuleTable
from gputop.collectors.native.process import Process, Tools
from gputop.collectors.native.ptrace import Tracer
from gputop.collectors.native.unwind import Unwinder
from gputop.model import ProcessInfo
from tests.unit.native_tools import Watch, compiled, names, needs_gcc, needs_ptrace, running, watching

pytestmark = [needs_gcc, needs_ptrace]

ROOT = Path(__file__).parents[2]

needs_root = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="not root, or no setpriv")

MANY_THREADS = """
import threading, sys
threading.stack_size(65536)
wait = threading.Event().wait
for _ in range(int(sys.argv[1])): threading.Thread(target=wait, daemon=True).start()
print("ready", flush=True)
wait()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("lives")
    directory.chmod(0o755)
    return compiled(directory, "lives")


def test_threads_that_come_and_go_by_the_thousand(program: str) -> None:
    with running(program, "churn") as target, watching(target.pid, rate=500, budget=1) as watch:
        watch.wait_for(lambda seen: len({sample.tid for sample, _ in seen.seen()}) > 10, "10 threads")
        assert psutil.Process(watch.collector.own_pids()[0]).num_fds() < 200
        assert target.poll() is None
    assert not [note for note in watch.notes if note.what]


def test_a_target_that_forks_reaps_its_children_itself(program: str) -> None:
    with running(program, "fork") as target:
        for _ in range(3):
            children = [child.pid for child in psutil.Process(target.pid).children()]
            with watching(target.pid, *children, rate=500, budget=1) as watch:
                watch.see(lambda seen: seen.syscall == "wait4" and seen.waits_on == "process", target.pid)
        assert target.poll() is None, "a child's exit status did not reach its parent"


def test_another_program_in_the_same_process(program: str) -> None:
    with running(program, "exec") as target, watching(target.pid) as watch:
        waits = watch.see(lambda seen: seen.syscall == "read")
        assert "await_exec" in names(waits)
        assert waits.waits_on == "pipe"
        _tell(target)
        sleeps = watch.see(lambda seen: "outer_life" in names(seen) and seen.syscall == "clock_nanosleep")
        assert sleeps.complete
    assert "await_exec" not in names(sleeps)


def _tell(target: subprocess.Popen[str]) -> None:
    assert target.stdin is not None
    target.stdin.write("\n")
    target.stdin.flush()


def test_a_process_that_ends_is_left_quietly(program: str) -> None:
    with running(program, "park") as first, running(program, "park") as second:
        with watching(first.pid, second.pid) as watch:
            watch.see(lambda seen: "outer_life" in names(seen), first.pid)
            first.kill()
            first.wait()
            died, told = time.monotonic(), len(watch.batches)
            watch.wait_for(lambda seen: len(seen.batches) > told + 4)
            assert max(sample.time for sample, _ in watch.seen(first.pid)) <= died
        assert not watch.notes


def test_a_reused_process_id_is_not_looked_at(program: str) -> None:
    with running(program, "park") as target, running(program, "park") as other:
        started = psutil.Process(target.pid).create_time()
        watch = Watch()
        watch.collector.start()
        watch.collector.follow((ProcessInfo(target.pid, 0, started - 100, ()), ProcessInfo(other.pid, 0, started, ())))
        watch.wait_for(lambda seen: len(seen.batches) > 2)
        watch.collector.stop()
    assert {batch.pid for batch in watch.batches} == {other.pid}


def test_hundreds_of_threads_cost_no_more_than_a_few(tmp_path: Path) -> None:
    script = tmp_path / "many.py"
    script.write_text(MANY_THREADS)
    count = 600
    with running(sys.executable, str(script), str(count)) as target, watching(target.pid) as watch:
        watch.wait_for(lambda seen: len({sample.tid for sample, _ in seen.seen()}) == count + 1, "every thread")
        worker = psutil.Process(watch.collector.own_pids()[0])
        main = len(watch.seen(target.pid))
        before, started = sum(worker.cpu_times()[:2]), time.monotonic()
        time.sleep(2)
        used = (sum(worker.cpu_times()[:2]) - before) / (time.monotonic() - started)
        assert used < 0.12
        assert len(watch.seen(target.pid)) > main + 20, "the main thread is looked at less often for the others' sake"
    last = {sample.tid: seen for sample, seen in watch.seen()}
    waiting = [seen for tid, seen in last.items() if tid != target.pid]
    assert {(seen.syscall, seen.complete) for seen in waiting} == {("futex", True)}


def test_many_threads_are_taken_up_in_turns_until_all_are_known(tmp_path: Path) -> None:
    script, arch = tmp_path / "many.py", here()
    assert arch is not None
    script.write_text(MANY_THREADS)
    stack = StackCopy()
    tools = Tools(arch, ModuleTable(arch.elf_machine), stack, Tracer(arch, stack), Unwinder(arch))
    with running(sys.executable, str(script), "250") as target:
        process = Process(target.pid, 0.0, tools)
        turns = []
        for _ in range(3):
            assert not process.surveyed
            turns.append(len(list(process.discover(time.monotonic(), room=0))))
        assert (turns, process.surveyed) == ([100, 100, 51], True)
        process.close()
    tools.modules.close()


def test_samples_stand_for_all_the_time_of_a_thread(program: str) -> None:
    with running(program, "park") as target, watching(target.pid) as watch:
        watch.wait_for(lambda seen: len(seen.seen()) > 50)
    samples = [sample for sample, _ in watch.seen(target.pid)]
    covered = sum(sample.seconds for sample in samples[1:])
    assert covered == pytest.approx(samples[-1].time - samples[0].time, rel=1e-6)
    assert all(0 <= sample.starved <= sample.seconds for sample in samples)
    for batch in watch.batches:
        assert all(batch.start <= sample.time <= batch.end for sample in batch.samples)
        assert batch.names[target.pid] == Path(program).name[:15]


@needs_root
def test_without_the_right_to_look_it_is_said_and_states_are_known(program: str) -> None:
    script = (
        "import sys, time\n"
        "from gputop.collectors.native import PeekCollector\n"
        "from gputop.model import Note, ProcessInfo\n"
        "def show(batch):\n"
        "    if isinstance(batch, Note): print('note', batch.source, batch.what, '|', batch.remedy, flush=True)\n"
        "    else: print('seen', *{(o.running, bool(o.unreadable)) for o in batch.observations}, flush=True)\n"
        "collector = PeekCollector(show)\n"
        "collector.follow((ProcessInfo(int(sys.argv[1]), 0, 0.0, ()),))\n"
        "collector.start()\n"
        "sys.stdin.read()\n"
        "collector.stop()\n"
    )
    with running(program, "park") as target:
        command = ["setpriv", "--bounding-set=-sys_ptrace", sys.executable, "-c", script, str(target.pid)]
        lines = _lines(command)
    note = next(line for line in lines if line.startswith("note"))
    assert str(target.pid) in note
    assert "Operation not permitted" in note
    assert "sudo" in note
    assert next(line for line in lines if line.startswith("seen")) == "seen (False, True)"


def _lines(command: list[str]) -> list[str]:
    """Run a command until it has said a note and what it saw; return all that it said."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        found: list[str] = []
        while not {"note", "seen"} <= {line.split()[0] for line in found}:
            line = process.stdout.readline()
            assert line, "it ended too early"
            found.append(line.strip())
        process.communicate()
    return found


def test_the_terminal_does_not_reach_the_worker(program: str) -> None:
    with running(program, "park") as target, watching(target.pid) as watch:
        watch.wait_for(lambda seen: seen.batches)
        (worker,) = watch.collector.own_pids()
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTSTP, signal.SIGQUIT):
            os.kill(worker, number)
        told = len(watch.batches)
        watch.wait_for(lambda seen: len(seen.batches) > told + 1)
        assert watch.collector.own_pids() == (worker,)
        started = time.monotonic()
    assert time.monotonic() - started < 1
    assert not watch.collector.own_pids()


@needs_root
def test_a_program_that_only_its_own_container_sees(program: str, tmp_path: Path) -> None:
    """Its file lies in a file system that is mounted for it alone."""
    script = f"mount -t tmpfs none {tmp_path} && cp {program} {tmp_path}/hidden && exec {tmp_path}/hidden park"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    with running("unshare", "--mount", "sh", "-c", script) as target, watching(target.pid) as watch:
        seen = watch.see(lambda seen: seen.syscall == "clock_nanosleep" and seen.complete)
        assert not (tmp_path / "hidden").exists()
    assert "outer_life" in names(seen)
    assert seen.chain[-1].module == "hidden"


def test_nothing_planted_is_executed(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("struct", "gputop", "sitecustomize", "ctypes"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\nraise SystemExit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "struct.py"))
    with running(program, "park") as target, watching(target.pid) as watch:
        watch.wait_for(lambda seen: seen.batches)
        assert not watch.notes
    assert not (tmp_path / "executed").exists()
