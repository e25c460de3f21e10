"""Which CPython a process runs, told from the files it has mapped; nothing of the target is executed."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO

from gputop.target.files import base, inside, open_regular

_SERIES = r"(?P<series>\d\.\d+)(?P<threads>t?)"
_LIBRARY = re.compile(rf"libpython{_SERIES}[dmu]*\.so")
_PROGRAM = re.compile(rf"python{_SERIES}(?:-dbg)?$")
#: Extension modules carry the ABI in their name ("_json.cpython-312-x86_64-linux-gnu.so", "…cpython-313t-…").
_EXTENSION = re.compile(r"\.cpython-(?P<major>\d)(?P<minor>\d+)(?P<threads>t?)[dmu]*-")
#: Longest binary searched for the patch level; the biggest libpython known is about 40 MB.
_SEARCHED_BYTES, _PART_BYTES, _LONGEST_VERSION = 256 << 20, 1 << 20, 32


def python_version(pid: int, exe: str, mapped: Iterable[str], program: str = "") -> str | None:
    """Return "3.12.3", "3.13.0t" for a free-threaded build, "3.12" when the patch level is not told, or None.

    Args:
        pid: whose files they are.
        exe: path of the running program, empty when it is not ours to see.
        mapped: files in its memory map.
        program: first word of its command line, believed only when `exe` is unknown.
    """
    library = next(((path, found) for path in mapped if (found := _LIBRARY.match(base(path)))), None)
    if library:
        return _with_patch(inside(pid, library[0]), library[1])
    if found := _PROGRAM.match(base(exe or program)):
        return _with_patch(f"/proc/{pid}/exe", found)
    return _from_extensions(mapped)


def series(program: str) -> str | None:
    """Return "3.12" for a program called "python3.12", None when its name does not tell."""
    found = _PROGRAM.match(program)
    return f"{found['series']}{found['threads']}" if found else None


@dataclass(frozen=True, slots=True)
class _Binary:
    """A file by its identity; the path it is reached by differs from process to process."""

    identity: tuple[int, int, int]
    path: str = field(compare=False)


def _with_patch(path: str, found: re.Match[str]) -> str:
    try:
        status = os.stat(path)
        patch = _patch(_Binary((status.st_dev, status.st_ino, status.st_mtime_ns), path), found["series"])
    except (OSError, ValueError):
        patch = ""
    return f"{found['series']}{patch}{found['threads']}"


@functools.lru_cache(maxsize=64)
def _patch(binary: _Binary, minor: str) -> str:
    """Return ".3", ".0rc2" or "": the end of the version string that every CPython has in its constants."""
    version = re.compile(rb"(?<![\d.])" + re.escape(minor.encode()) + rb"(\.\d{1,3}(?:(?:a|b|rc)\d{1,2})?)\+?\0")
    with os.fdopen(open_regular(binary.path), "rb") as file:
        return next((found[1].decode() for part in _parts(file) if (found := _search(version, part, minor))), "")


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    """Yield a file in overlapping parts. Mapping it would be simpler, and fatal if its owner cut it meanwhile."""
    before = b""
    for _ in range(0, _SEARCHED_BYTES, _PART_BYTES):
        part = file.read(_PART_BYTES)
        if not part:
            return
        yield before + part
        before = part[-_LONGEST_VERSION:]


def _search(version: re.Pattern[bytes], content: bytes, minor: str) -> re.Match[bytes] | None:
    """Find the version as the end of a string: linkers merge it with a longer one that ends alike (an install path)."""
    start = minor.encode() + b"."
    at = content.find(start)
    while at >= 0:
        if found := version.match(content, at):
            return found
        at = content.find(start, at + 1)
    return None


def _from_extensions(mapped: Iterable[str]) -> str | None:
    for path in mapped:
        if found := _EXTENSION.search(base(path)):
            return f"{found['major']}.{found['minor']}{found['threads']}"
    return None
