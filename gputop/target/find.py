"""The processes worth watching, for the picker: those that run Python and those that use a GPU."""

from __future__ import annotations

import functools
import os
import pwd
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from gputop import procfs
from gputop.target.describe import command_line, executable
from gputop.target.files import base
from gputop.target.naming import PYTHON, short_command, short_name
from gputop.target.python import series
from gputop.text import printable

#: Devices that only a program that computes on or shares memory with a GPU opens. CUDA always opens nvidia-uvm; tools
#: that merely ask the driver, and the desktop, open nvidia0 and nvidiactl alone. Then Tegra, WSL and AMD.
GPU_DEVICES = ("/dev/nvidia-uvm", "/dev/nvhost-gpu", "/dev/nvhost-ctrl-gpu", "/dev/nvmap", "/dev/dxg", "/dev/kfd")

#: Open files looked at for a GPU device; frameworks open it among their first hundred.
_FILES = 512


@dataclass(frozen=True, slots=True)
class Candidate:
    """A process to pick.

    Attributes:
        pid: as seen from here.
        name: short name ("train.py").
        command: the whole command line.
        brief: the same without the directories of the program and of a Python script.
        user: login name, or the number when it has none.
        cpu: cores in use since the list before; over its whole life in the first list.
        rss_bytes: resident memory.
        age_s: seconds since its start.
        python: "3.12", or None when it is not told by the program's name.
        runs_python: its program is a Python interpreter.
        uses_gpu: it has a GPU's device open; False as well when that is not ours to see.
        readable: it is ours to look into (its user's, or root's).
    """

    pid: int
    name: str
    command: str
    brief: str
    user: str
    cpu: float
    rss_bytes: int
    age_s: float
    python: str | None
    runs_python: bool
    uses_gpu: bool
    readable: bool


class Finder:
    """Lists candidates again and again; each list has the CPU use since the one before.

    Args:
        own: a process that is left out together with all that it started: the gputop that shows the list.
    """

    def __init__(self, own: int | None = None) -> None:
        self._own = own
        self._before: dict[tuple[int, float], float] = {}
        self._time_s = 0.0
        self._gpus = any(map(os.path.exists, GPU_DEVICES))

    def find(self) -> tuple[Candidate, ...]:
        """Return the candidates, users of a GPU first, then the busiest."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        processes = {pid: status for pid in procfs.pids() if (status := _status(pid))}
        left_out = {os.getpid()} if self._own is None else _with_children(self._own, processes)
        found = [
            candidate
            for pid, status in processes.items()
            if pid not in left_out
            and (candidate := self._candidate(pid, status, now))
            and (candidate.uses_gpu or candidate.runs_python)
        ]
        self._time_s = now
        self._before = {(pid, status.started_s): status.cpu_s for pid, status in processes.items()}
        return tuple(sorted(found, key=lambda one: (not one.uses_gpu, -one.cpu, one.pid)))

    def _candidate(self, pid: int, status: procfs.Stat, now: float) -> Candidate | None:
        cmdline, exe = command_line(pid), executable(pid)
        program = base(exe) or base(cmdline[0] if cmdline else "")
        owner = _owner(pid)
        if owner is None:
            return None
        return Candidate(
            pid=pid,
            name=short_name(cmdline, status.comm),
            command=printable(" ".join(cmdline)) or short_name(cmdline, status.comm),
            brief=short_command(cmdline) or short_name(cmdline, status.comm),
            user=_user_name(owner),
            cpu=self._cpu(pid, status, now),
            rss_bytes=status.rss_bytes,
            age_s=max(now - status.started_s, 0.0),
            python=series(program),
            runs_python=bool(PYTHON.match(program)),
            uses_gpu=self._gpus and _has_gpu_open(pid),
            readable=bool(exe),
        )

    def _cpu(self, pid: int, status: procfs.Stat, now: float) -> float:
        before = self._before.get((pid, status.started_s))
        since = status.started_s if before is None else self._time_s
        return (status.cpu_s - (before or 0.0)) / max(now - since, 0.01)


def _with_children(own: int, processes: Mapping[int, procfs.Stat]) -> set[int]:
    """Return a process with its children and theirs."""
    found, fresh = {own}, {own}
    while fresh:
        fresh = {pid for pid, status in processes.items() if status.ppid in fresh} - found
        found |= fresh
    return found


def _status(pid: int) -> procfs.Stat | None:
    with suppress(OSError):
        status = procfs.stat(pid)
        return None if status.kernel or status.dead else status
    return None


def _has_gpu_open(pid: int) -> bool:
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as files:
        return any(_opened(file.path).startswith(GPU_DEVICES) for file in islice(files, _FILES))
    return False


def _opened(path: str) -> str:
    with suppress(OSError):
        return os.readlink(path)
    return ""


def _owner(pid: int) -> int | None:
    with suppress(OSError):
        return os.stat(f"/proc/{pid}").st_uid
    return None


@functools.lru_cache(maxsize=256)
def _user_name(uid: int) -> str:
    """Return the login name; cached, since it may be asked of a server."""
    try:
        return printable(pwd.getpwuid(uid).pw_name, 32)
    except KeyError:
        return str(uid)
