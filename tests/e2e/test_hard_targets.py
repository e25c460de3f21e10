"""What is hard to look at: event loops, interpreters within one, forks, execs, PID namespaces; and refused calls."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import document, ended, noted, report, start, states
from tests.fakes.build import compiler
from tests.fakes.programs import running
from tests.fakes.refusing import NUMBERS
from tests.interpreters import python

REFUSING = Path(__file__).parent.parent / "fakes" / "refusing.py"

#: `burn` works half of the time, or never; the rest is the event loop's.
_WORK = """
import sys, time
def burn():
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end: pass
def rounds(idle):
    print("ready", flush=True)
    while True:
        if not idle: burn()
        yield 1 if idle else 0.02
"""
_ASYNCIO = """
import asyncio
async def main():
    for pause in rounds(sys.argv[1] == "idle"): await asyncio.sleep(pause)
"""
LOOPS = {
    "asyncio": _ASYNCIO + "asyncio.run(main())",
    "uvloop": _ASYNCIO + "import uvloop; uvloop.run(main())",
    "gevent": """
import gevent
def main():
    for pause in rounds(sys.argv[1] == "idle"): gevent.sleep(pause)
gevent.spawn(main).join()
""",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_an_event_loop_is_idle_or_at_work(loop: str) -> None:
    if find_spec(loop) is None:
        pytest.skip(f"{loop} is not installed")
    command = [sys.executable, "-c", _WORK + LOOPS[loop]]
    with running([*command, "idle"]) as idle, running([*command, "busy"]) as busy:
        runs = [start("report", "--pid", target.pid, "--duration", 1.5, "--json") for target in (idle, busy)]
        seen_idle, seen_busy = (document(ended(run)) for run in runs)
    assert states(seen_idle, idle.pid)["idle"] > 0.8
    assert seen_idle["verdict"]["id"] == "idle"
    shares = states(seen_busy, busy.pid)
    assert shares["python"] > 0.03
    assert 0.1 < shares["idle"] < 0.7
    assert _self(seen_busy, "burn") == pytest.approx(1 - shares["idle"], abs=0.25)


def _self(seen: dict[str, Any], name: str) -> float:
    return float(sum(row["self"] for row in seen["functions"] if row["name"] == name))


INTERPRETERS = """
import threading, time
SOURCE = '''
def fold(count): return sum(number * number for number in range(count))
while True: fold(5000)
'''
try:
    from concurrent import interpreters
    run = interpreters.create().exec
except ImportError:
    import _interpreters
    interpreter = _interpreters.create()
    run = lambda source: _interpreters.run_string(interpreter, source)
threading.Thread(target=run, args=(SOURCE,), daemon=True).start()
def rest(): time.sleep(1000)
print("ready", flush=True)
rest()
"""


@pytest.mark.parametrize("version", ["3.13", "3.14"])
def test_each_interpreter_in_a_process_is_seen(version: str) -> None:
    with running([python(version), "-c", INTERPRETERS]) as target:
        seen = report(target.pid, 1.5)
    (other,) = [thread["tid"] for thread in seen["threads"] if thread["tid"] != target.pid]
    assert states(seen, target.pid)["idle"] > 0.9
    shares = states(seen, other)
    assert shares["python"] + shares.get("starved", 0) + shares.get("gil", 0) > 0.9
    assert _self(seen, "fold") + _self(seen, "fold.<locals>.<genexpr>") > 0.5 * shares["python"]


FORKS = """
import os, sys, threading, time
print("ready", flush=True)
def child():
    end = time.perf_counter() + 0.03
    while time.perf_counter() < end: pass
ends = []
def parent():
    while not over:
        pid = os.fork()
        if not pid:
            child()
            os._exit(0)
        ends.append(os.waitpid(pid, 0)[1])
over = []
threading.Thread(target=lambda: over.append(sys.stdin.readline()), daemon=True).start()
parent()
print(len(ends), set(ends), flush=True)
"""


def test_a_program_that_forks_all_the_time_waits_for_its_children_and_none_is_harmed() -> None:
    with running([sys.executable, "-W", "ignore", "-c", FORKS]) as target:
        seen = report(target.pid, 1.5)
        told, _ = target.communicate("\n")
    count, ends = told.split(maxsplit=1)
    assert (int(count) > 5, ends) == (True, "{0}\n")
    shares = states(seen, target.pid)
    assert shares["child"] + shares.get("starved", 0) > 0.6


EXECS = """
import os, sys, time
def {0}():
    end = time.perf_counter() + {1}
    while time.perf_counter() < end: pass
