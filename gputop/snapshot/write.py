"""Files that are there whole or not at all, private, and never in place of another."""

from __future__ import annotations

import ctypes
import errno
import gzip
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from gputop.errors import SnapshotError

#: Takes one sentence for the screen; called from the thread that writes.
Progress = Callable[[str], None]

#: gzip level: traces shrink 12 times at 4 and 13 times at the default 9, which takes three times as long.
_LEVEL = 4
_BUFFER = 1 << 20
_TOLD_EVERY = 16 << 20

_AT_FDCWD, _RENAME_NOREPLACE = -100, 1
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES})

_REMEDIES = {
    errno.EEXIST: "choose another name: gputop never overwrites a file",
    errno.ENOSPC: "free some space, or choose a directory on another disk",
    errno.EDQUOT: "your disk quota is used up: choose a directory on another disk",
    errno.EFBIG: "the file size limit (ulimit -f) is too low: raise it, or record a shorter time",
    errno.EACCES: "choose a directory that you may write to",
    errno.EPERM: "choose a directory that you may write to",
    errno.EROFS: "choose a directory that you may write to",
    errno.ENOENT: "make the directory first, or choose another",
    errno.ENOTDIR: "choose a directory that exists",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def check(path: Path) -> None:
    """See that `path` can be written, before anybody waits for it.

    Raises:
        SnapshotError: it exists, or its directory does not exist or may not be written to.
    """
    with failing(path):
        with suppress(FileNotFoundError):
            os.lstat(path)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        temporary, descriptor = _open_temporary(path)
        os.close(descriptor)
        os.unlink(temporary)


def write(path: Path, chunks: Iterable[str | bytes], progress: Progress = lambda sentence: None) -> int:
    """Write a file from its parts, compressed when its name ends in `.gz`; return its size in bytes.

    The file appears under its name when it is complete, with mode 0600. After a kill -9 at most a hidden temporary
    file beside it is left.

    Raises:
        SnapshotError: it exists, the disk is full, or the directory may not be written to; nothing is left behind.
    """
    with failing(path):
        temporary, descriptor = _open_temporary(path)
        try:
            with open(descriptor, "wb", buffering=_BUFFER) as file:
                _fill(path, file, chunks, progress)
                file.flush()
                size = os.fstat(file.fileno()).st_size
            publish(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    return size


def publish(temporary: Path, path: Path) -> None:
    """Give a complete file its name unless there is one already, in one step.

    Raises:
        FileExistsError: there is one.
        OSError: the file system cannot do it.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _rename_without_replacing(temporary, path)


def _rename_without_replacing(temporary: Path, path: Path) -> None:
    """`renameat2(2)` for file systems without hard links (FAT, some network ones)."""
    libc = ctypes.CDLL(None, use_errno=True)
    source, target = os.fsencode(temporary), os.fsencode(path)
    if libc.renameat2(_AT_FDCWD, source, _AT_FDCWD, target, _RENAME_NOREPLACE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@contextmanager
def failing(path: Path) -> Iterator[None]:
    """Turn the system's errors about `path` into one that says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = _REMEDIES.get(error.errno or 0, "choose another directory")
        raise SnapshotError(f"cannot write {path}: {reason}", remedy) from error


def _open_temporary(path: Path) -> tuple[Path, int]:
    temporary = path.with_name(f".gputop-{os.getpid()}-{secrets.token_hex(4)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return temporary, os.open(temporary, flags, 0o600)


def _fill(path: Path, file: BinaryIO, chunks: Iterable[str | bytes], progress: Progress) -> None:
    if path.suffix != ".gz":
        _pour(file, chunks, progress)
        return
    with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0) as packed:
        _pour(cast(BinaryIO, packed), chunks, progress)


def _pour(file: BinaryIO, chunks: Iterable[str | bytes], progress: Progress) -> None:
    """Write the parts in pieces of `_BUFFER` bytes, whatever size they come in."""
    pending: list[bytes] = []
    size = total = 0
    told = _TOLD_EVERY
    for chunk in chunks:
        data = chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk
        pending.append(data)
        size += len(data)
        if size >= _BUFFER:
            file.write(b"".join(pending))
            total, size = total + size, 0
            pending.clear()
            if total >= told:
                progress(f"writing: {total / 1e6:.0f} MB")
                told = total + _TOLD_EVERY
    file.write(b"".join(pending))
