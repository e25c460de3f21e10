"""Reads recordings, also damaged or hostile ones."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from gputop.errors import RecordingError
from gputop.model import Batch, HostBatch, Note, PeekBatch, Session, StackBatch
from gputop.session.codec import MalformedError, decode
from gputop.session.writer import VERSION
from gputop.store import Store
from gputop.target.files import open_regular

_GZIP = 31
_BLOCK = 1 << 20
#: Longest line believed, bytes; a second of a thousand threads is a tenth of it.
_LONGEST_LINE = 16 << 20
#: Latest time believed, monotonic seconds: no machine has been up for thirty years.
_LATEST = 1e9
_CUT = "the recording has no end: gputop was killed, or still writes it; its last second may be missing"
#: How a recording is made; also where what was given is none.
_MAKE_ONE = "a recording is made by: gputop record --pid PID -o FILE.gputop, or gputop record -o FILE.gputop -- COMMAND"


def read_session(path: Path) -> Iterator[Batch]:
    """Yield the batches of a recording in the order in which they were written.

    A recording may end anywhere, as after a kill -9. Lines that cannot be understood are skipped. A last `Note` says
    how many, and whether the compressed stream was damaged or has no end.

    Raises:
        RecordingError: the file cannot be read, is no recording, or was written by a newer gputop.
    """
    try:
        with _open(path) as file:
            _check(path, next(_Lines(file).complete, b""))
    except OSError as error:
        why = error.strerror or "it is no regular file"
        raise RecordingError(f"cannot read {path}: {why}", "check the name and the permissions") from error
    return _batches(path)


def load(path: Path) -> Store:
    """Return a store filled from a recording.

    Raises:
        RecordingError: as `read_session`.
    """
    store = Store()
    for batch in read_session(path):
        store.add(batch)
    return store


def _open(path: Path) -> IO[bytes]:
    return os.fdopen(open_regular(str(path)), "rb")


def _check(path: Path, line: bytes) -> None:
    try:
        first = json.loads(line)
        major = first["version"][0] if first["recording"] == "gputop" else None
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        major = None
    if type(major) is not int:
        raise RecordingError(f"{path} is not a gputop recording", _MAKE_ONE)
    if major > VERSION[0]:
        raise RecordingError(
            f"{path} was written by a newer gputop (format {major})", "upgrade: pip install -U gputop-live"
        )


def _batches(path: Path) -> Iterator[Batch]:
    skipped, time = 0, 0.0
    with _open(path) as file:
        lines = _Lines(file)
        next(lines.complete)
        for line in lines.complete:
            try:
                batch = decode(line)
                if batch is not None:
                    _check_batch(batch)
                    time = max(time, getattr(batch, "end", getattr(batch, "time", 0.0)))
                    yield batch
            except MalformedError:
                skipped += 1
    skipped += lines.overlong
    if lines.damaged or skipped:
        what = f"the recording is damaged: {skipped} line{'s' * (skipped != 1)} skipped"
        what += ", the rest is unreadable" * lines.damaged
        yield Note(time, "recording", "damaged", what, "what could be read is shown")
    elif not lines.ended:
        yield Note(time, "recording", "cut", _CUT, "what could be read is shown")


def _check_batch(batch: Batch) -> None:
    """Refuse what the types allow but no collector writes: impossible times, references to nothing.

    Raises:
        MalformedError: such a batch.
    """
    match batch:
        case PeekBatch():
            sound = all(
                0 <= sample.observation < len(batch.observations)
                and -1 <= sample.frame < len(batch.frames)
                and sample.starved >= 0
                and 0 <= sample.seconds <= sample.time <= _LATEST
                for sample in batch.samples
            )
        case StackBatch():
            sound = 0 <= batch.start <= batch.end <= _LATEST and all(
                0 <= segment.stack < len(batch.stacks) and 0 <= segment.start <= segment.end <= _LATEST
                for segment in batch.segments
            )
        case HostBatch():
            sound = 0 <= batch.seconds <= batch.time <= _LATEST
        case Session():
            sound = True
        case _:
            sound = 0 <= batch.time <= _LATEST
    if not sound:
        raise MalformedError(f"{type(batch).__name__} that contradicts itself")


class _Lines:
    """The lines of a gzip stream, as far as it can be read.

    Attributes:
        complete: the lines that have their end.
        overlong: lines left out because no batch is that long.
        damaged: the stream broke off in something that is not deflate.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.complete = self._split()
        self.overlong = 0
        self.damaged = False
        self._inflate = zlib.decompressobj(_GZIP)
        self._file = file

    @property
    def ended(self) -> bool:
        """Whether the stream was read to the end that its writer gave it."""
        return self._inflate.eof

    def _split(self) -> Iterator[bytes]:
        rest, overlong = b"", False
        for block in self._blocks():
            *lines, rest = (rest + block).split(b"\n")
            yield from lines[overlong:]
            overlong = overlong and not lines
            if len(rest) > _LONGEST_LINE or overlong:
                self.overlong += not overlong
                rest, overlong = b"", True

    def _blocks(self) -> Iterator[bytes]:
        """Yield what the stream holds in bounded pieces: a small file may inflate to a huge one."""
        try:
            while data := self._inflate.unconsumed_tail or self._file.read(_BLOCK):
                yield self._inflate.decompress(data, _BLOCK)
            yield self._inflate.flush()
        except zlib.error:
            self.damaged = True
