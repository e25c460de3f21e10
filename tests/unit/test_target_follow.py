"""Following a process tree as it changes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gputop import procfs
from gputop.model import ProcessBatch
from gputop.target import follow
from gputop.target.describe import describe
from gputop.target.follow import Follower
from gputop.target.launch import launch
from tests.fakes.programs import python, running

#: Reads commands, a line each: fork N children, reap them, spawn or run TEXT with the shell, become it.
TREE = """
import os, subprocess, sys
def fork(count):
    alive, ends = os.pipe()
    for _ in range(int(count)):
        child = os.fork()
        if child == 0:
            os.close(ends); os.read(alive, 1); os._exit(0)
        children.append(child)
    os.close(alive); pipes.append(ends)
def reap(_=''):
    for ends in pipes: os.close(ends)
    for child in children: os.waitpid(child, 0)
    children.clear(); pipes.clear()
def shell(start, text):
    return start(['sh', '-c', text], stdin=subprocess.DEVNULL)
children, pipes, spawned = [], [], []
verbs = {'fork': fork, 'reap': reap, 'run': lambda text: shell(subprocess.call, text),
         'spawn': lambda text: spawned.append(shell(subprocess.Popen, text)),
         'exec': lambda text: os.execvp('sh', ['sh', '-c', text])}
print('ready', flush=True)
for line in sys.stdin:
    verb, _, rest = line.strip().partition(' ')
    verbs[verb](rest)
    print('done', flush=True)
reap()
"""


def tree() -> list[str]:
    return [sys.executable, "-I", "-S", "-c", TREE]


def tell(process: subprocess.Popen[str], line: str) -> None:
    """Have the program do something and wait until it has."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def polled(follower: Follower, when: Callable[[ProcessBatch], bool], now: float = 0.0) -> ProcessBatch:
    """Poll until a batch is as wanted: the kernel may need a moment to show the end of a process."""
    deadline = time.monotonic() + 20
    while True:
        batch = follower.poll(now)
        if batch is not None and when(batch):
            return batch
        assert time.monotonic() < deadline, batch
        time.sleep(0.005)


def test_nothing_is_said_when_nothing_changes() -> None:
    with running(tree()) as process:
        root = describe(process.pid)
        follower = Follower(root)
        assert follower.poll(0.0) == ProcessBatch(0.0, (root,))
        assert follower.poll(0.5) is None
        assert not follower.finished


def test_a_storm_of_children_costs_little() -> None:
    with running(tree()) as process:
        root = describe(process.pid)
        follower = Follower(root)
        follower.poll(0.0)
        tell(process, "fork 50")
        began = time.thread_time()
        batch = follower.poll(0.5)
        assert time.thread_time() - began < 0.1  # measured: 4 ms
        assert batch is not None
        assert batch.processes[0] == root
        assert len({info.pid for info in batch.processes}) == 51
        assert {(info.python, info.ppid, info.cmdline) for info in batch.processes[1:]} == {
            (root.python, root.pid, root.cmdline)
        }
        tell(process, "reap")
        batch = follower.poll(1.0)
        assert batch is not None
        assert (batch.processes, len(batch.ended)) == ((root,), 50)


def test_a_kernel_that_tells_no_newest_process_is_looked_through_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "newest_pid", lambda: b"0")
    with running(tree()) as process:
        follower = Follower(describe(process.pid))
        follower.poll(0.0)
        tell(process, "fork 2")
        assert follower.poll(0.5) is None
        batch = follower.poll(2.5)
        assert batch is not None
        assert len(batch.processes) == 3


def test_only_the_root_when_asked() -> None:
    with running(tree()) as process:
        follower = Follower(describe(process.pid), tree=False)
        follower.poll(0.0)
        tell(process, "fork 3")
        assert follower.poll(0.5) is None


def test_children_stay_when_their_parent_ends(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "end")
    with running(tree()) as process:
        follower = Follower(describe(process.pid))
        tell(process, f"spawn read word < {tmp_path}/end")
        batch = follower.poll(0.0)
        assert batch is not None
        root, child = batch.processes
        assert process.stdin is not None
        process.stdin.close()
        process.wait(20)
        assert follower.poll(0.5) == ProcessBatch(0.5, (child,), ((root.pid, None),))
        assert not follower.finished
        (tmp_path / "end").write_text("now\n")
        assert polled(follower, lambda batch: not batch.processes).ended == ((child.pid, None),)
        assert follower.finished


def test_a_child_left_behind_between_two_polls_is_known_by_its_group(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "end")
    with running(tree(), session=True) as process:
        follower = Follower(describe(process.pid))
        follower.poll(0.0)
        tell(process, f"run (read word < {tmp_path}/end) &")
        batch = follower.poll(0.5)
        (tmp_path / "end").write_text("now\n")
        assert batch is not None
        assert [info.ppid == process.pid for info in batch.processes[1:]] == [False]


def test_a_program_that_becomes_another_is_described_anew() -> None:
    with running(tree()) as process:
        follower = Follower(describe(process.pid))
        follower.poll(0.0)
        assert process.stdin is not None
        process.stdin.write("exec echo done; read word\n")
        process.stdin.flush()
        batch = polled(
            follower, lambda batch: batch.processes[0].name == "sh"
        )  # in between it may be half one, half other
        assert (batch.processes[0].pid, batch.processes[0].python) == (process.pid, None)
        assert not batch.ended


def test_what_is_imported_later_is_found_later(tmp_path: Path) -> None:
    library = tmp_path / "torch/lib/libtorch_cpu.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"\x7fELF")
    code = "import mmap, sys\nprint('ready', flush=True)\nsys.stdin.readline()\n"
    code += f"file = open({str(library)!r}); kept = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
    with running(python(code)) as process:
        follower = Follower(describe(process.pid))
        follower.poll(0.0)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        assert follower.poll(0.5) is None
        batch = follower.poll(1.5)
        assert batch is not None
        assert batch.processes[0].frameworks == ("torch",)


def test_a_number_used_again_is_not_followed() -> None:
    with running(tree()) as process:
        root = describe(process.pid)
        follower = Follower(replace(root, started_unix=root.started_unix - 5))
        batch = follower.poll(0.0)
        assert batch == ProcessBatch(0.0, (), ((root.pid, None),))


def test_too_many_processes_are_said_and_taken_in_when_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LIMIT", 4)
    with running(tree()) as process:
        follower = Follower(describe(process.pid))
        follower.poll(0.0)
        assert follower.note(0.0) is None
        tell(process, "fork 6")
        batch = follower.poll(0.5)
        note = follower.note(0.5)
        assert batch is not None
        assert note is not None
        assert (len(batch.processes), note.source, "more than 4" in note.what) == (4, "target", True)
        tell(process, "reap")
        follower.poll(1.0)
        note = follower.note(1.0)
        assert note is not None
        assert (note.key, note.what, note.remedy) == ("tree", "", "")


def test_gputop_does_not_follow_itself() -> None:
    with running(python("")) as helper:
        follower = Follower(describe(os.getppid()))
        batch = follower.poll(0.0)
        assert batch is not None
        assert not {os.getpid(), helper.pid} & {info.pid for info in batch.processes}


def test_a_launched_program_ends_with_its_code() -> None:
    program = launch(["sh", "-c", "exit 3"])
    follower = Follower(program.describe(), launched=program)
    assert polled(follower, lambda batch: not batch.processes).ended == ((program.pid, 3),)
    program.close()
