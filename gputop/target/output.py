"""Follow a program's output file as it grows, as lines fit for a screen."""

from __future__ import annotations

import codecs
import os
import re
from collections import deque
from itertools import islice
from pathlib import Path

from gputop.target.files import open_regular
from gputop.text import printable

#: Lines kept; characters kept of each; bytes read at once, and how far behind it may fall before it skips.
LINES, _LINE_LIMIT, _READ_BYTES = 2000, 1000, 1 << 20

#: Bytes read from the end of a file for its last lines.
_END_BYTES = 1 << 16

#: Escape sequences of terminals (ECMA-48): CSI … final byte, OSC … BEL or ST, and short ones. Colours and
#: cursor movements mean nothing in a list of lines.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")
_UNFINISHED_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,200}\x1b?)?$")


class Tail:
    """The last lines of a file that grows.

    A carriage return starts the line again, as progress bars want it. A file that was cut or replaced is read from
    its start. No descriptor is kept open between two reads.

    Args:
        path: the file; it need not exist yet.
        limit: lines kept.
    """

    def __init__(self, path: Path, limit: int = LINES) -> None:
        self.path = path
        self._lines: deque[str] = deque(maxlen=limit)
        self._file = (0, 0)
        self._offset = 0
        self._restart()

    def read(self) -> bool:
        """Read what is new, at most 1 MB of it; returns whether the lines have changed."""
        try:
            data = self._new_bytes()
        except OSError:
            return False
        if data:
            self._take(self._decoder.decode(data))
        return bool(data)

    def lines(self, count: int) -> list[str]:
        """Read what is new and return the last `count` lines, the unfinished one included; each printable."""
        self.read()
        unfinished = [_shown(self._rest)] if self._rest else []
        complete = islice(self._lines, max(len(self._lines) - count, 0), None)
        return [*complete, *unfinished][-count:]

    def _restart(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def _new_bytes(self) -> bytes:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            file = (status.st_dev, status.st_ino)
            if file != self._file or status.st_size < self._offset:
                self._file, self._offset = file, 0
                self._restart()
            self._skip_backlog(status.st_size)
            data = os.pread(descriptor, _READ_BYTES, self._offset)
        finally:
            os.close(descriptor)
        self._offset += len(data)
        return data

    def _skip_backlog(self, size: int) -> None:
        """Leave out what nobody will scroll to: a program may print faster than anybody reads."""
        if size - self._offset > 2 * _READ_BYTES:
            skipped = size - self._offset - _READ_BYTES
            self._offset += skipped
            self._restart()
            self._lines.append(f"… {skipped / 2**20:.1f} MB not shown …")

    def _take(self, text: str) -> None:
        *complete, self._rest = (self._rest + text).split("\n")
        self._lines.extend(map(_shown, complete[-LINES:]))
        self._rest = _shortened(self._rest)


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last `count` lines of a file, each printable; empty lines at the end do not count.

    At most 64 kB are read, from the end. A file that cannot be read or is no regular file has no lines.
    """
    try:
        with os.fdopen(open_regular(str(path)), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = os.pread(file.fileno(), _END_BYTES, max(0, size - _END_BYTES))
    except OSError:
        return []
    lines = [_shown(line) for line in data.decode(errors="replace").split("\n")]
    if size > _END_BYTES and len(lines) > 1:
        del lines[0]  # which may have begun before
    while lines and not lines[-1].strip():
        lines.pop()
    return lines[-count:]


def _shortened(line: str) -> str:
    """Forget what an unfinished line will not show: text before a carriage return, and what is beyond the limit."""
    start = line.rfind("\r", 0, -1)
    line = line[start + 1 :]
    return line[: 4 * _LINE_LIMIT] if len(line) > 8 * _LINE_LIMIT else line


def _shown(line: str) -> str:
    """Return a line as a terminal would leave it, without colours."""
    line = _UNFINISHED_ESCAPE.sub("", _ESCAPES.sub("", line.rstrip("\r")))
    return printable(line[line.rfind("\r") + 1 :].expandtabs(8), _LINE_LIMIT)
