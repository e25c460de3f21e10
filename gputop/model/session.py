"""The target and its processes, what gputop has to say about itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """What a process is, as far as it does not change while it lives.

    Attributes:
        pid: as seen from here.
        ppid: its parent.
        started_unix: start in seconds since the epoch; with `pid` it names one process for good.
        cmdline: argument vector.
        exe: path of the running program, empty when unreadable.
        name: short name for lists ("train.py" rather than "python").
        python: version such as "3.12.3", or None when no CPython is loaded.
        frameworks: ("torch 2.11.0", …) found loaded, without asking the program.
        rank: position in a distributed job (RANK), or None.
        local_rank: position on this machine (LOCAL_RANK), or None.
        aliases: every pid it has, in its own PID namespaces too (NSpid), for matching with NVML.
    """

    pid: int
    ppid: int
    started_unix: float
    cmdline: tuple[str, ...]
    exe: str = ""
    name: str = ""
    python: str | None = None
    frameworks: tuple[str, ...] = ()
    rank: int | None = None
    local_rank: int | None = None
    aliases: tuple[int, ...] = ()

    @property
    def language(self) -> str:
        """Return whether it runs Python, in words, for people; a process of somebody else cannot be looked into."""
        if self.python is not None:
            return f"Python {self.python}"
        if self.exe:
            return "not a Python process"
        if self.kernel:
            return "a thread of the kernel"
        program = os.path.basename(self.cmdline[0]) if self.cmdline else ""
        if program.startswith("python"):
            return "Python by its name; it cannot be looked into"
        return "Python or not: it cannot be looked into"

    @property
    def kernel(self) -> bool:
        """Tell whether it is a thread of the kernel, which has no program and no arguments."""
        return not self.exe and not self.cmdline


@dataclass(frozen=True, slots=True)
class ProcessBatch:
    """The target's processes: all that live now, and those that ended since the batch before (pid, code or None)."""

    time: float
    processes: tuple[ProcessInfo, ...]
    ended: tuple[tuple[int, int | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """Something that does not work, or works less well, and what helps.

    `source` names the part ("stacks", "peek", "gpu", "host", "target", "snapshot", "engine"); the newest note of a
    source and `key` replaces the one before; an empty `what` withdraws it.
    """

    time: float
    source: str
    key: str
    what: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class CostBatch:
    """What gputop costs over the last seconds.

    Attributes:
        own_cpu: part ("screen", "peek", "py-spy", "gpu", "rest") to share of one core.
        stopped: share of the time that the most stopped thread was held up.
        stack_rate_hz, peek_rate_hz: what the governor allows now.
        failed: share of failed samples.
        limited: why rates are below what was asked for, empty when they are not.
    """

    time: float
    own_cpu: Mapping[str, float]
    stopped: float
    stack_rate_hz: float
    peek_rate_hz: float
    failed: float
    limited: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """What a recording is of: written first, known before anything is sampled.

    `epoch` is the Unix time at monotonic 0: unix = monotonic + epoch.
    """

    root: ProcessInfo
    epoch: float
    hostname: str
    cores: int
    version: str
