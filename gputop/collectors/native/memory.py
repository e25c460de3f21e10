"""Reading another process's memory without stopping it."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)


class Vector(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


#: process_vm_readv(2).
readv = _libc.process_vm_readv
readv.argtypes = (
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_ulong,
)
readv.restype = ctypes.c_ssize_t

_PAGE = 4096
#: A look copies this much of the stack at first; deeper ones copy more, up to the limit.
FIRST_COPY = 48 << 10
MAX_COPY = 1 << 20


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Return up to `size` bytes of a process's memory; fewer where it ends, none where nothing can be read."""
    if not 0 <= address < 2**64 - size:
        return b""
    buffer = ctypes.create_string_buffer(size)
    here, there = Vector(ctypes.addressof(buffer), size), Vector(address, size)
    count = readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return buffer.raw[: max(count, 0)]


class StackCopy:
    """A reusable copy of the live part of a stack; `fill` allocates nothing, so that it may run during a stop.

    Attributes:
        base: address of the first word.
        size: bytes copied.
        short: a word not far beyond the copy was asked for, and more could have been copied.
        grew: words beyond the copy were read afterwards.
    """

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(MAX_COPY)
        self._words = memoryview(self._buffer).cast("B").cast("Q")
        self._here = Vector(ctypes.addressof(self._buffer), 0)
        self._there = Vector(0, 0)
        self._here_at, self._there_at = ctypes.byref(self._here), ctypes.byref(self._there)
        self._pid = 0
        self._grows = False
        self.base = self.size = 0
        self._asked = 0
        self.short = self.grew = False

    def fill(self, pid: int, stack_pointer: int, size: int, grows: bool = False) -> bool:
        """Copy `size` bytes from the stack pointer up.

        Args:
            pid: the process (any of its threads).
            stack_pointer: where to begin.
            size: bytes to copy; fewer are copied where the stack ends.
            grows: may more be read later? Only while the thread is blocked, when its stack does not change.

        Returns:
            Whether anything was copied; when not, `ctypes.get_errno()` says why.
        """
        self.base = stack_pointer & ~7
        self._pid, self._asked, self._grows = pid, size, grows
        self.short = self.grew = False
        self._here.length = self._there.length = size
        self._there.base = self.base
        self.size = max(readv(pid, self._here_at, 1, self._there_at, 1, 0), 0) & ~7
        return self.size > 0

    def word(self, address: int) -> int | None:
        """Return the word at an address, None where it is not in the copy."""
        offset = address - self.base
        if 0 <= offset < self.size and not offset & 7:
            return self._words[offset >> 3]
        return self._beyond(address)

    def _beyond(self, address: int) -> int | None:
        if not self._grows:
            if self.size + 7 >= self._asked and 0 <= address - self.base - self.size < MAX_COPY:
                self.short = True
            return None
        self.grew = True
        data = read_memory(self._pid, address, 8)
        return int.from_bytes(data, "little") if len(data) == 8 else None


def error_text() -> str:
    """Return why the last read or trace request failed."""
    return os.strerror(ctypes.get_errno())