print("ready", flush=True)
{0}()
{2}
"""


def test_what_a_process_runs_after_exec_is_seen(tmp_path: Path) -> None:
    second = tmp_path / "second.py"
    second.write_text(EXECS.format("after", 30, ""))
    first = EXECS.format("before", 1.2, f"os.execv(sys.executable, [sys.executable, {str(second)!r}])")
    with running([sys.executable, "-c", first]) as target:
        seen = report(target.pid, 2.5)
        target.kill()
    assert _self(seen, "after") > 0.2


VFORK = """
#include <stdio.h>
#include <unistd.h>
int main(void) {
    puts("ready"); fflush(stdout);
    if (vfork() == 0) { char byte; read(0, &byte, 1); _exit(0); }
    return 0;
}
"""


def test_uninterruptible_sleep_is_told(tmp_path: Path) -> None:
    """A parent sleeps so until its vforked child executes something or ends."""
    gcc = compiler()
    if gcc is None:
        pytest.skip("a C compiler is needed for a program that vforks")
    (tmp_path / "vforks.c").write_text(VFORK)
    subprocess.run([gcc, "-o", "vforks", "vforks.c"], cwd=tmp_path, check=True)
    with running([str(tmp_path / "vforks")]) as target:
        seen = report(target.pid, 0.7)
    assert states(seen, target.pid)["child"] > 0.9


def test_a_process_in_another_pid_namespace() -> None:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("only root, with unshare of util-linux, can make a PID namespace")
    prefix = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no PID namespace can be made here")
    busy = "def busy():\n  while True: pass\nprint('ready', flush=True)\nbusy()"
    with running([*prefix, sys.executable, "-c", busy]) as outer:
        (pid,) = map(int, Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split())
        seen = report(pid, 1.2)
        outer.kill()
    shares = states(seen, pid)
    assert shares["python"] + shares.get("starved", 0) > 0.9
    assert _self(seen, "busy") > 0.5
    assert noted(seen, "stacks") == noted(seen, "peek") == ""


# ------------------------------------------------------------------------------------------- refused system calls

BUSY = "def busy():\n  while True: pass\nprint('ready', flush=True)\nbusy()"
SLEEPY = "import time\ndef rest(): time.sleep(1000)\nprint('ready', flush=True)\nrest()"


def refused(call: str) -> tuple[str, ...]:
    """Return what to put before a command so that the kernel refuses it a system call."""
    if os.uname().machine not in NUMBERS:
        pytest.skip("the numbers of system calls are known for x86-64 and ARM64 only")
    return (sys.executable, str(REFUSING), call)


def test_without_ptrace_waits_are_seen_and_the_reason_is_told() -> None:
    prefix = refused("ptrace")
    with running([sys.executable, "-c", BUSY]) as busy, running([sys.executable, "-c", SLEEPY]) as sleepy:
        targets = busy, sleepy
        runs = [start("report", "--pid", target.pid, "--duration", 1.2, "--json", prefix=prefix) for target in targets]
        doctor = start("doctor", prefix=prefix)
        of_busy, of_sleepy = (document(ended(run)) for run in runs)
        for target in targets:
            target.kill()
    shares = states(of_busy, busy.pid)
    assert shares["unknown"] + shares.get("starved", 0) > 0.9
    assert "ptrace: Operation not permitted" in noted(of_busy, "peek")
    assert "SYS_PTRACE" in noted(of_busy, "peek")
    assert _self(of_busy, "busy") > 0.5
    assert states(of_sleepy, sleepy.pid)["idle"] > 0.9
    assert "not what they compute: ptrace: Operation not permitted" in ended(doctor).stdout


def test_without_reading_memory_the_reason_is_told() -> None:
    prefix = refused("process_vm_readv")
    with running([sys.executable, "-c", SLEEPY]) as target:
        run = start("report", "--pid", target.pid, "--duration", 1.2, "--json", prefix=prefix)
        seen, doctor = document(ended(run)), ended(start("doctor", prefix=prefix))
        target.kill()
    assert "process_vm_readv: Operation not permitted" in noted(seen, "peek")
    assert states(seen, target.pid)
    assert "processes cannot be looked into: process_vm_readv" in doctor.stdout
