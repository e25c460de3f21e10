"""Run gputop as a user would, from outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import gputop as package

GPUTOP = (sys.executable, "-m", "gputop")
SCHEMA = json.loads((Path(package.__file__).parent / "report" / "schema.json").read_text())

#: A report lasts its duration and the time until late stacks are in; the rest is for a loaded machine, seconds.
_PATIENCE = 40.0

Ended = subprocess.CompletedProcess[str]


def start(
    *words: object, prefix: Sequence[str] = (), command: Sequence[str] = GPUTOP, **environ: str
) -> subprocess.Popen[str]:
    """Start gputop with its output in pipes; end it with `ended`."""
    return subprocess.Popen(
        [*prefix, *command, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environ},
    )


#: Runs gputop with its first argument in the place of py-spy.
_WITH_PYSPY = """
import sys
from pathlib import Path
from gputop.cli import main
from gputop.collectors.stacks import command
pyspy = Path(sys.argv.pop(1))
command._candidates = lambda: iter([pyspy])
sys.exit(main())
"""


def with_pyspy(path: Path) -> tuple[str, ...]:
    """Return the command for a gputop that finds this py-spy and no other."""
    return (sys.executable, "-c", _WITH_PYSPY, str(path))


def ended(process: subprocess.Popen[str], timeout: float = _PATIENCE) -> Ended:
    """Wait for a gputop that was started, and return what it said; one that does not end is killed."""
    with process:
        try:
            out, complaint = process.communicate(timeout=timeout)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, complaint)


def gputop(*words: object, timeout: float = _PATIENCE, **environ: str) -> Ended:
    """Run gputop to its end."""
    return ended(start(*words, **environ), timeout)


def together(*commands: Sequence[object]) -> list[Ended]:
    """Run several gputops at the same time, each to its end."""
    return [ended(process) for process in [start(*words) for words in commands]]


def document(run: Ended, code: int = 0) -> dict[str, Any]:
    """Return the report that a run printed as JSON; it must keep to the schema."""
    assert run.returncode == code, run.stderr
    parsed: dict[str, Any] = json.loads(run.stdout)
    jsonschema.validate(parsed, SCHEMA)
    return parsed


def report(pid: int, seconds: float = 5.0, *flags: object) -> dict[str, Any]:
    """Return `gputop report --json` on a running process."""
    return document(gputop("report", "--pid", pid, "--duration", seconds, "--json", *flags))


def states(document: dict[str, Any], tid: int) -> dict[str, float]:
    """Return the states of one thread; they must sum to one."""
    (thread,) = [thread for thread in document["threads"] if thread["tid"] == tid]
    shares: dict[str, float] = thread["states"]
    assert abs(sum(shares.values()) - 1) < 1e-3
    return shares


def noted(document: dict[str, Any], source: str) -> str:
    """Return what a source says does not work, and the remedies."""
    return "\n".join(f"{note['what']} → {note['remedy']}" for note in document["notes"] if note["source"] == source)


def eventually(true: Callable[[], object], within: float = 10.0) -> None:
    """Wait until something is true, looking again and again."""
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, f"not true within {within} s"
        time.sleep(0.01)


def without_ptrace() -> tuple[str, ...]:
    """Return what to put before a command so that it may not look into other processes: it loses the capability.

    A process that has it is then not to be looked into, though it belongs to the same user (capabilities count:
    `cap_ptrace_access_check` of security/commoncap.c).
    """
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root, with setpriv of util-linux, can give up the right to look into processes")
    return ("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace")


def kernel_state(pid: int) -> str:
    """Return the kernel's letter for a process: R, S, D, T, t, Z; "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]
    except OSError:
        return ""


def processes_named(word: str) -> list[int]:
    """Return the processes whose command line holds a word."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in line:
                found.append(int(name))
    return found
