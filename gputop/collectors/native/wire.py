"""Objects over a pipe between the collector and its worker: pickles, each behind its length.

Both ends are ours, and nobody else has the pipe; that is what makes pickle acceptable here.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Iterator
from typing import Any

_LENGTH = struct.Struct("<I")
_CHUNK = 1 << 16


def encode(message: object) -> bytes:
    """Return the bytes of one message."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


class Receiver:
    """Takes messages out of what is read from a pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = bytearray()

    def receive(self) -> Iterator[Any]:
        """Read once and yield the messages that are complete now.

        Raises:
            EOFError: the other end has closed the pipe.
        """
        data = os.read(self._fd, _CHUNK)
        if not data:
            raise EOFError
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._buffer)[0]
            if len(self._buffer) < end:
                return
            message = pickle.loads(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield message


class Sender:
    """Writes messages to a pipe without ever waiting for the other end."""

    def __init__(self, fd: int, limit_bytes: int) -> None:
        os.set_blocking(fd, False)
        self._fd, self._limit = fd, limit_bytes
        self._buffer = bytearray()

    def send(self, message: object) -> bool:
        """Queue a message; False when it was dropped because the other end has not read for too long."""
        if len(self._buffer) > self._limit:
            return False
        self._buffer += encode(message)
        self.flush()
        return True

    def flush(self) -> None:
        """Write as much as the pipe takes.

        Raises:
            BrokenPipeError: the other end is gone.
        """
        try:
            while self._buffer:
                del self._buffer[: os.write(self._fd, self._buffer)]
        except BlockingIOError:
            return
