"""Symbol tables on disk: what one run has read of a big library, the next need not read again.

The directory is `gputop` in the user's cache directory (XDG Base Directory Specification 0.8). It and every file in it
must be our own and nobody else's to touch; what is not, is damaged or is another file's is as good as absent. A table
that is wrong all the same gives wrong names, and can do no more: it is only searched, in bounds.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

#: Magic and version of the format, SHA-256 of the file's identity, CRC-32 of the table.
_HEADER = struct.Struct("<8s32sI")
_MAGIC = b"gpuSYM\x00\x01"
#: All files together; those not used for longest are removed.
LIMIT_BYTES = 256 << 20
_DONE, _PART = ".symbols", ".part"
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW


class SymbolCache:
    """The tables in one directory; `close` it.

    Args:
        directory: a descriptor of it, which is closed with the cache.
        limit: bytes that all tables together may take.
    """

    def __init__(self, directory: int, limit: int = LIMIT_BYTES) -> None:
        self._directory, self._limit = directory, limit

    def close(self) -> None:
        """Close the directory."""
        os.close(self._directory)

    def load(self, identity: bytes) -> bytes:
        """Return the table of a file, empty when there is none that can be trusted."""
        with suppress(OSError), open(_name(identity), "rb", opener=self._open) as file:
            found = os.fstat(file.fileno())
            if _is_private(found, stat.S_ISREG) and found.st_size <= self._limit:
                os.utime(file.fileno())
                return _checked(file.read(), identity)
        return b""

    def store(self, identity: bytes, table: bytes) -> None:
        """Keep the table of a file, if there is room; the oldest ones make way."""
        if len(table) > self._limit // 2:
            return
        part = f"{os.getpid()}{_PART}"
        header = _HEADER.pack(_MAGIC, hashlib.sha256(identity).digest(), zlib.crc32(table))
        with suppress(OSError):
            try:
                with open(part, "xb", opener=self._open) as file:
                    file.write(header + table)
                os.replace(part, _name(identity), src_dir_fd=self._directory, dst_dir_fd=self._directory)
            except OSError:
                os.unlink(part, dir_fd=self._directory)
            self._trim()

    def _open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK | _FLAGS, 0o600, dir_fd=self._directory)

    def _trim(self) -> None:
        """Remove the files used longest ago, those begun and never ended too, until the rest is within the limit."""
        total = 0
        for name, found in sorted(self._files(), key=lambda file: -file[1].st_mtime_ns):
            total += found.st_size
            if total > self._limit:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self._directory)

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        for name in os.listdir(self._directory):
            if name.endswith((_DONE, _PART)):
                with suppress(FileNotFoundError):
                    yield name, os.stat(name, dir_fd=self._directory, follow_symlinks=False)


def open_cache() -> SymbolCache | None:
    """Open the user's cache; None when there is no place for it that is the user's own.

    Root's environment may be that of whoever became root. A cache directory that it names is used if it is root's.
    """
    home = os.path.expanduser("~root" if os.geteuid() == 0 else "~")
    for base in (Path(os.environ.get("XDG_CACHE_HOME", "")), Path(home, ".cache")):
        if base.is_absolute():
            with suppress(OSError):
                directory = _open_within(base)
                if directory is not None:
                    return SymbolCache(directory)
    return None


def _open_within(base: Path) -> int | None:
    """Open our directory in a base directory, made if need be; None if another user could put things there."""
    if base.parent.stat().st_uid == os.geteuid():
        base.mkdir(mode=0o700, exist_ok=True)
    parent = os.open(base, os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.fstat(parent)
        if found.st_uid != os.geteuid() or found.st_mode & stat.S_IWOTH:
            return None
        with suppress(FileExistsError):
            os.mkdir("gputop", 0o700, dir_fd=parent)
        directory = os.open("gputop", os.O_DIRECTORY | _FLAGS, dir_fd=parent)
    finally:
        os.close(parent)
    if _is_private(os.fstat(directory), stat.S_ISDIR):
        return directory
    os.close(directory)
    return None


def _is_private(found: os.stat_result, kind: Callable[[int], bool]) -> bool:
    """Is it ours, of this kind, and closed to everybody else?"""
    return kind(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _name(identity: bytes) -> str:
    return hashlib.sha256(identity).hexdigest() + _DONE


def _checked(data: bytes, identity: bytes) -> bytes:
    """Return the table in a file, empty when it is of another format or file, or damaged."""
    table = data[_HEADER.size :]
    header = _HEADER.pack(_MAGIC, hashlib.sha256(identity).digest(), zlib.crc32(table))
    return table if data.startswith(header) else b""
