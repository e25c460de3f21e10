"""Line tables: from an instruction's offset to its source line.

Formats: Objects/lnotab_notes.txt (3.10) and InternalDocs/locations.md (3.11 and newer) of CPython.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

#: Stands for "no line" in 3.10's table.
_NO_LINE_3_10 = -128
#: Kinds of entries from 3.11 on: the line stays, its distance is in the kind, or follows as a number.
_ON_THE_LINE, _BY_KIND, _NO_LINE = 10, 13, 15
#: Entries begin with a byte that has this bit, their other bytes have it not.
_ENTRY = 0x80
_INSTRUCTION_BYTES = 2


class LineTable:
    """The lines of one code object."""

    def __init__(self, entries: Iterator[tuple[int, int]]) -> None:
        """Take (end of a range of instructions, their line), in order."""
        self._ends: list[int] = []
        self._lines: list[int] = []
        for end, line in entries:
            if self._lines and self._lines[-1] == line:
                self._ends[-1] = end
            else:
                self._ends.append(end)
                self._lines.append(line)

    def line(self, offset: int) -> int | None:
        """Return the line of the instruction at an offset in bytes; None where there is no instruction.

        A frame that has not begun yet is at a negative offset, and on its first line.
        """
        index = bisect_right(self._ends, max(offset, 0))
        return self._lines[index] if index < len(self._lines) and offset >= -_INSTRUCTION_BYTES else None


def entries_3_10(table: bytes, first_line: int) -> Iterator[tuple[int, int]]:
    """Yield the entries of a table as 3.10 has it; instructions without a line are on the line before."""
    line, end = first_line, 0
    for at in range(0, len(table) - 1, 2):
        step = table[at + 1] - 256 if table[at + 1] >= 128 else table[at + 1]
        line += 0 if step == _NO_LINE_3_10 else step
        end += table[at]
        yield end, line


def entries_3_11(table: bytes, first_line: int) -> Iterator[tuple[int, int]]:
    """Yield the entries of a table as 3.11 and newer have it, up to where it makes no sense."""
    line, end, at = first_line, 0, 0
    while at < len(table) and table[at] & _ENTRY:
        kind, count = table[at] >> 3 & 15, (table[at] & 7) + 1
        if _ON_THE_LINE <= kind < _BY_KIND:
            line += kind - _ON_THE_LINE
        elif _BY_KIND <= kind < _NO_LINE:
            line += _signed(table, at + 1)
        end += _INSTRUCTION_BYTES * count
        yield end, line
        at += 1
        while at < len(table) and not table[at] & _ENTRY:
            at += 1


def _signed(table: bytes, at: int) -> int:
    """Return the number at a place: six bits a byte, least first, the lowest of all being the sign."""
    value = shift = 0
    for byte in table[at : at + 6]:
        value |= (byte & 63) << shift
        shift += 6
        if not byte & 64:
            break
    return -(value >> 1) if value & 1 else value >> 1
