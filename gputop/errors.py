"""Errors that carry their remedy and the exit code that the command line gives for them."""

from __future__ import annotations

import signal

from gputop.text import printable

#: Exit codes of `gputop` (a launched command's own code passes through instead).
OK, FAILED, USAGE, NO_PERMISSION, NO_PROCESS, INTERRUPTED = 0, 1, 2, 3, 4, 130
#: What shells add to the number of the signal that ended a program (SIGINT gives `INTERRUPTED`).
SIGNALLED = 128
#: Words of the command line and names of files are in the sentences, and may hold anything.
_LINE_LIMIT = 2000


class GputopError(Exception):
    """Something the user can act on: what failed, why, and the command that helps.

    Attributes:
        what: one sentence that says what failed and why.
        remedy: what to do about it; empty when nothing helps.
    """

    exit_code = FAILED

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    @property
    def message(self) -> str:
        """Return it as the command line prints it."""
        what, remedy = printable(self.what, _LINE_LIMIT), printable(self.remedy, _LINE_LIMIT)
        return f"gputop: {what}" + (f"\n        {remedy}" if remedy else "")


class UsageError(GputopError):
    """The command line asks for something that does not exist or does not fit together."""

    exit_code = USAGE


class NoPermissionError(GputopError):
    """The kernel refuses to let us look into the target."""

    exit_code = NO_PERMISSION


class NoProcessError(GputopError):
    """There is no such process, or it ended before it could be looked at."""

    exit_code = NO_PROCESS


class CommandNotStartedError(GputopError):
    """A launched command could not be started; `exit_code` is the shell's: 127 not found, 126 not executable."""

    def __init__(self, what: str, remedy: str, exit_code: int) -> None:
        super().__init__(what, remedy)
        self.exit_code = exit_code


class RecordingError(GputopError):
    """A recording cannot be read or written."""


class SnapshotError(GputopError):
    """A trace could not be written; nothing half-written is left behind."""


def ptrace_remedy() -> str:
    """Say how to get the right to look into a process that the kernel refuses."""
    return (
        "run gputop as the target's user or with sudo; in a container add --cap-add=SYS_PTRACE; with Yama: "
        "sudo sysctl kernel.yama.ptrace_scope=0, or start the program with: gputop -- COMMAND"
    )


def ending(code: int, ended_by: int | None) -> str:
    """Return "exited with code 3", or "ended by signal 11 (SIGSEGV)".

    Args:
        code: the exit code as shells have it, which is 128 + n after signal n.
        ended_by: the signal that ended it, 0 when none did; None when that is not known: then a code that may mean
            a signal is told with a question mark.
    """
    if ended_by:
        name = _name(ended_by)
        return f"ended by signal {ended_by}" + (f" ({name})" if name else "")
    name = _name(code - SIGNALLED) if ended_by is None else ""
    return f"exited with code {code}" + (f" ({SIGNALLED} + {name}?)" if name else "")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
