"""What a process is, read from /proc without stopping, tracing or executing anything of it."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from gputop import procfs
from gputop.errors import NoProcessError
from gputop.model import ProcessInfo
from gputop.target.frameworks import frameworks
from gputop.target.naming import short_name
from gputop.target.python import python_version
from gputop.text import printable

#: Position in a distributed job, by the launcher that sets it: torchrun and its kin, Open MPI, MPICH.
_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")

_MAPS_BYTES = 16 << 20
_ARGUMENTS = 256
#: What the kernel adds to the path of a file that was replaced while in use, by an upgrade for instance.
_DELETED = " (deleted)"
_MAPPED_FILE = re.compile(r"^\S+ \S+ \S+ \S+ \d+ +(/.*)$", re.MULTILINE)


def describe(pid: int) -> ProcessInfo:
    """Return what process `pid` is. What is not ours to see stays empty.

    Raises:
        NoProcessError: there is no such process, it has ended, or `pid` is one of a process's threads.
    """
    try:
        return _describe(pid)
    except (FileNotFoundError, ProcessLookupError, OverflowError) as error:
        raise NoProcessError(
            f"there is no process {pid}", "gputop without arguments lists those it can watch"
        ) from error


def same(info: ProcessInfo) -> bool:
    """Tell whether the process described is still that process, and alive: its number may be another's by now."""
    try:
        status = procfs.stat(info.pid)
    except OSError:
        return False
    return not status.dead and procfs.started_unix(status) == info.started_unix


def _gone(pid: int) -> NoProcessError:
    return NoProcessError(f"there is no process {pid}", "gputop without arguments lists those it can watch")


def _describe(pid: int) -> ProcessInfo:
    status = procfs.stat(pid)
    if status.dead:
        raise NoProcessError(f"process {pid} has ended; its parent has not noticed yet")
    _refuse_thread(pid)
    cmdline, exe, mapped, environ = command_line(pid), executable(pid), _mapped(pid), _environ(pid)
    return ProcessInfo(
        pid=pid,
        ppid=status.ppid,
        started_unix=procfs.started_unix(status),
        cmdline=cmdline,
        exe=printable(exe),
        name=short_name(cmdline, status.comm),
        python=python_version(pid, exe, mapped, cmdline[0] if cmdline else ""),
        frameworks=frameworks(pid, mapped),
        rank=_number(environ, _RANK),
        local_rank=_number(environ, _LOCAL_RANK),
        aliases=aliases(pid),
    )


def _refuse_thread(pid: int) -> None:
    group = procfs.status(pid)["Tgid"]
    if int(group) != pid:
        raise NoProcessError(f"{pid} is a thread of process {group}", f"gputop --pid {group}")


def command_line(pid: int) -> tuple[str, ...]:
    """Return the argument vector, made printable; empty for a kernel thread and when it cannot be read."""
    with suppress(OSError):
        return tuple(map(printable, procfs.strings(f"/proc/{pid}/cmdline")[:_ARGUMENTS]))
    return ()


def aliases(pid: int) -> tuple[int, ...]:
    """Return the numbers a process has, from this PID namespace inwards; its own when it cannot be asked."""
    with suppress(OSError):
        return tuple(map(int, procfs.status(pid).get("NSpid", str(pid)).split()))
    return (pid,)


def executable(pid: int) -> str:
    """Return the path of the running program, empty for a kernel thread and when it is not ours to see."""
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/exe").removesuffix(_DELETED)
    return ""


def _mapped(pid: int) -> tuple[str, ...]:
    """Return the files in the process's memory map, each once, in the order of their addresses."""
    with suppress(OSError):
        text = os.fsdecode(procfs.read(f"/proc/{pid}/maps", _MAPS_BYTES))
        return tuple(dict.fromkeys(path.removesuffix(_DELETED) for path in _MAPPED_FILE.findall(text)))
    return ()


def _environ(pid: int) -> dict[str, str]:
    with suppress(OSError):
        pairs = (pair.partition("=") for pair in procfs.strings(f"/proc/{pid}/environ"))
        return {name: value for name, _, value in pairs}
    return {}


def _number(environ: dict[str, str], names: tuple[str, ...]) -> int | None:
    """Return the first of these variables that holds a number; others' text is not trusted further than that."""
    values = (environ.get(name, "") for name in names)
    return next((int(value) for value in values if value.isascii() and value.isdigit() and len(value) < 8), None)
