"""The picker's list of processes worth watching."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from gputop import procfs
from gputop.target import find
from gputop.target.find import Candidate, Finder
from tests.fakes.programs import READY, python, running


def of(candidates: tuple[Candidate, ...], pid: int) -> Candidate:
    return next(candidate for candidate in candidates if candidate.pid == pid)


def test_a_python_process_is_listed() -> None:
    with running(python("", "two words")) as process:
        found = of(Finder().find(), process.pid)
        assert (found.runs_python, found.uses_gpu, found.readable) == (True, False, True)
        assert found.name == "python -c"
        assert found.command.endswith("two words")
        assert found.command.startswith(sys.executable)
        assert found.brief == found.command.replace(sys.executable, Path(sys.executable).name)
        assert found.user == pwd.getpwuid(os.geteuid()).pw_name
        assert found.python == f"3.{sys.version_info.minor}"
        assert 1 << 20 < found.rss_bytes < 1 << 30
        assert 0 <= found.age_s < 60


def test_others_and_gputop_itself_are_not() -> None:
    with running(["sh", "-c", "echo ready; read word"]) as process:
        assert not {process.pid, os.getpid()} & {candidate.pid for candidate in Finder().find()}


def test_what_the_gputop_that_asks_has_started_is_left_out() -> None:
    """Helpers of helpers too, but no other process."""
    start = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'input()'])\n"
    with running(python(start)) as helper, running(python("")) as other:
        (below,) = (child.pid for child in psutil.Process(helper.pid).children())
        listed = {candidate.pid for candidate in Finder(helper.pid).find()}
        assert {os.getpid(), other.pid} <= listed
        assert not {helper.pid, below} & listed
        assert below in {candidate.pid for candidate in Finder().find()}


def test_users_of_a_gpu_come_first_then_the_busiest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = tmp_path / "nvidia-uvm"
    device.touch()
    monkeypatch.setattr(find, "GPU_DEVICES", (str(device),))
    busy = "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()\n"
    gpu = ["sh", "-c", f"exec 9< {device}; echo ready; read word"]
    with running(python("")) as idle, running(python(busy)) as spins, running(gpu) as uses:
        finder = Finder()
        finder.find()
        deadline = time.monotonic() + 20
        while True:
            time.sleep(0.1)
            candidates = finder.find()
            if of(candidates, spins.pid).cpu > 0.1:
                break
            assert time.monotonic() < deadline
        order = [one.pid for one in candidates if one.pid in (idle.pid, spins.pid, uses.pid)]
        assert order == [uses.pid, spins.pid, idle.pid]
        assert (of(candidates, uses.pid).uses_gpu, of(candidates, uses.pid).runs_python) == (True, False)
        assert of(candidates, idle.pid).cpu < 0.1


def test_the_list_is_quick() -> None:
    sleeping = [subprocess.Popen(["sleep", "60"]) for _ in range(60)]
    try:
        finder = Finder()
        began = time.thread_time()
        finder.find()
        assert time.thread_time() - began < 0.0003 * len(procfs.pids())  # measured: 0.04 ms a process
    finally:
        for process in sleeping:
            process.kill()
            process.wait()


def test_hostile_names_come_out_printable() -> None:
    command = [*python("open('/proc/self/comm', 'wb').write(b'\\x1b[2J')\n"), "\x1b[31m\n\u202e", "y" * 10_000]
    with running(command) as process:
        found = of(Finder().find(), process.pid)
        assert found.command.isprintable()
        assert found.name.isprintable()
        assert len(found.command) <= 400


def test_another_users_processes_are_listed_as_not_readable() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    code = "import os; from gputop.target.find import Finder; os.setgroups([]); os.setuid(65534)\n"
    code += "print(*(one.readable for one in Finder().find() if one.pid == int(os.environ['PID'])))"
    with running([sys.executable, "-I", "-S", "-c", READY]) as process:
        environ = os.environ | {"PID": str(process.pid)}
        told = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
        assert told.stdout == "False\n"
