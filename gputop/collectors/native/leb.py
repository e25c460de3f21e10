"""LEB128, the variable-length integers of DWARF (DWARF 5, section 7.6)."""

from __future__ import annotations

#: Longest encoding of a 64-bit number; a longer one is corrupt.
_MAX_BYTES = 10


def uleb(data: bytes, position: int) -> tuple[int, int]:
    """Return the unsigned number at `position` and the position behind it.

    Raises:
        IndexError: the data ends within it.
        ValueError: longer than a 64-bit number can be.
    """
    value, _, position = _bits(data, position)
    return value, position


def sleb(data: bytes, position: int) -> tuple[int, int]:
    """Return the signed number at `position` and the position behind it; raises as `uleb` does."""
    value, width, position = _bits(data, position)
    if value >> (width - 1):
        value -= 1 << width
    return value, position


def _bits(data: bytes, position: int) -> tuple[int, int, int]:
    value = width = 0
    for _ in range(_MAX_BYTES):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << width
        width += 7
        if byte < 0x80:
            return value, width, position
    raise ValueError("LEB128 too long")
