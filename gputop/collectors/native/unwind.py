"""Call chains from registers and a copy of the stack, by the modules' own unwind tables.

Where a module has none (JIT code, hand-written assembly) the frame pointer helps, then the first word of the stack
that points behind a call instruction; a chain that needed either is not complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from gputop.collectors.native import cfi
from gputop.collectors.native.arch import Arch
from gputop.collectors.native.expression import evaluate
from gputop.collectors.native.modules import Site

#: Frames kept of one chain; deeper ones are cut, and not complete.
MAX_FRAMES = 1024
#: Words of the stack looked through for a return address.
_SCAN_WORDS = 1024
_FRAME_WORDS = 4096

Registers = list[int | None]


class Code(Protocol):
    """What the unwinder asks of an address space (`space.AddressSpace`)."""

    def place(self, address: int) -> Site | None:
        """Return the place of a code address; None where no code is mapped."""

    def follows_call(self, address: int) -> bool:
        """Is there code at the address, right behind a call instruction?"""

    def callee(self, behind: int) -> int | None:
        """Return the function that the call before an address calls; None when only the processor can tell."""


class Stack(Protocol):
    """What the unwinder asks of a stack (`memory.StackCopy`)."""

    @property
    def base(self) -> int:
        """Address of its first word."""

    def word(self, address: int) -> int | None:
        """Return the word at an address, None where it is not known."""


class Chain(NamedTuple):
    """Places from the leaf outwards.

    Attributes:
        sites: the places.
        complete: the last one is the thread's start, reached by tables alone.
        lost: it ends at an address where no code is known (yet: the maps may be old).
    """

    sites: tuple[Site, ...]
    complete: bool
    lost: bool = False


class Unwinder:
    """Walks one stack after the other."""

    def __init__(self, arch: Arch) -> None:
        self._arch = arch

    def chain(self, space: Code, registers: Registers, stack: Stack) -> Chain:
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
                return Chain(tuple(sites), complete=False, lost=True)
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
                sites += self._skipped(space, registers, where - site.address + rule.start if rule else 0)
            elif not registers[counter]:
                return Chain(tuple(sites), exact)
        return Chain(tuple(sites), complete=False)

    def _step(self, rule: cfi.Rule, registers: Registers, stack: Stack) -> bool:
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

    def _find_base(self, space: Code, rule: cfi.Rule, registers: Registers, stack: Stack, function: int) -> bool:
        """Find the frame of a function whose base register is lost, by the return address of the call that called it.

        Returns:
            Whether the frame found is certain. Where only indirect calls could have called the function, the first
            of them is taken, which may be a left-over of an earlier call.
        """
        frame, offset = registers[self._arch.frame_pointer], dict(rule.saved).get(self._arch.frame_pointer)
        if self._arch.links and frame is not None and offset is not None:
            registers[rule.cfa_register] = frame - offset - rule.cfa_offset
            return True
        perhaps = None
        for address, word in self._returns(space, registers, stack, _FRAME_WORDS):
            called = space.callee(word)
            if called == function:
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

    def _skipped(self, space: Code, registers: Registers, function: int) -> tuple[Site, ...]:
        """Return the caller of a leaf whose return address was only in a register, which is lost.

        What was found on the stack is where that caller returns to; the call there says who it is.
        """
        called = space.callee(registers[self._arch.program_counter] or 0) if self._arch.links else None
        site = space.place(called) if called is not None and called != function else None
        return () if site is None else (site,)

    def _returns(self, space: Code, registers: Registers, stack: Stack, words: int) -> Iterator[tuple[int, int]]:
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
        self, rule: cfi.Rule, registers: Registers, stack: Stack, cfa: int, special: list[tuple[int, int | None]]
    ) -> int | None:
        if rule.return_address is not None:
            return stack.word(cfa + rule.return_address)
        for number, value in special:
            if number == rule.return_register:
                return value
        if rule.return_register >= len(registers) or rule.return_register == self._arch.program_counter:
            return None
        return registers[rule.return_register]

    def _guess(self, space: Code, registers: Registers, stack: Stack, leaf: bool) -> bool:
        """Find the caller without a table; False when nothing on the stack looks like one.

        A leaf often makes no frame: its return address is where the stack pointer points.
        """
        return (
            (leaf and self._by_scan(space, registers, stack, 1))
            or self._by_frame_pointer(space, registers, stack)
            or self._by_scan(space, registers, stack, _SCAN_WORDS)
        )

    def _by_frame_pointer(self, space: Code, registers: Registers, stack: Stack) -> bool:
        frame, pointer = registers[self._arch.frame_pointer], registers[self._arch.stack_pointer]
        if frame is None or frame & 7 or not max(stack.base, pointer or 0) <= frame:
            return False
        outer, back = stack.word(frame), stack.word(frame + 8)
        if back is None or outer is None or not (outer > frame or outer == 0) or not self._is_call(space, back):
            return False
        self._enter(registers, back, None if self._arch.links else frame + 16, outer)
        return True

    def _by_scan(self, space: Code, registers: Registers, stack: Stack, words: int) -> bool:
        for address, word in self._returns(space, registers, stack, words):
            if self._arch.links:
                self._enter(registers, word, None, stack.word(address - 8))
            else:
                self._enter(registers, word, address + 8, registers[self._arch.frame_pointer])
            return True
        return False

    def _is_call(self, space: Code, word: int) -> bool:
        return word > 4096 and space.follows_call(word & self._arch.code_mask)

    def _enter(self, registers: Registers, counter: int, pointer: int | None, frame: int | None) -> None:
        registers[:] = self._arch.blocked_registers(pointer, counter)
        registers[self._arch.frame_pointer] = frame


def _recover(rule: cfi.Rule, registers: Registers, stack: Stack, cfa: int) -> list[tuple[int, int | None]]:
    """Return the registers that are not simply saved at an offset from the CFA."""
    return [(number, _value(saved, registers, stack, cfa)) for number, saved in rule.special]


def _value(saved: cfi.Saved, registers: Registers, stack: Stack, cfa: int) -> int | None:
    if saved.how == cfi.VALUE_OFFSET:
        return cfa + saved.value
    if saved.how == cfi.REGISTER:
        return registers[saved.value] if saved.value < len(registers) else None
    if saved.how == cfi.UNDEFINED:
        return None
    result = evaluate(saved.program, registers, stack.word, cfa)
    return stack.word(result) if result is not None and saved.how == cfi.EXPRESSION else result
