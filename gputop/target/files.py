"""Reading files that belong to the target: in its own root directory, and only regular ones.

Names found in another process's memory map are that process's to choose. Opening what is there could rewind a
tape or wait for ever on a pipe, so each file is looked at before it is opened.
"""

from __future__ import annotations

import os
import stat
from pathlib import PurePosixPath


def inside(pid: int, path: str) -> str:
    """Return the name under which `path`, as process `pid` sees it (containers, chroot), can be opened here."""
    return f"/proc/{pid}/root{path}"


def open_regular(path: str) -> int:
    """Open a regular file for reading and return its descriptor.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path} is not a regular file")
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(handle)


def read_text(path: str, limit: int = 1 << 16) -> str:
    """Return the first `limit` bytes of a regular file as text, empty when it cannot be read."""
    try:
        descriptor = open_regular(path)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit).decode("utf-8", "replace")


def base(path: str) -> str:
    """Return the last part of a path of the target."""
    return PurePosixPath(path).name
