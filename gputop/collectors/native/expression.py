"""The part of DWARF's stack machine that call frame information uses (DWARF 5, section 2.5)."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence

from gputop.collectors.native.leb import sleb, uleb

#: A hostile expression may loop by `bra` and `skip`.
_MAX_STEPS = 1000
_MAX_DEPTH = 64
_MASK = 2**64 - 1

_CONSTANTS = {
    0x03: struct.Struct("<Q"),
    0x08: struct.Struct("<B"),
    0x09: struct.Struct("<b"),
    0x0A: struct.Struct("<H"),
    0x0B: struct.Struct("<h"),
    0x0C: struct.Struct("<I"),
    0x0D: struct.Struct("<i"),
    0x0E: struct.Struct("<Q"),
    0x0F: struct.Struct("<q"),
}
_JUMP = struct.Struct("<h")


def _signed(value: int) -> int:
    return value - 2**64 if value >> 63 else value


def _compare(test: Callable[[int, int], bool]) -> Callable[[int, int], int]:
    return lambda left, right: int(test(_signed(left), _signed(right)))


_BINARY: dict[int, Callable[[int, int], int]] = {
    0x1A: operator.and_,
    0x1B: lambda left, right: int(_signed(left) / _signed(right)),
    0x1C: operator.sub,
    0x1D: operator.mod,
    0x1E: operator.mul,
    0x21: operator.or_,
    0x22: operator.add,
    0x24: lambda left, right: left << right if right < 64 else 0,
    0x25: lambda left, right: left >> right if right < 64 else 0,
    0x26: lambda left, right: _signed(left) >> min(right, 63),
    0x27: operator.xor,
    0x29: _compare(operator.eq),
    0x2A: _compare(operator.ge),
    0x2B: _compare(operator.gt),
    0x2C: _compare(operator.le),
    0x2D: _compare(operator.lt),
    0x2E: _compare(operator.ne),
}
_UNARY: dict[int, Callable[[int], int]] = {
    0x19: lambda value: abs(_signed(value)),
    0x1F: operator.neg,
    0x20: operator.invert,
}


class _Machine:
    def __init__(
        self, program: bytes, registers: Sequence[int | None], word: Callable[[int], int | None], stack: list[int]
    ) -> None:
        self._program, self._registers, self._word, self.stack = program, registers, word, stack
        self._position = 0

    def run(self) -> int | None:
        for _ in range(_MAX_STEPS):
            if self._position >= len(self._program):
                return self.stack[-1]
            if not self._step() or len(self.stack) > _MAX_DEPTH:
                return None
        return None

    def _step(self) -> bool:
        """Execute one operation; False when a register or word that it needs is not known."""
        code = self._program[self._position]
        self._position += 1
        if 0x70 <= code <= 0x8F or code == 0x92:
            return self._register(code)
        if code in (0x06, 0x94):
            return self._dereference(code)
        if code in _BINARY:
            right, left = self.stack.pop(), self.stack.pop()
            self.stack.append(_BINARY[code](left, right) & _MASK)
        elif code in _UNARY:
            self.stack.append(_UNARY[code](self.stack.pop()) & _MASK)
        elif 0x28 <= code <= 0x2F:
            self._jump(code)
        elif 0x12 <= code <= 0x17:
            self._shuffle(code)
        elif code != 0x96:
            self.stack.append(self._constant(code) & _MASK)
        return True

    def _register(self, code: int) -> bool:
        number = code - 0x70
        if code == 0x92:
            number, self._position = uleb(self._program, self._position)
        offset, self._position = sleb(self._program, self._position)
        value = self._registers[number]
        if value is None:
            return False
        self.stack.append((value + offset) & _MASK)
        return True

    def _dereference(self, code: int) -> bool:
        size = 8
        if code == 0x94:
            size = self._program[self._position]
            self._position += 1
        address = self.stack.pop()
        value = self._word(address)
        if value is None or not 1 <= size <= 8:
            return False
        self.stack.append(value & (2 ** (8 * size) - 1))
        return True

    def _jump(self, code: int) -> None:
        (distance,) = _JUMP.unpack_from(self._program, self._position)
        self._position += 2
        if code == 0x2F or self.stack.pop():
            self._position += distance
        if self._position < 0:
            raise ValueError("jump out of the expression")

    def _shuffle(self, code: int) -> None:
        stack = self.stack
        if code == 0x12:
            stack.append(stack[-1])
        elif code == 0x13:
            stack.pop()
        elif code == 0x14:
            stack.append(stack[-2])
        elif code == 0x15:
            stack.append(stack[-1 - self._program[self._position]])
            self._position += 1
        elif code == 0x16:
            stack[-1], stack[-2] = stack[-2], stack[-1]
        else:
            stack[-1], stack[-2], stack[-3] = stack[-2], stack[-3], stack[-1]

    def _constant(self, code: int) -> int:
        if 0x30 <= code <= 0x4F:
            return code - 0x30
        if code in _CONSTANTS:
            layout = _CONSTANTS[code]
            (value,) = layout.unpack_from(self._program, self._position)
            self._position += layout.size
            return int(value)
        if code == 0x10:
            value, self._position = uleb(self._program, self._position)
            return value
        if code == 0x11:
            value, self._position = sleb(self._program, self._position)
            return value
        if code == 0x23:
            value, self._position = uleb(self._program, self._position)
            return self.stack.pop() + value
        raise ValueError(f"operation {code:#x}")


def evaluate(
    program: bytes,
    registers: Sequence[int | None],
    word: Callable[[int], int | None],
    initial: int | None = None,
) -> int | None:
    """Run an expression and return the top of its stack.

    Args:
        program: the operations.
        registers: by DWARF number; None where not known.
        word: reads eight bytes of the target's memory; None where not known.
        initial: value on the stack at the start (the CFA, for a register rule).

    Returns:
        The result; None when it needs something unknown, or is corrupt or endless.
    """
    machine = _Machine(program, registers, word, [] if initial is None else [initial])
    try:
        return machine.run()
    except (IndexError, ValueError, struct.error, ZeroDivisionError):
        return None
