"""The file that a launched program's output goes to."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path

from gputop import config
from gputop.errors import GputopError

#: Of the output files in the state directory the newest are kept, and none for longer than a month. One that is older
#: goes only when nothing was written to it for an hour and no program has it open.
_KEPT, _LONGEST_S, _QUIET_S = 20, 30 * 86400.0, 3600.0
_PREFIX = "output-"
_OURS = re.compile(rf"{_PREFIX}\d{{8}}-\d{{6}}-\d+\.log")


def create(path: Path | None) -> tuple[Path, int]:
    """Make the output file, empty, readable by the user only; returns its path and a descriptor that appends.

    Args:
        path: where the user wants it; None picks a name in the state directory.

    Raises:
        GputopError: it cannot be written, or is a pipe, which could block the program.
    """
    try:
        if path is not None:
            return path, _open(path)
        chosen = _new_path()
        descriptor = _open(chosen)
        with suppress(OSError):  # the program shares the lock and keeps it for as long as it has the file open
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return chosen, descriptor
    except OSError as error:
        where = path if path is not None else "the state directory"
        raise GputopError(
            f"cannot write the program's output to {where}: {error.strerror}", "use --output FILE"
        ) from error


def _new_path() -> Path:
    directory = config.state_dir()
    _forget_old(directory)
    return directory / time.strftime(f"{_PREFIX}%Y%m%d-%H%M%S-{os.getpid()}.log")


def _forget_old(directory: Path) -> None:
    """Delete old output files of ours that nobody uses."""
    now, written = time.time(), {}
    for entry in directory.iterdir():
        with suppress(OSError):
            about = entry.lstat()
            if _OURS.fullmatch(entry.name) and stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid():
                written[entry] = about.st_mtime
    for place, path in enumerate(sorted(written, key=lambda path: -written[path])):
        age = now - written[path]
        if age > _LONGEST_S or (place >= _KEPT - 1 and age > _QUIET_S):
            _delete_unused(path)


def _delete_unused(path: Path) -> None:
    """Delete a file unless a program that was given it as its output still holds its lock, or that cannot be told."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(descriptor)


def _open(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        os.close(descriptor)
        raise OSError(0, "it is a pipe")
    os.set_blocking(descriptor, True)
    return descriptor
