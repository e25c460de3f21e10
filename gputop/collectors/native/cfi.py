"""Call frame information: how to get from a function's registers to its caller's, for one program counter.

`.eh_frame_hdr` holds a table sorted by function, so that one binary search and the parse of one entry give the
rule; nothing is read ahead. Formats: Linux Standard Base 5, "Exception Frames"; DWARF 5, section 6.4.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from gputop.collectors.native.elf import Image
from gputop.collectors.native.leb import sleb, uleb

_I32 = struct.Struct("<i")
_PAIR = struct.Struct("<ii")
_LENGTH_AND_ID = struct.Struct("<II")
#: Pointer encodings by their low four bits.
_FORMATS = {0: "<Q", 2: "<H", 3: "<I", 4: "<Q", 9: "", 10: "<h", 11: "<i", 12: "<q"}
_PC_RELATIVE, _APPLICATION = 0x10, 0x70
#: The layout that GNU ld, gold, lld and mold all write: 4-byte pointer, 4-byte count, 4-byte data-relative pairs.
_TABLE_LAYOUT = (1, 0x03, 0x3B)
_POINTER_SIZES = {0x1B: 4, 0x1C: 8, 0x03: 4, 0x0B: 4, 0x3B: 4, 0x10: 8, 0x00: 8, 0x0C: 8}
_MAX_ENTRY = 1 << 16
_MAX_STATES = 64

#: How a register is recovered.
AT_CFA, EXPRESSION, VALUE_EXPRESSION, VALUE_OFFSET, REGISTER, UNDEFINED = range(6)


class Saved(NamedTuple):
    """One register's rule: `how` it is recovered, and the offset or register number, or the expression."""

    how: int
    value: int
    program: bytes = b""


class Rule(NamedTuple):
    """How to unwind from one address.

    Attributes:
        start: first address of the function.
        cfa_register, cfa_offset: the caller's stack pointer is this register plus the offset.
        cfa_program: … or the result of this expression, when it is not empty.
        saved: (register, offset from the CFA) of the registers saved on the stack, but the return address.
        special: the other recoverable registers.
        return_address: its offset from the CFA; None when `special` or a register has it.
        return_register: DWARF register that has the return address where it is not on the stack.
        outermost: the function has no caller.
        signal: the frame was pushed by the kernel; the caller was interrupted, it has not called.
    """

    start: int
    cfa_register: int
    cfa_offset: int
    cfa_program: bytes
    saved: tuple[tuple[int, int], ...]
    special: tuple[tuple[int, Saved], ...]
    return_address: int | None
    return_register: int
    outermost: bool
    signal: bool


class _Common(NamedTuple):
    """A CIE: what the entries of many functions share."""

    code_alignment: int
    data_alignment: int
    return_register: int
    encoding: int
    augmented: bool
    signal: bool
    program: bytes


