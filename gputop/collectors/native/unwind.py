"""Call chains from registers and a copy of the stack, by the modules' own unwind tables.

Where a module has none (JIT code, hand-written assembly) the frame pointer helps, then the first word of the stack
that points behind a call instruction; a chain that needed either is not complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gputop.collectors.native import cfi
from gputop.collectors.native.arch import Arch
from gputop.collectors.native.expression import evaluate
from gputop.collectors.native.memory import StackCopy
from gputop.collectors.native.modules import Site
from gputop.collectors.native.space import AddressSpace

#: Frames kept of one chain; deeper ones are cut, and not complete.
MAX_FRAMES = 1024
#: Words of the stack looked through for a return address.
_SCAN_WORDS = 1024
_FRAME_WORDS = 4096

Registers = list[int | None]


class Chain(NamedTuple):
    """Places from the leaf outwards, and whether the last one is the thread's start, reached by tables alone."""

    sites: tuple[Site, ...]
    complete: bool


class Unwinder:
    """Walks one stack after the other."""

    def __init__(self, arch: Arch) -> None:
        self._arch = arch

    def chain(self, space: AddressSpace, registers: Registers, stack: StackCopy) -> Chain:
        """Walk one stack.

        Args:
            space: the process's code.
            registers: by DWARF number, None where not known; changed by the walk.
            stack: the stack from its pointer up.
        """
        counter, mask = self._arch.program_counter, self._arch.code_mask
        sites: list[Site] = []
        exact = interrupted = True
        while len(sites) < MAX_FRAMES:
            address = (registers[counter] or 0) & mask
            where = address if interrupted else address - 1
            site = space.place(where)
            if site is None:
                break
            sites.append(site)
            rule = site.rule
            if site.outermost:
                return Chain(tuple(sites), exact)
            interrupted = rule is not None and rule.signal
            if rule is not None and self._base_is_lost(rule, registers):
                function = where - site.address + rule.start
                exact = self._find_base(space, rule, registers, stack, function) and exact
            if rule is None or not self._step(rule, registers, stack):
                exact = False
                if not self._guess(space, registers, stack, leaf=len(sites) == 1):
                    break
            elif not registers[counter]:
                return Chain(tuple(sites), exact)
        return Chain(tuple(sites), False)

    def _step(self, rule: cfi.Rule, registers: Registers, stack: StackCopy) -> bool:
        """Change the registers to the caller's; False (and unchanged) when something needed is not known."""
        if rule.cfa_program:
            cfa = evaluate(rule.cfa_program, registers, stack.word)
        else:
            value = registers[rule.cfa_register] if rule.cfa_register < len(registers) else None
            cfa = None if value is None else value + rule.cfa_offset
        pointer = registers[self._arch.stack_pointer]
        if cfa is None or (pointer is not None and cfa < pointer and not rule.signal):
            return False
        special = _recover(rule, registers, stack, cfa) if rule.special else []
        back = self._return_address(rule, registers, stack, cfa, special)
        if back is None or (cfa == pointer and back == registers[self._arch.program_counter]):
            return False
        for number, offset in rule.saved:
            if number < len(registers):
                registers[number] = stack.word(cfa + offset)
        registers[self._arch.stack_pointer] = cfa
        for number, value in special:
            if number < len(registers):
                registers[number] = value
        registers[self._arch.program_counter] = back
        return True

    def _base_is_lost(self, rule: cfi.Rule, registers: Registers) -> bool:
        """Does the rule need a register that is not known? /proc gives no frame pointers of blocked threads."""
        if rule.cfa_program or rule.cfa_register >= len(registers) or rule.return_address is None:
            return False
        return registers[rule.cfa_register] is None

    def _find_base(
        self, space: AddressSpace, rule: cfi.Rule, registers: Registers, stack: StackCopy, function: int
    ) -> bool:
        """Find the frame of a function whose base register is lost, by the return address of the call that called it.

        Returns:
            Whether the frame found is certain. Where only indirect calls could have called the function, the first
            of them is taken, which may be a left-over of an earlier call.
        """
        perhaps = None
        for address, word in self._returns(space, registers, stack, _FRAME_WORDS):
            called = space.calls(word, function)
            if called:
                self._set_base(rule, registers, address)
                return True
            if called is None and perhaps is None:
                perhaps = address
        if perhaps is not None:
            self._set_base(rule, registers, perhaps)
        return False

    def _set_base(self, rule: cfi.Rule, registers: Registers, address: int) -> None:
        """Set the register that a rule needs so that the return address is found at this address."""
        registers[rule.cfa_register] = address - (rule.return_address or 0) - rule.cfa_offset

    def _returns(
        self, space: AddressSpace, registers: Registers, stack: StackCopy, words: int
    ) -> Iterator[tuple[int, int]]:
        """Yield (where, what) of the words on the stack that point behind a call instruction, from its pointer up."""
        pointer = registers[self._arch.stack_pointer]
        if pointer is None:
            return
        for address in range(pointer, pointer + 8 * words, 8):
            word = stack.word(address)
            if word is None:
                return
            if self._is_call(space, word):
                yield address, word & self._arch.code_mask

    def _return_address(
        self, rule: cfi.Rule, registers: Registers, stack: StackCopy, cfa: int, special: list[tuple[int, int | None]]
    ) -> int | None:
        if rule.return_address is not None:
            return stack.word(cfa + rule.return_address)
        for number, value in special:
            if number == rule.return_register:
                return value
        if rule.return_register >= len(registers) or rule.return_register == self._arch.program_counter:
            return None
        return registers[rule.return_register]

    def _guess(self, space: AddressSpace, registers: Registers, stack: StackCopy, leaf: bool) -> bool:
        """Find the caller without a table; False when nothing on the stack looks like one.

        A leaf often makes no frame: its return address is where the stack pointer points.
        """
        return (
            (leaf and self._by_scan(space, registers, stack, 1))
            or self._by_frame_pointer(space, registers, stack)
            or self._by_scan(space, registers, stack, _SCAN_WORDS)
        )

    def _by_frame_pointer(self, space: AddressSpace, registers: Registers, stack: StackCopy) -> bool:
        frame, pointer = registers[self._arch.frame_pointer], registers[self._arch.stack_pointer]
        if frame is None or pointer is None or frame & 7 or not stack.base <= pointer <= frame:
            return False
        outer, back = stack.word(frame), stack.word(frame + 8)
        if back is None or outer is None or not (outer > frame or outer == 0) or not self._is_call(space, back):
            return False
        self._enter(registers, back, frame + 16, outer)
        return True

    def _by_scan(self, space: AddressSpace, registers: Registers, stack: StackCopy, words: int) -> bool:
        for address, word in self._returns(space, registers, stack, words):
            self._enter(registers, word, address + 8, registers[self._arch.frame_pointer])
            return True
        return False

    def _is_call(self, space: AddressSpace, word: int) -> bool:
        return word > 4096 and space.follows_call(word & self._arch.code_mask)

    def _enter(self, registers: Registers, counter: int, pointer: int, frame: int | None) -> None:
        registers[:] = self._arch.blocked_registers(pointer, counter)
        registers[self._arch.frame_pointer] = frame


def _recover(rule: cfi.Rule, registers: Registers, stack: StackCopy, cfa: int) -> list[tuple[int, int | None]]:
    """Return the registers that are not simply saved at an offset from the CFA."""
    return [(number, _value(saved, registers, stack, cfa)) for number, saved in rule.special]


def _value(saved: cfi.Saved, registers: Registers, stack: StackCopy, cfa: int) -> int | None:
    if saved.how == cfi.VALUE_OFFSET:
        return cfa + saved.value
    if saved.how == cfi.REGISTER:
        return registers[saved.value] if saved.value < len(registers) else None
    if saved.how == cfi.UNDEFINED:
        return None
    result = evaluate(saved.program, registers, stack.word, cfa)
    return stack.word(result) if result is not None and saved.how == cfi.EXPRESSION else result
