"""The source files of the target, as it sees them: only those that are what runs."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import PurePosixPath

from gputop.model import ProcessInfo
from gputop.target.files import inside, open_regular
from gputop.text import printable

#: Bytes of a file that are read, and characters of a line that are kept: generated files can be of any size.
LIMIT, _LINE_LIMIT = 4 << 20, 400
#: Symbolic links followed in one path, as the kernel does it.
_MOST_LINKS = 40
#: A file written in the second in which the program started may still be what it read.
_SLACK = 1.0


@dataclass(frozen=True, slots=True)
class Code:
    """A source file.

    Attributes:
        lines: its text, made printable; empty when it cannot be shown.
        missing: why it cannot be shown, in words; empty when it can.
        remark: what to know when reading it, empty for nothing.
    """

    lines: tuple[str, ...] = ()
    missing: str = ""
    remark: str = ""


def read(file: str, process: ProcessInfo, *, live: bool, remark: str = "") -> Code:
    """Return a source file of a process; may be slow where the disk is.

    Arguments:
        live: the process is there, so that its own root and working directory count (containers, private mounts); else
            the file of that name on this machine is taken.
        remark: what the reader should know about a file that is shown.
    """
    if not file or file.startswith("<"):
        return Code(missing="there is no source file: this code was made at run time, or is built into Python")
    if "/" not in file and process.python is None:
        return Code(missing="native code: its source is not looked for; the flame graph shows what calls it")
    try:
        path = _path(file, process, live)
        handle = open_regular(path)
    except OSError as error:
        return Code(missing=_refusal(error))
    with os.fdopen(handle, "rb") as opened:
        if process.started_unix and os.fstat(opened.fileno()).st_mtime > process.started_unix + _SLACK:
            return Code(missing="the file changed since the program started; its lines may be others now")
        text = opened.read(LIMIT + 1)
    return _code(text, remark)


def _code(text: bytes, remark: str) -> Code:
    if b"\0" in text[:4096]:
        return Code(missing="the file is not text")
    if len(text) > LIMIT:
        text, remark = text[:LIMIT], f"only the first {LIMIT >> 20} MiB are shown"
    # Form feeds and other separators do not end a line for Python's compiler: only these three do.
    lines = text.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return Code(tuple(printable(line.expandtabs(4), _LINE_LIMIT) for line in lines), remark=remark)


def _refusal(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "the file is not there"
    if isinstance(error, PermissionError):
        return "no permission to read the file"
    return error.strerror or str(error)


def _path(file: str, process: ProcessInfo, live: bool) -> str:
    """Return the name under which the file can be opened here."""
    if not live:
        if not file.startswith("/"):
            raise FileNotFoundError(file)
        return file
    if not file.startswith("/"):
        file = os.path.normpath(os.path.join(os.readlink(f"/proc/{process.pid}/cwd"), file))
    return resolved(inside(process.pid, "/"), file)


def resolved(root: str, path: str) -> str:
    """Return `path` with its symbolic links followed as a process does whose root directory is `root`.

    Opened as it is, an absolute link in a container would lead to this machine's file of that name.

    Raises:
        OSError: a part is missing or cannot be looked at, or there are too many links.
    """
    waiting = [part for part in reversed(PurePosixPath(path).parts) if part != "/"]
    done: list[str] = []
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            done = done[:-1]
            continue
        here = os.path.join(root, *done, part)
        if not stat.S_ISLNK(os.lstat(here).st_mode):
            done.append(part)
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(f"{path} has too many symbolic links")
        target = PurePosixPath(os.readlink(here))
        if target.is_absolute():
            done = []
        waiting += [step for step in reversed(target.parts) if step != "/"]
    return os.path.join(root, *done)
