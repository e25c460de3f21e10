"""Code objects of another process: which function, file and line an instruction belongs to."""

from __future__ import annotations

import struct
from typing import NamedTuple

from gputop.collectors.native.memory import read_memory
from gputop.collectors.native.python.layout import Layout
from gputop.collectors.native.python.lines import LineTable, entries_3_10, entries_3_11
from gputop.collectors.native.python.words import CodeWords
from gputop.model import Frame
from gputop.text import NAME_LIMIT, printable

#: Code objects remembered for each process; forgotten together when there are more.
_MAX_CODES = 20000
#: Larger tables are not read: that of a function of ten thousand lines is smaller.
_MAX_TABLE_BYTES = 128 << 10
#: `PyASCIIObject.state` from `Layout.text_kind` on: bytes a character, one block with the header, ASCII only.
_KIND, _COMPACT, _ASCII = 7, 1 << 3, 1 << 4
_ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
#: Threads whose copies of a code object are looked through.
_MAX_COPIES = 1024
_WORD = struct.Struct("<Q")
_INT = struct.Struct("<i")


class Types(NamedTuple):
    """Addresses of the types that objects must be of to be believed."""

    code: int
    text: int
    data: int


class _Code(NamedTuple):
    """A code object: what tells it from others in the same place, and what it means."""

    lasting: bytes
    name: str
    file: str
    lines: LineTable
    frames: dict[int, Frame]
    copies: list[int]


class Codes:
    """The code objects of one process. Whatever its memory holds, the worst that comes out is None."""

    def __init__(self, pid: int, layout: Layout, types: Types) -> None:
        self._pid, self._layout, self._types = pid, layout, types
        #: From here on the content never changes; what is before it counts how often the code was run.
        self._lasting = layout.code_first_line - layout.code_span[0]
        self._known: dict[int, _Code] = {}

    def frame(self, seen: CodeWords) -> Frame | None:
        """Return function, file and line; None when that is no code object, or has no such instruction."""
        known = self._known.get(seen.code)
        if known is None or known.lasting != seen.content[self._lasting :]:
            known = self._read(seen.content)
            if known is None:
                return None
            if len(self._known) >= _MAX_CODES:
                self._known.clear()
            self._known[seen.code] = known
        found = _frame(known, self._offset(seen.code, seen.instruction))
        return self._frame_in_copy(known, seen) if found is None and self._layout.code_copies else found

    def _frame_in_copy(self, code: _Code, seen: CodeWords) -> Frame | None:
        """Return the frame of an instruction in one of the copies that free-threaded builds make for each thread."""
        for _ in range(2):
            for copy in code.copies:
                found = _frame(code, seen.instruction - copy)
                if found is not None:
                    return found
            code.copies[:] = self._copies(seen.code)
        return None

    def _copies(self, code: int) -> list[int]:
        """Return where the copies begin (`_PyCodeArray`: their number, then their addresses, 0 for none yet)."""
        array = next(iter(self._words(code + self._layout.code_copies, 1)), 0)
        count = next(iter(self._words(array, 1)), 0)
        return [copy for copy in self._words(array + 8, min(count, _MAX_COPIES)) if copy]

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        """Return words of the target's memory; none where it has no such."""
        content = read_memory(self._pid, address, 8 * count)
        return struct.unpack(f"<{count}Q", content) if len(content) == 8 * count else ()

    def _offset(self, code: int, instruction: int) -> int:
        if not self._layout.native_ids:
            (number,) = _INT.unpack(_WORD.pack(instruction)[: _INT.size])
            return 2 * int(number)
        return instruction - code - self._layout.code_instructions

    def _read(self, content: bytes) -> _Code | None:
        layout, begin = self._layout, self._layout.code_span[0]
        if _word(content, layout.object_type - begin) != self._types.code:
            return None
        name = self._text(_word(content, layout.code_name - begin))
        file = self._text(_word(content, layout.code_file - begin))
        table = self._data(_word(content, layout.code_lines - begin))
        if not name or file is None or not table:
            return None
        entries = entries_3_11 if layout.native_ids else entries_3_10
        first_line = _INT.unpack_from(content, layout.code_first_line - begin)[0]
        return _Code(content[self._lasting :], name, file, LineTable(entries(table, first_line)), {}, [])

    def _text(self, address: int) -> str | None:
        """Return a string, cut where names are cut anyway; None when there is none."""
        layout = self._layout
        end = max(layout.text_length, layout.text_state) + 8
        header = read_memory(self._pid, address, end)
        if len(header) < end or _word(header, layout.object_type) != self._types.text:
            return None
        state = _word(header, layout.text_state) >> layout.text_kind
        width, length = state & _KIND, min(_word(header, layout.text_length), NAME_LIMIT + 1)
        if width not in _ENCODINGS or not state & _COMPACT:
            return None
        behind = layout.ascii_bytes if state & _ASCII else layout.compact_bytes
        data = read_memory(self._pid, address + behind, width * length)
        return printable(data.decode(_ENCODINGS[width], "replace")) if len(data) == width * length else None

    def _data(self, address: int) -> bytes:
        """Return a bytes object's content; nothing when there is none."""
        layout = self._layout
        header = read_memory(self._pid, address, layout.data_size + 8)
        if len(header) < layout.data_size + 8 or _word(header, layout.object_type) != self._types.data:
            return b""
        size = _word(header, layout.data_size)
        return read_memory(self._pid, address + layout.data_bytes, size) if size <= _MAX_TABLE_BYTES else b""


def _word(data: bytes, offset: int) -> int:
    value: int = _WORD.unpack_from(data, offset)[0]
    return value


def _frame(code: _Code, offset: int) -> Frame | None:
    found = code.frames.get(offset)
    if found is None:
        line = code.lines.line(offset)
        if line is None:
            return None
        found = code.frames[offset] = Frame(code.name, code.file, max(line, 0))
    return found