class FrameTable:
    """The unwind tables of one image."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._header = image.unwind_header or 0
        self._table, self._count = self._find_table()
        self._commons: dict[int, _Common] = {}

    def _find_table(self) -> tuple[int, int]:
        head = self._image.read(self._header, 16) if self._header else b""
        if len(head) < 12 or (head[0], head[2], head[3]) != _TABLE_LAYOUT or head[1] not in _POINTER_SIZES:
            return 0, 0
        position = 4 + _POINTER_SIZES[head[1]]
        return self._header + position + 4, _I32.unpack_from(head, position)[0]

    def rule(self, address: int) -> Rule | None:
        """Return how to unwind from `address`; None where no table says it, or the table is corrupt."""
        try:
            entry = self._entry(address)
            return self._parse(entry, address) if entry is not None else None
        except (IndexError, ValueError, struct.error, KeyError, OverflowError):
            return None

    def _entry(self, address: int) -> int | None:
        """Return the address of the last entry whose function begins at or below `address`."""
        read, header, table = self._image.read, self._header, self._table
        low, high, relative = 0, self._count, address - header
        while low < high:
            middle = (low + high) // 2
            if _I32.unpack(read(table + 8 * middle, 4))[0] <= relative:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return None
        return header + int(_PAIR.unpack(read(table + 8 * (low - 1), 8))[1])

    def _record(self, address: int) -> tuple[bytes, int]:
        """Return a CIE's or FDE's bytes from its length on, and its id field."""
        head = self._image.read(address, 8)
        length, identity = _LENGTH_AND_ID.unpack(head)
        if not 4 <= length <= _MAX_ENTRY:
            raise ValueError("length of a frame entry")
        return self._image.read(address, 4 + length), identity

    def _common(self, address: int) -> _Common:
        found = self._commons.get(address)
        if found is None:
            data, _ = self._record(address)
            found = self._commons[address] = _parse_common(data)
        return found

    def _parse(self, entry: int, address: int) -> Rule | None:
        data, distance = self._record(entry)
        common = self._common(entry + 4 - distance)
        start, position = _pointer(data, 8, common.encoding, entry)
        size, position = _pointer(data, position, common.encoding & 15, 0)
        if not start <= address < start + size:
            return None
        if common.augmented:
            length, position = uleb(data, position)
            position += length
        rows = _Rows(common, start, address)
        rows.run(common.program)
        rows.keep_initial()
        rows.run(data[position:])
        return rows.rule()


def _parse_common(data: bytes) -> _Common:
    end = data.index(0, 9)
    augmentation, position = data[9:end].decode("ascii", "replace"), end + 1
    code, position = uleb(data, position)
    aligned, position = sleb(data, position)
    register, position = uleb(data, position)
    encoding = 0
    if augmentation.startswith("z"):
        length, position = uleb(data, position)
        encoding = _fde_encoding(augmentation, data[position : position + length])
        position += length
    elif augmentation:
        raise ValueError("augmentation")
    return _Common(code, aligned, register, encoding, augmentation[:1] == "z", "S" in augmentation, data[position:])


def _fde_encoding(augmentation: str, data: bytes) -> int:
    position = 0
    for letter in augmentation[1:]:
        if letter == "R":
            return data[position]
        if letter == "L":
            position += 1
        elif letter == "P":
            _, position = _pointer(data, position + 1, data[position] & 15, 0)
    return 0


def _pointer(data: bytes, position: int, encoding: int, address: int) -> tuple[int, int]:
    """Decode an encoded pointer; `address` is where `data` begins, for pc-relative ones."""
    layout = _FORMATS[encoding & 15]
    if not layout:
        value, behind = sleb(data, position)
    else:
        (value,) = struct.unpack_from(layout, data, position)
        behind = position + struct.calcsize(layout)
    application = encoding & _APPLICATION
    if application == _PC_RELATIVE:
        value += address + position
    elif application:
        raise ValueError("pointer encoding")
    return value & (2**64 - 1), behind


class _Rows:
    """The row of the (virtual) unwind table for one address, built by running call frame instructions."""

    def __init__(self, common: _Common, start: int, address: int) -> None:
        self._common, self._start, self._address = common, start, address
        self._location = start
        self._cfa: tuple[int, int, bytes] = (0, 0, b"")
        self._saved: dict[int, Saved] = {}
        self._initial: dict[int, Saved] = {}
        self._states: list[tuple[tuple[int, int, bytes], dict[int, Saved]]] = []

    def keep_initial(self) -> None:
        """Remember the CIE's rules, for DW_CFA_restore."""
        self._initial = dict(self._saved)

    def run(self, program: bytes) -> None:
        """Execute instructions up to the row that holds the address."""
        position = 0
        while position < len(program) and self._location <= self._address:
            code, low = program[position] & 0xC0, program[position] & 0x3F
            position += 1
            if code == 0x40:
                self._location += low * self._common.code_alignment
            elif code == 0x80:
                offset, position = uleb(program, position)
                self._saved[low] = Saved(AT_CFA, offset * self._common.data_alignment)
            elif code == 0xC0:
                self._restore(low)
            else:
                position = self._extended(low, program, position)

    def _restore(self, register: int) -> None:
        if register in self._initial:
            self._saved[register] = self._initial[register]
        else:
            self._saved.pop(register, None)

    def _extended(self, code: int, program: bytes, position: int) -> int:
        if code in (0x00, 0x2D):  # nop; AArch64 negate_ra_state: codes are masked off every address instead
            return position
        if 0x02 <= code <= 0x04:
            size = 1 << (code - 2)
            distance = int.from_bytes(program[position : position + size], "little")
            self._location += distance * self._common.code_alignment
            return position + size
        if code in (0x0A, 0x0B):
            self._stack(code)
            return position
        if 0x0C <= code <= 0x0F or code in (0x12, 0x13):
            return self._define_cfa(code, program, position)
        if code == 0x2E:  # GNU_args_size
            return uleb(program, position)[1]
        return self._define_register(code, program, position)

    def _stack(self, code: int) -> None:
        if code == 0x0A:
            if len(self._states) >= _MAX_STATES:
                raise ValueError("too many remembered states")
            self._states.append((self._cfa, dict(self._saved)))
        else:
            self._cfa, self._saved = self._states.pop()

    def _define_cfa(self, code: int, program: bytes, position: int) -> int:
        register, offset, _ = self._cfa
        if code == 0x0F:
            length, position = uleb(program, position)
            self._cfa = (0, 0, program[position : position + length])
            return position + length
        if code != 0x0E and code != 0x13:
            register, position = uleb(program, position)
        if code in (0x0C, 0x0E):
            offset, position = uleb(program, position)
        elif code in (0x12, 0x13):
            factored, position = sleb(program, position)
            offset = factored * self._common.data_alignment
        self._cfa = (register, offset, b"")
        return position

    def _define_register(self, code: int, program: bytes, position: int) -> int:
        register, position = uleb(program, position)
        if code == 0x06:
            self._restore(register)
        elif code == 0x07:
            self._saved[register] = Saved(UNDEFINED, 0)
        elif code == 0x08:
            self._saved.pop(register, None)
        elif code == 0x09:
            other, position = uleb(program, position)
            self._saved[register] = Saved(REGISTER, other)
        elif code in (0x10, 0x16):
            length, position = uleb(program, position)
            how = EXPRESSION if code == 0x10 else VALUE_EXPRESSION
            self._saved[register] = Saved(how, 0, program[position : position + length])
            position += length
        elif code in (0x05, 0x11, 0x14, 0x15, 0x2F):
            offset, position = (sleb if code in (0x11, 0x15) else uleb)(program, position)
            offset *= -self._common.data_alignment if code == 0x2F else self._common.data_alignment
            self._saved[register] = Saved(VALUE_OFFSET if code in (0x14, 0x15) else AT_CFA, offset)
        else:
            raise ValueError(f"call frame instruction {code:#x}")
        return position

    def rule(self) -> Rule:
        """Return the row reached, as a rule."""
        column = self._common.return_register
        back = self._saved.pop(column, None)
        plain = tuple((number, saved.value) for number, saved in self._saved.items() if saved.how == AT_CFA)
        special = [item for item in self._saved.items() if item[1].how != AT_CFA]
        if back is not None and back.how not in (AT_CFA, UNDEFINED):
            special.append((column, back))
        return Rule(
            start=self._start,
            cfa_register=self._cfa[0],
            cfa_offset=self._cfa[1],
            cfa_program=self._cfa[2],
            saved=plain,
            special=tuple(special),
            return_address=back.value if back is not None and back.how == AT_CFA else None,
            return_register=column,
            outermost=back is not None and back.how == UNDEFINED,
            signal=self._common.signal,
        )
