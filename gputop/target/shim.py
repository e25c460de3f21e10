"""Turns itself into the user's program: run as a script, `shim.py STATUS_FD TRACER_PID PATH ARGV0 [ARG…]`.

A script of its own, run by a fresh interpreter without `site`, because what happens here between fork and exec would
not be safe in a process with threads. It imports nothing of gputop.

On success the program takes this process over and STATUS_FD closes; on failure the errno is written there.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import suppress

#: prctl(2) option by which a process names who may trace it under Yama (include/uapi/linux/prctl.h).
_PR_SET_PTRACER = 0x59616D61


def main(argv: list[str]) -> None:
    """Become the program that `argv` names."""
    status, tracer, path, command = int(argv[1]), int(argv[2]), argv[3], argv[4:]
    _keep_only(status)
    os.set_inheritable(status, False)
    _name_tracer(tracer)
    _reset_signals()
    error = _become(path, command, _environ())
    os.write(status, str(error).encode())
    os._exit(126)


def _keep_only(status: int) -> None:
    """Close what leaked from gputop: C libraries do not always mark their descriptors close-on-exec."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != status:
            with suppress(OSError):  # the listing's own is closed by now
                os.close(int(name))


def _name_tracer(pid: int) -> None:
    """Let gputop and its helpers look into the program where Yama restricts that to ancestors.

    Yama counts the descendants of the declared process too, and forgets it when that process ends. The program's own
    children do not inherit it. Kernels without Yama answer EINVAL; where ctypes is missing all stays as it was.
    """
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)


def _reset_signals() -> None:
    """Undo what Python does to a process: it ignores these two; and gputop's threads may block some."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _environ() -> dict[bytes, bytes]:
    """Return the environment as it was given: the interpreter adds LC_CTYPE to its own in the C locale (PEP 538)."""
    with open("/proc/self/environ", "rb") as file:
        pairs = (entry.partition(b"=") for entry in file.read().split(b"\0") if entry)
        return {name: value for name, _, value in pairs if name}


def _become(path: str, command: list[str], environ: dict[bytes, bytes]) -> int:
    """Execute the program as a shell would; returns the errno when that fails."""
    try:
        os.execve(path, command, environ)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            return error.errno or errno.EIO
    try:  # a script without a first line "#!": POSIX wants sh to read it
        os.execve("/bin/sh", ["sh", path, *command[1:]], environ)
    except OSError as error:
        return error.errno or errno.EIO


if __name__ == "__main__":
    main(sys.argv)
