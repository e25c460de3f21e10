"""The profilers that `overhead` compares: how each one watches a running process for a while."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.harness import ROOT

#: A tool may take this long beyond its time to attach, to end and to write its file, seconds.
_PATIENCE = 60.0

Command = Callable[[int, int, Path], list[str]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A profiler: `command` gets the process id, the seconds to watch and a directory for its file."""

    name: str
    program: str
    command: Command


def _py_spy(*flags: str) -> Command:
    def command(pid: int, seconds: int, directory: Path) -> list[str]:
        output = str(directory / "py-spy")
        return ["py-spy", "record", "-p", str(pid), "-d", str(seconds), "-r", "100", "-f", "raw", "-o", output, *flags]

    return command


def _gputop(pid: int, seconds: int, directory: Path) -> list[str]:
    return [sys.executable, "-m", "gputop", "report", "--pid", str(pid), "--duration", str(seconds), "--json"]


def _austin(pid: int, seconds: int, directory: Path) -> list[str]:
    return ["austin", "-i", "10ms", "-x", str(seconds), "-o", str(directory / "austin"), "-p", str(pid)]


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("gputop", sys.executable, _gputop),
        Tool("py-spy", "py-spy", _py_spy()),
        Tool("py-spy-nonblocking", "py-spy", _py_spy("--nonblocking")),
        Tool("py-spy-native", "py-spy", _py_spy("--native")),
        Tool("austin", "austin", _austin),
    )
}
#: Why other profilers are not compared.
LEFT_OUT = "scalene is left out: it cannot watch a process that is already running"


@dataclass(frozen=True, slots=True)
class Watched:
    """One run of a tool: from when to when (monotonic), and the CPU seconds that it and its helpers used."""

    start: float
    end: float
    cpu_s: float


def available(names: Sequence[str]) -> tuple[list[Tool], list[str]]:
    """Return the tools that are installed, and a sentence for each that is not."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    found = [TOOLS[name] for name in names if shutil.which(TOOLS[name].program, path=path)]
    missing = [f"{name} is skipped: it is not installed" for name in names if TOOLS[name] not in found]
    return found, missing


def watch(tool: Tool, pid: int, seconds: int, directory: Path) -> Watched:
    """Let a tool watch a process.

    Raises:
        RuntimeError: it failed; the message has the end of what it said.
    """
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    log = directory / "log"
    with log.open("wb") as said:
        start = time.monotonic()
        process = subprocess.Popen(
            tool.command(pid, seconds, directory),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd=ROOT,
            env={**os.environ, "PATH": path},
        )
        code, cpu_s = _reaped(process, start + seconds + _PATIENCE)
    if code != 0:
        raise RuntimeError(f"{tool.name} failed with {code}: {log.read_text(errors='replace')[-500:]}")
    return Watched(start, time.monotonic(), cpu_s)


def _reaped(process: subprocess.Popen[bytes], deadline: float) -> tuple[int, float]:
    """Wait for a process; return its exit code and the CPU seconds of it and of all that it has waited for."""
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_utime + usage.ru_stime
        if time.monotonic() > deadline:
            process.kill()
        time.sleep(0.02)
