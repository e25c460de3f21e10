"""Run gputop as a user would, from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

GPUTOP = (sys.executable, "-m", "gputop")

#: A report lasts its duration and the time until late stacks are in; the rest is for a loaded machine, seconds.
_PATIENCE = 40.0


def gputop(*words: object, timeout: float = _PATIENCE) -> subprocess.CompletedProcess[str]:
    """Run gputop to its end."""
    return subprocess.run([*GPUTOP, *map(str, words)], capture_output=True, text=True, timeout=timeout, check=False)


def report(pid: int, seconds: float = 5.0, *flags: object) -> dict[str, Any]:
    """Return `gputop report --json` on a running process."""
    ended = gputop("report", "--pid", pid, "--duration", seconds, "--json", *flags)
    assert ended.returncode == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def states(document: dict[str, Any], tid: int) -> dict[str, float]:
    """Return the states of one thread; they must sum to one."""
    (thread,) = [thread for thread in document["threads"] if thread["tid"] == tid]
    shares: dict[str, float] = thread["states"]
    assert abs(sum(shares.values()) - 1) < 1e-3
    return shares


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
