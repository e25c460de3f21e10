"""Writes a recording as it happens."""

from __future__ import annotations

import json
import os
import queue
import threading
import time
import zlib
from pathlib import Path

from gputop.errors import RecordingError
from gputop.model import Batch, Note
from gputop.session.codec import encode

#: Major and minor version of the format.
VERSION = (1, 0)
MAGIC = {"recording": "gputop", "version": list(VERSION)}

#: Batches that may wait for a slow disk: about two minutes of one process.
_WAITING = 2000
#: Seconds between flushes: what a kill -9 can cost.
_FLUSH_S = 1.0
#: Seconds that `close` waits for the disk.
_CLOSE_S = 5.0
#: gzip's container round deflate.
_GZIP = 31


class SessionWriter:
    """A recording that grows; readable up to its last second at any moment, also after a kill -9.

    Raises:
        RecordingError: the file exists already, or cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: RecordingError | None = None  # why nothing is recorded any more; None while all is well
        self._deflate = zlib.compressobj(wbits=_GZIP)
        self._queue: queue.Queue[Batch | None] = queue.Queue(_WAITING)
        self._lost = 0
        self._closing = False
        self._file = _create(path)
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._thread.start()

    def write(self, batch: Batch) -> None:
        """Record a batch soon; never blocks, never raises.

        What a slow disk leaves no room for is counted in the recording; after an `error` nothing is recorded.
        """
        if self.error or self._closing:
            return
        try:
            self._queue.put_nowait(batch)
        except queue.Full:
            self._lost += 1

    def close(self) -> None:
        """Write what waits and close the file; may be called twice."""
        if not self._closing:
            self._closing = True
            if not self._queue.full():
                self._queue.put_nowait(None)  # wakes a thread that waits for a batch
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        try:
            self._send(json.dumps(MAGIC))
            while not self._closing:
                self._flush(zlib.Z_SYNC_FLUSH)
                self._collect(time.monotonic() + _FLUSH_S)
            while not self._queue.empty():
                self._record(self._queue.get_nowait())
            self._flush(zlib.Z_FINISH)
        except OSError as error:
            self.error = RecordingError(
                f"the recording {self.path} ends early: {error.strerror}",
                "what is in it can be read; make room and record again",
            )
        finally:
            os.close(self._file)

    def _collect(self, deadline: float) -> None:
        while not self._closing and (left := deadline - time.monotonic()) > 0:
            try:
                self._record(self._queue.get(timeout=left))
            except queue.Empty:
                return

    def _record(self, batch: Batch | None) -> None:
        if batch is not None:
            self._send(encode(batch))

    def _flush(self, mode: int) -> None:
        if self._lost:
            lost, self._lost = self._lost, 0
            what = f"the disk was too slow for the recording; {lost} batches are missing"
            self._send(encode(Note(time.monotonic(), "recording", "slow", what, "record to a faster disk")))
        self._put(self._deflate.flush(mode))

    def _send(self, line: str) -> None:
        self._put(self._deflate.compress(f"{line}\n".encode()))

    def _put(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._file, left) :]


def _create(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        if path.exists() and not path.is_file():
            raise RecordingError(f"cannot write {path}: it is no regular file", "choose another name") from None
        raise RecordingError(f"{path} exists already", "choose another name, or remove it first") from None
    except OSError as error:
        remedy = "choose a directory that exists and that you may write to"
        raise RecordingError(f"cannot write {path}: {error.strerror}", remedy) from error
