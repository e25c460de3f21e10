"""The file that a launched program's output goes to."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from gputop import config
from gputop.errors import GputopError

#: Output files of earlier runs that are kept in the state directory.
_KEPT = 20
_PREFIX = "output-"


def create(path: Path | None) -> tuple[Path, int]:
    """Make the output file, empty, readable by the user only; returns its path and a descriptor that appends.

    Args:
        path: where the user wants it; None picks a name in the state directory.

    Raises:
        GputopError: it cannot be written, or is a pipe, which could block the program.
    """
    try:
        chosen = path if path is not None else _new_path()
        return chosen, _open(chosen)
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
    """Delete the oldest output files that no run has written to for a day."""
    day_ago = time.time() - 86400
    for path in sorted(directory.glob(f"{_PREFIX}*.log"))[:-_KEPT]:
        with suppress(OSError):
            if path.stat().st_mtime < day_ago:
                path.unlink()


def _open(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        os.close(descriptor)
        raise OSError(0, "it is a pipe")
    os.set_blocking(descriptor, True)
    return descriptor
