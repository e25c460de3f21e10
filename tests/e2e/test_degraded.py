"""What does not work is named, with its remedy; the rest works."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.harness import (
    GPUTOP,
    document,
    ended,
    eventually,
    gputop,
    kernel_state,
    noted,
    report,
    start,
    states,
    together,
    with_pyspy,
    without_ptrace,
)
from tests.e2e.tmux import Tmux
from tests.fakes.build import compiler
from tests.fakes.programs import running
from tests.fakes.pyspy import fake
from tests.fixtures_targets import start_target

SPIN = """
#include <stdio.h>
#include <unistd.h>
static volatile double x = 1;
__attribute__((noinline)) void multiply(void) { for (int i = 0; i < 1000000; i++) x *= 1.0000001; }
__attribute__((noinline)) void rest(void) { usleep(20000); }
int main(void) { puts("ready"); fflush(stdout); for (int i = 0; i < 4000; i++) { multiply(); rest(); } }
"""


@pytest.fixture(scope="module")
def c_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile a program without Python in it."""
    gcc = compiler()
    if gcc is None:
        pytest.skip("a C compiler is needed for a program without Python")
    folder = tmp_path_factory.mktemp("c")
    (folder / "spin.c").write_text(SPIN)
    subprocess.run([gcc, "-O1", "-o", "spin", "spin.c"], cwd=folder, check=True)
    return folder / "spin"


def test_a_program_without_python_has_states_cores_and_cpu(c_program: Path) -> None:
    with running([str(c_program)]) as target:
        # one after the other: two tracers of one running thread get in each other's way
        as_json = gputop("report", "--pid", target.pid, "--duration", 1.2, "--json")
        printed = gputop("report", "--pid", target.pid, "--duration", 1.2)
    seen = document(as_json)
    shares = states(seen, target.pid)
    assert shares["idle"] > 0.2
    assert shares["native"] + shares["idle"] + shares.get("starved", 0) > 0.97
    assert seen["target"]["python"] is None
    assert "multiply" in {row["name"] for row in seen["functions"]}
    assert all(row["native"] for row in seen["functions"])
    assert (noted(seen, "stacks"), noted(seen, "peek")) == ("", "")
    assert sum(seen["host"]["cores"]) > 5
    assert "not a Python process" in printed.stdout


def test_the_screen_shows_a_program_without_python(c_program: Path, tmp_path: Path) -> None:
    with running([str(c_program)]) as target, Tmux(tmp_path, [*GPUTOP, "--pid", str(target.pid)]) as tmux:
        tmux.expect("multiply", "native", "cores")


def test_without_the_right_to_look_in_the_screen_says_what_gives_it(tmp_path: Path) -> None:
    prefix = without_ptrace()
    with start_target("waits.py", "sleep") as target:
        command = [*prefix, *GPUTOP, "--pid", str(target.pid)]
        with Tmux(tmp_path, command, 200, 50) as tmux:
            tmux.expect("NO LOOK INSIDE", "cannot be looked into", "cores", "SYS_PTRACE", within=15)
            tmux.press("q")
            tmux.expect("code=0")


def test_a_kernel_thread_has_a_name_and_no_more() -> None:
    if kernel_state(2) == "" or Path("/proc/2/cmdline").read_bytes():
        pytest.skip("no kernel threads are seen in this container")
    printed, as_json = together(
        ("report", "--pid", 2, "--duration", 1.5), ("report", "--pid", 2, "--duration", 1.5, "--json")
    )
    assert "kthreadd" in printed.stdout.splitlines()[0]
    assert set(states(document(as_json), 2)) == {"unknown"}


