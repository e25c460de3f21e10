"""Nothing is left behind, nothing is read from where others could have put it, and `--help` costs next to nothing."""

from __future__ import annotations

import fcntl
import os
import resource
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.e2e.harness import GPUTOP, document, ended, eventually, gputop, start, states
from tests.fakes.programs import python, running
from tests.fixtures_targets import start_target


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_commands_leave_no_process_and_no_file(tmp_path: Path) -> None:
    """Files are looked for in the temporary directory, /tmp, the state directory and the working directory."""
    temporary, here, asked = tmp_path / "tmp", tmp_path / "here", tmp_path / "asked"
    for folder in (temporary, here, asked):
        folder.mkdir()
    before = abandoned()
    with start_target("waits.py", "sleep") as target:
        attached = ("--pid", target.pid, "--duration", 1)
        commands: list[Sequence[object]] = [
            ("report", *attached),
            ("snapshot", *attached, "-o", asked / "t.json.gz"),
            ("record", *attached, "-o", asked / "r.gputop"),
            ("report", "--output", asked / "out", "--", "sh", "-c", "sleep 1"),
            ("doctor",),
        ]
        environ = {"TMPDIR": str(temporary), "PYTHONPATH": os.getcwd()}
        runs = [start(*words, prefix=("env", "-C", str(here)), **environ) for words in commands]
        helpers: set[psutil.Process] = set()
        while any(run.poll() is None for run in runs):
            helpers |= set(psutil.Process().children(recursive=True))
            time.sleep(0.02)
        assert [ended(run).returncode for run in runs] == [0] * len(runs)
        _, alive = psutil.wait_procs(helpers - {psutil.Process(target.pid)}, timeout=2)
        assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []
    assert len(helpers) > 2 * len(runs)
    assert tree(temporary) == tree(here) == set()
    assert tree(Path(os.environ["XDG_STATE_HOME"])) <= {"gputop"}
    assert tree(asked) == {"t.json.gz", "r.gputop", "out"}
    eventually(lambda: abandoned() <= before)


def abandoned() -> set[str]:
    """Return gputop's directories in /tmp that no running gputop holds (there may be others on this machine)."""
    return {path.name for path in Path("/tmp").glob("gputop-*") if lockable(path)}


def lockable(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def canaries(folder: Path, sung: Path) -> None:
    """Plant programs and modules that tell when they are executed, by names that something might look for."""
    folder.mkdir(exist_ok=True)
    script = f"#!/bin/sh\ntouch '{sung}/'$(basename $0)\nexit 0\n"
    for name in ("py-spy", "python", "python3", "nvidia-smi", "gdb", "sh", "env"):
        (folder / name).write_text(script)
        (folder / name).chmod(0o777)
    module = f"open({str(sung)!r} + '/' + __name__, 'w')\n"
    for name in ("sitecustomize", "usercustomize", "gputop", "json", "psutil", "pynvml", "textual", "ctypes", "pickle"):
        (folder / f"{name}.py").write_text(module)


def test_nothing_planted_is_executed(tmp_path: Path) -> None:
    """As root against another user's program: what lies in its directory, in ours, or in its PATH is not ours to run.

    (What is in root's own PATH or PYTHONPATH before gputop starts is root's own choice.)
    """
    sung, theirs, here = tmp_path / "sung", tmp_path / "theirs", tmp_path / "here"
    sung.mkdir()
    sung.chmod(0o777)
    canaries(theirs, sung)
    canaries(here, sung)
    hostile = {"PATH": f"{theirs}:/usr/bin:/bin", "PYTHONPATH": str(theirs), "LD_LIBRARY_PATH": str(theirs)}
    with running(python(f"import os; os.chdir({str(theirs)!r});"), environ={**os.environ, **hostile}) as target:
        words = ["report", "--pid", str(target.pid), "--duration", "2", "--json"]
        boot = "import sys; sys.path.remove(''); from gputop.cli import main; sys.exit(main())"
        gputop_script = Path(sys.executable).with_name("gputop")
        command = [str(gputop_script)] if gputop_script.exists() else [sys.executable, "-c", boot]
        run = subprocess.run([*command, *words], cwd=here, capture_output=True, text=True, timeout=30, check=False)
    seen = document(run)
    assert [path.name for path in sung.iterdir()] == []
    assert seen["functions"], "py-spy has worked"
    assert states(seen, target.pid)["io"] > 0.9


def test_private_files_are_private(tmp_path: Path) -> None:
    trace, recording = tmp_path / "t.json", tmp_path / "r.gputop"
    old = os.umask(0)
    try:
        gputop("record", "-o", recording, "--", "sh", "-c", "echo secret; sleep 1")
        gputop("snapshot", recording, "-o", trace)
    finally:
        os.umask(old)
    state = Path(os.environ["XDG_STATE_HOME"]) / "gputop"
    files = [trace, recording, *state.iterdir()]
    assert len(files) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def cpu_of(command: Sequence[str]) -> float:
    """Return the least CPU seconds of three runs."""
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


def test_help_costs_little_more_than_an_interpreter() -> None:
    """In multiples of starting Python with its standard argument parser, as machines differ."""
    python_alone = cpu_of([sys.executable, "-c", "import argparse, dataclasses, pathlib"])
    assert cpu_of([*GPUTOP, "--help"]) < 3 * python_alone
    assert cpu_of([*GPUTOP, "--version"]) < 3 * python_alone


def test_the_first_sample_is_there_soon_after_the_start(tmp_path: Path) -> None:
    """In multiples of the time that the imports of a report take here and now."""
    recording = tmp_path / "r.gputop"
    imports = cpu_of([sys.executable, "-c", "import gputop.cli.report, gputop.engine, gputop.report.text"])
    with start_target("waits.py", "sleep") as target:
        run = start("record", "--pid", target.pid, "-o", recording, "--duration", 5)
        process = psutil.Process(run.pid)
        eventually(lambda: recording.exists() and recording.stat().st_size > 1500, within=10)
        took = sum(process.cpu_times()[:2])
        run.terminate()
        assert ended(run).returncode == 0
    assert took < 3 * imports + 0.2
