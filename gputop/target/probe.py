"""Try on a process of our own whether this user may look into others: the same reads that sampling needs."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from gputop import procfs
from gputop.errors import GputopError

#: Leaves a sleeping process that is no descendant of ours, as attached targets are not. It ends with its input.
_ORPHAN = "import os\nif os.fork() == 0: os.write(1, b'%d\\n' % os.getpid()); os.read(0, 1)"

_CAP_SYS_PTRACE = 19
_READS = 100
_PATIENCE_S = 5.0
#: ptrace(2) requests, include/uapi/linux/ptrace.h; and the flag of wait(2) for other's children.
_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_WALL = 0x40000000


@dataclass(frozen=True, slots=True)
class Look:
    """What became of one try.

    Attributes:
        refused: which read the kernel refused and why, empty when none.
        seconds: time of one read of a thread's system call, 0 when refused.
        unstoppable: why a thread that runs cannot be stopped for a look, empty when it can.
    """

    refused: str
    seconds: float = 0.0
    unstoppable: str = ""


def look_into_another() -> Look:
    """Read the system call and the stack of a process that is not our descendant, and stop it for a moment."""
    with _orphan() as pid:
        try:
            stack = _stack_pointer(pid)
            started = time.perf_counter()
            for _ in range(_READS):
                procfs.read_short(f"/proc/{pid}/syscall")
            seconds = (time.perf_counter() - started) / _READS
        except (OSError, ValueError) as error:
            return Look(f"/proc/PID/syscall: {error}")
        refused = _read_memory(pid, stack)
        return Look(refused) if refused else Look("", seconds, _stop(pid))


def may_look_into(pid: int) -> bool:
    """Tell whether the kernel lets us look into a process; it does not refuse one that is gone.

    Opening its memory asks for what all reads need (`PTRACE_MODE_ATTACH` in `mem_open` of fs/proc/base.c).
    """
    try:
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC))
    except PermissionError:
        return False
    except OSError:
        return True
    return True


def has_ptrace_capability() -> bool:
    """Tell whether this process holds CAP_SYS_PTRACE (capabilities(7))."""
    with suppress(OSError, ValueError):
        return bool(int(procfs.status(os.getpid())["CapEff"], 16) >> _CAP_SYS_PTRACE & 1)
    return False


def yama_scope() -> int | None:
    """Return Yama's restriction of tracing, 0 to 3, None without Yama (Documentation/admin-guide/LSM/Yama.rst)."""
    with suppress(OSError, ValueError):
        return int(procfs.read_short("/proc/sys/kernel/yama/ptrace_scope"))
    return None


@contextmanager
def _orphan() -> Iterator[int]:
    command = [sys.executable, "-I", "-S", "-c", _ORPHAN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        line = parent.stdout.readline()
        parent.wait()
        if not line:
            raise GputopError("a test process could not be started")
        yield int(line)


def _stack_pointer(pid: int) -> int:
    """Return where its stack is, once it is asleep in its read."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        fields = procfs.read_short(f"/proc/{pid}/syscall").split()
        if len(fields) == 9:
            return int(fields[7], 16)
        if time.monotonic() > deadline:
            raise ValueError("the test process did not fall asleep")
        time.sleep(0.005)


class _Piece(ctypes.Structure):
    """`struct iovec` of process_vm_readv(2)."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _read_memory(pid: int, address: int) -> str:
    """Return why eight bytes cannot be read, empty when they can."""
    libc = ctypes.CDLL(None, use_errno=True)
    content = ctypes.create_string_buffer(8)
    here, there = _Piece(ctypes.addressof(content), 8), _Piece(address, 8)
    if libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) == 8:
        return ""
    return f"process_vm_readv: {os.strerror(ctypes.get_errno())}"


def _stop(pid: int) -> str:
    """Stop a process and let it go on; return why that cannot be done, empty when it can."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(_SEIZE, pid, None, None) < 0:
        return f"ptrace: {os.strerror(ctypes.get_errno())}"
    libc.ptrace(_INTERRUPT, pid, None, None)
    os.waitpid(pid, _WALL)
    libc.ptrace(_DETACH, pid, None, None)
    return ""