def test_without_py_spy_and_with_a_python_that_it_does_not_know_states_are_seen(tmp_path: Path) -> None:
    pyspy = fake(tmp_path, "fail('Error: Unsupported version of Python: 3.99.0' + chr(10))\n")
    with start_target("computes.py", "busy") as target:
        words = ("report", "--pid", target.pid, "--duration", 1.5, "--json")
        runs = [start(*words, command=with_pyspy(path)) for path in (pyspy, tmp_path / "none")]
        unsupported, missing = [document(ended(run)) for run in runs]
    assert "cannot read Python 3.99.0" in noted(unsupported, "stacks")
    assert "pip install --upgrade py-spy" in noted(unsupported, "stacks")
    assert "py-spy is not installed" in noted(missing, "stacks")
    for seen in (unsupported, missing):
        shares = states(seen, target.pid)
        assert shares["python"] + shares.get("starved", 0) > 0.8


def test_a_stopped_program_is_told_as_stopped_and_left_so() -> None:
    with start_target("computes.py", "busy") as target:
        os.kill(target.pid, signal.SIGSTOP)
        eventually(lambda: kernel_state(target.pid) == "T")
        seen = report(target.pid, 1)
        assert kernel_state(target.pid) == "T"
        os.kill(target.pid, signal.SIGCONT)
        eventually(lambda: kernel_state(target.pid) in ("R", "S"))
        assert target.truth()["wall"] > 0
    assert seen["verdict"]["id"] == "stopped"
    assert states(seen, target.pid) == {"unknown": 1.0}


@contextmanager
def in_gdb(pid: int) -> Iterator[None]:
    """Hold a process in a debugger."""
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    command = ["gdb", "-q", "-nx", "-batch", "-p", str(pid), "-ex", "shell echo held; cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as gdb:
        assert gdb.stdout is not None
        assert gdb.stdin is not None
        while b"held" not in gdb.stdout.readline():
            assert gdb.poll() is None
        yield
        gdb.stdin.close()
        gdb.stdout.read()


def test_a_program_in_a_debugger_is_told_as_stopped_and_left_to_it() -> None:
    with start_target("computes.py", "busy") as target:
        with in_gdb(target.pid):
            seen = report(target.pid, 1)
            assert kernel_state(target.pid) == "t"
        eventually(lambda: kernel_state(target.pid) in ("R", "S"))
        assert target.truth()["wall"] > 0
    assert seen["verdict"]["id"] == "stopped"


def test_a_program_that_another_tool_traces_says_who(tmp_path: Path) -> None:
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    with start_target("computes.py", "busy") as target:
        log = tmp_path / "log"
        with subprocess.Popen(["strace", "-q", "-o", str(log), "-p", str(target.pid)]) as strace:
            eventually(lambda: f"TracerPid:\t{strace.pid}" in Path(f"/proc/{target.pid}/status").read_text())
            seen = report(target.pid, 1.2)
            strace.send_signal(signal.SIGINT)
        assert target.truth()["wall"] > 0
    shares = states(seen, target.pid)
    assert shares["unknown"] > 0.2
    assert shares["unknown"] + shares.get("starved", 0) > 0.8
    assert str(strace.pid) in noted(seen, "peek") + noted(seen, "target")


def test_a_target_that_ends_meanwhile_is_reported_up_to_its_end() -> None:
    with start_target("computes.py", "busy") as target:
        run = start("report", "--pid", target.pid, "--duration", 30, "--json")
        eventually(lambda: [name for name in os.listdir("/proc") if name.isdigit() and is_pyspy_of(name, target.pid)])
        report(target.pid, 0.8)
        target.truth()
        seen = document(ended(run, timeout=8))
    assert seen["target"]["exited"]
    assert seen["target"]["exit_code"] is None
    assert seen["window"]["duration_s"] < 20
    assert seen["functions"][0]["name"] == "busy"


def is_pyspy_of(pid: str, target: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"--nonblocking" in words and str(target).encode() in words


def test_doctor_without_the_right_to_look_in() -> None:
    prefix = without_ptrace()
    run = ended(start("doctor", prefix=prefix))
    assert "without CAP_SYS_PTRACE" in run.stdout
    assert gputop("doctor").stdout.count("\n") >= 8
