"""Which py-spy to run, and how."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_NAME = "py-spy"

#: All that py-spy gets to see of our environment: no loader variables, no log level, and no backtrace under its errors.
ENVIRONMENT = {"RUST_BACKTRACE": "0", "LANG": "C.UTF-8"}


def find_binary() -> Path | None:
    """Return the py-spy that belongs to this installation, or None.

    It is looked for beside our interpreter and among the files of its own distribution, and only for an ordinary
    user in PATH as well; never in the working directory. What somebody else could have put there is not run.
    """
    return next((path for path in _candidates() if _runnable(path)), None)


def record_arguments(binary: Path, pid: int, rate: int, seconds: int, output: str) -> list[str]:
    """Return the argument vector that records `pid` for at most `seconds` into `output` without ever stopping it."""
    options = ["record", "--nonblocking", "--idle", "--threads", "--format", "chrometrace"]
    return [
        str(binary),
        *options,
        "--duration",
        str(seconds),
        "--rate",
        str(rate),
        "--output",
        output,
        "--pid",
        str(pid),
    ]


def _candidates() -> Iterator[Path]:
    yield Path(sysconfig.get_path("scripts")) / _NAME
    yield Path(sys.executable).parent / _NAME
    yield from _distribution_files()
    if os.geteuid() != 0:
        yield from _in_path()


def _distribution_files() -> Iterator[Path]:
    import importlib.metadata  # 15 ms that nobody waits for where py-spy lies beside the interpreter

    try:
        files = importlib.metadata.files(_NAME) or ()
    except importlib.metadata.PackageNotFoundError:
        return
    for file in files:
        if file.name == _NAME:
            yield Path(os.path.normpath(str(file.locate())))


def _in_path() -> Iterator[Path]:
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    found = shutil.which(_NAME, path=os.pathsep.join(folders))
    if found:
        yield Path(found)


def _runnable(path: Path) -> bool:
    """Say whether `path` is a program that only root, we, or the owner of gputop's own files can have written."""
    try:
        about = path.stat()
        owners = {0, os.geteuid(), os.stat(__file__).st_uid}
    except OSError:
        return False
    executable = path.is_absolute() and stat.S_ISREG(about.st_mode) and os.access(path, os.X_OK)
    return executable and about.st_uid in owners and not about.st_mode & stat.S_IWOTH
