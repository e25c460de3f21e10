"""What the kernel says about processes and threads in /proc (proc(5)): small parsers, no policy.

Everything raises the `OSError` of the read (`FileNotFoundError` or `ProcessLookupError` for what is gone,
`PermissionError` for what is not ours to see). Names come as the kernel has them: pass them through
`gputop.text.printable` before they go anywhere.
"""

from __future__ import annotations

import functools
import os
import time
from typing import NamedTuple

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: Flag of kernel threads in /proc/PID/stat (include/linux/sched.h).
_PF_KTHREAD = 0x00200000


class Stat(NamedTuple):
    """The parts of /proc/PID/stat, or of a thread's, that gputop uses.

    Attributes:
        comm: the kernel's name, undecodable bytes as surrogates.
        state: the kernel's letter (R, S, D, T, t, Z, X, I).
        ppid, pgrp, session: parent, process group, session.
        kernel: a thread of the kernel itself.
        cpu_s: user and system time so far, in steps of 10 ms.
        children_cpu_s: the same of all children that ended and were waited for, and of theirs.
        threads: how many it has.
        started_s: start, in seconds after boot.
        rss_bytes: resident memory.
        image: start of code and of the arguments; changes with exec, zeros where reading memory is not permitted.
        core: the core it ran on last.
    """

    comm: str
    state: str
    ppid: int
    pgrp: int
    session: int
    kernel: bool
    cpu_s: float
    children_cpu_s: float
    threads: int
    started_s: float
    rss_bytes: int
    image: tuple[bytes, bytes]
    core: int

    @property
    def dead(self) -> bool:
        """No thread of it runs any more. A main thread that ended before the others is a zombie, the process is not."""
        return self.state in "ZXx" and self.threads <= 1


def read(path: str, limit: int = 1 << 20, at: int | None = None) -> bytes:
    """Return at most `limit` bytes of a file of /proc; `at` is the open directory that `path` is relative to."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=at)
    try:
        parts, left = [], limit
        while left > 0 and (part := os.read(descriptor, min(left, 1 << 16))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def read_short(path: str, at: int | None = None) -> bytes:
    """Return a file of /proc that the kernel writes in one piece below 4 kB: one call less than `read`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=at)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def stat(pid: int) -> Stat:
    """Return a process's status."""
    return parse_stat(read_short(f"/proc/{pid}/stat"))


def parse_stat(line: bytes) -> Stat:
    """Read a line of /proc/PID/stat; the name in it may hold spaces, brackets and line breaks."""
    opened, closed = line.find(b"("), line.rfind(b")")
    if opened < 0 or closed < 0:
        raise ProcessLookupError("no such process")
    field = line[closed + 2 :].split()
    return Stat(
        comm=os.fsdecode(line[opened + 1 : closed]),
        state=chr(field[0][0]),
        ppid=int(field[1]),
        pgrp=int(field[2]),
        session=int(field[3]),
        kernel=bool(int(field[6]) & _PF_KTHREAD),
        cpu_s=(int(field[11]) + int(field[12])) / _TICKS_PER_SECOND,
        children_cpu_s=(int(field[13]) + int(field[14])) / _TICKS_PER_SECOND,
        threads=int(field[17]),
        started_s=int(field[19]) / _TICKS_PER_SECOND,
        rss_bytes=int(field[21]) * _PAGE_BYTES,
        image=(field[23], field[45]),
        core=int(field[36]),
    )


def pids() -> list[int]:
    """Return the processes that can be seen."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def newest_pid() -> bytes:
    """Return the last process or thread id given out: while it stays the same, nothing new has started."""
    return read_short("/proc/loadavg").rsplit(None, 1)[-1]


def status(pid: int) -> dict[str, str]:
    """Return the fields of /proc/PID/status by name."""
    lines = os.fsdecode(read(f"/proc/{pid}/status")).splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in pairs}


def strings(path: str, limit: int = 1 << 18) -> tuple[str, ...]:
    """Return the NUL-terminated strings of /proc/PID/cmdline or environ."""
    content = read(path, limit)
    return tuple(map(os.fsdecode, content.removesuffix(b"\0").split(b"\0"))) if content else ()


@functools.cache
def boot_unix() -> float:
    """Return when the machine started, in seconds since the epoch.

    Asked once, so that a clock that is set later does not make a process look like another one.
    """
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def started_unix(status_line: Stat) -> float:
    """Return when a process started, in seconds since the epoch."""
    return round(boot_unix() + status_line.started_s, 3)


def process_cpu_s(pid: int) -> float:
    """Return the CPU time of all threads of a process so far, ended ones too, to the nanosecond.

    Uses the process's CPU clock: clock_getcpuclockid(3), whose id is made of the pid in Linux's own way
    (`MAKE_PROCESS_CPUCLOCK` with `CPUCLOCK_SCHED` of include/linux/posix-timers.h).

    Raises:
        OSError: no such process.
    """
    return time.clock_gettime((~pid << 3) | 2)
