"""Reading ELF files that may be corrupt, hostile, or changing under us.

Everything goes through bounded reads, never through a memory map: a file that shrinks gives short reads, where a
map would give a fatal SIGBUS. Format: System V ABI, "Object Files"; little-endian 64-bit only.
"""

from __future__ import annotations

import os
import struct
from typing import Any, NamedTuple, Protocol

_HEADER = struct.Struct("<4s5B7xHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_MAX_PROGRAM_HEADERS = 256
_MAX_SECTIONS = 16384
_PT_LOAD, _PT_NOTE, _PT_GNU_EH_FRAME = 1, 4, 0x6474E550
#: Device, inode, size, time of change.
_IDENTITY = struct.Struct("<QQqq")
#: A note begins with the sizes of its name and its content, and its type.
_NOTE = struct.Struct("<III")
_BUILD_ID, _MAX_NOTES = (3, b"GNU\0"), 4096
_EXECUTABLE = 1


class ElfError(Exception):
    """This is no usable ELF image."""


class Source(Protocol):
    """Where an image's bytes come from."""

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes; fewer at the end, none where nothing can be read."""

    def identity(self) -> bytes:
        """Return what tells the file from all others, as long as it is not changed; empty for what is no file."""

    def close(self) -> None:
        """Give back what it holds."""


class FileSource:
    """An open file; closed with `close`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self, offset: int, size: int) -> bytes:
        try:
            return os.pread(self._fd, size, offset)
        except (OSError, OverflowError, ValueError):
            return b""

    def identity(self) -> bytes:
        found = os.fstat(self._fd)
        return _IDENTITY.pack(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    def close(self) -> None:
        os.close(self._fd)


class BytesSource:
    """An image in memory (the vdso)."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size] if offset >= 0 else b""

    def identity(self) -> bytes:
        return b""

    def close(self) -> None:
        self._data = b""


class Segment(NamedTuple):
    """A PT_LOAD segment: file offset, virtual address, size in the file, may hold code."""

    offset: int
    address: int
    size: int
    executable: bool


class Section(NamedTuple):
    """A section header's fields that symbol tables need."""

    kind: int
    offset: int
    size: int
    link: int


class Image:
    """One ELF image. Addresses are the image's own, before it is moved to where it is loaded.

    Attributes:
        entry: address of the first instruction of a program.
        unwind_header: address of .eh_frame_hdr, or None.

    Raises:
        ElfError: not a little-endian 64-bit image for this machine.
    """

    def __init__(self, source: Source, machine: int) -> None:
        self._source = source
        fields = _unpack(_HEADER, source.read(0, _HEADER.size))
        magic, bits, order, found, self.entry = fields[0], fields[1], fields[2], fields[7], fields[9]
        if (magic, bits, order, found) != (b"\x7fELF", 2, 1, machine):
            raise ElfError("not an ELF image of this machine")
        self._section_headers, self._section_count = fields[11], min(fields[17], _MAX_SECTIONS)
        self.unwind_header: int | None = None
        self._notes: list[tuple[int, int]] = []
        self.segments: tuple[Segment, ...] = self._read_segments(fields[10], min(fields[15], _MAX_PROGRAM_HEADERS))

    def _read_segments(self, offset: int, count: int) -> tuple[Segment, ...]:
        size = _PROGRAM_HEADER.size
        data = self._source.read(offset, count * size)
        segments = []
        whole = data[: len(data) // size * size]
        for kind, flags, start, address, _, length, _, _ in _PROGRAM_HEADER.iter_unpack(whole):
            if kind == _PT_LOAD:
                segments.append(Segment(start, address, length, bool(flags & _EXECUTABLE)))
            elif kind == _PT_NOTE:
                self._notes.append((start, length))
            elif kind == _PT_GNU_EH_FRAME:
                self.unwind_header = address
        return tuple(segments)

    def identity(self) -> bytes:
        """Return what tells the file and its build from all others; empty for what is no file."""
        identity = self._source.identity()
        return identity and identity + self.build_id()

    def build_id(self) -> bytes:
        """Return what the linker calls this build, empty when it says nothing."""
        for start, length in self._notes:
            data = self._source.read(start, min(length, _MAX_NOTES))
            at = 0
            while at + _NOTE.size <= len(data):
                names, size, kind = _NOTE.unpack_from(data, at)
                name = at + _NOTE.size
                content = name + (names + 3 & ~3)
                if (kind, data[name : name + names]) == _BUILD_ID:
                    return data[content : content + size]
                at = content + (size + 3 & ~3)
        return b""

    def close(self) -> None:
        """Give the source back; nothing can be read afterwards."""
        self._source.close()

    def read_file(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at a file offset."""
        return self._source.read(offset, size)

    def read(self, address: int, size: int) -> bytes:
        """Return up to `size` bytes at an address, never across the end of its segment."""
        for segment in self.segments:
            within = address - segment.address
            if 0 <= within < segment.size:
                return self._source.read(segment.offset + within, min(size, segment.size - within))
        return b""

    def code_address(self, offset: int) -> int | None:
        """Return the address of the code at a file offset, None when no code is there."""
        for segment in self.segments:
            if segment.executable and 0 <= offset - segment.offset < segment.size:
                return offset - segment.offset + segment.address
        return None

    def sections(self) -> tuple[Section, ...]:
        """Return the section headers; none in a file without them."""
        size = _SECTION_HEADER.size
        data = self._source.read(self._section_headers, self._section_count * size)
        headers = _SECTION_HEADER.iter_unpack(data[: len(data) // size * size])
        return tuple(Section(header[1], header[4], header[5], header[6]) for header in headers)


def _unpack(layout: struct.Struct, data: bytes) -> tuple[Any, ...]:
    if len(data) < layout.size:
        raise ElfError("truncated")
    return layout.unpack(data)
