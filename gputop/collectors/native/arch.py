"""What differs between processor architectures: register layouts, call instructions, restarting a system call.

Sources: System V AMD64 psABI 3.36 (DWARF register numbers), DWARF for the Arm 64-bit Architecture (AADWARF64),
`struct user_regs_struct` and `struct user_pt_regs` of the Linux UAPI headers.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: -EINTR as an unsigned register value.
INTERRUPTED = 2**64 - 4


@dataclass(frozen=True, slots=True)
class Arch:
    """One architecture as the unwinder and the tracer see it.

    Attributes:
        name: as `platform.machine` gives it.
        elf_machine: `e_machine` of its ELF files.
        words: 8-byte words in NT_PRSTATUS's register set.
        columns: DWARF register number to word index; the last one is the program counter.
        stack_pointer, frame_pointer, program_counter: DWARF register numbers.
        return_above_frame: a frame pointer points to the saved frame pointer, this many bytes below the return address.
        code_mask: bits of a code address; clears pointer authentication codes.
        call_window: bytes before a return address that `follows_call` wants to see.
        follows_call: do these bytes end in a call instruction?
        restart_system_call: changes the registers of a thread that is about to return EINTR so that it issues the
            call again; False when it is not about to.
    """

    name: str
    elf_machine: int
    words: int
    columns: tuple[int, ...]
    stack_pointer: int
    frame_pointer: int
    program_counter: int
    code_mask: int
    call_window: int
    follows_call: Callable[[bytes], bool]
    restart_system_call: Callable[[list[int]], bool]

    def registers(self, words: Sequence[int]) -> list[int | None]:
        """Return the DWARF registers of a register set."""
        return [words[column] for column in self.columns]

    def blocked_registers(self, stack_pointer: int, program_counter: int) -> list[int | None]:
        """Return DWARF registers of which only these two are known."""
        registers: list[int | None] = [None] * len(self.columns)
        registers[self.stack_pointer] = stack_pointer
        registers[self.program_counter] = program_counter
        return registers


#: `call rel32`; or `call r/m64` (FF /2) with each length that its addressing modes give it.
_X86_CALL = re.compile(
    rb".*(?:\xe8.{4}|\xff(?:[\xd0-\xd7]|[\x10-\x13\x16\x17]|[\x50-\x53\x55-\x57].|\x14.|\x54..|\x15.{4}"
    rb"|[\x90-\x93\x95-\x97].{4}|\x94.{5}))",
    re.DOTALL,
)
_X86_RAX, _X86_ORIG_RAX, _X86_RIP = 10, 15, 16
_X86_CLOSE = 3


def _x86_follows_call(before: bytes) -> bool:
    return _X86_CALL.fullmatch(before) is not None


def _x86_restart(words: list[int]) -> bool:
    """Do what the kernel does for ERESTARTNOHAND: number back into rax, back over `syscall`, no call in progress.

    Never for close(): it has given the descriptor away already.
    """
    number = words[_X86_ORIG_RAX]
    if words[_X86_RAX] != INTERRUPTED or number >> 63 or number == _X86_CLOSE:
        return False
    words[_X86_RAX] = number
    words[_X86_RIP] -= 2
    words[_X86_ORIG_RAX] = 2**64 - 1
    return True


def _arm_follows_call(before: bytes) -> bool:
    """BL, BLR or one of BLRAA…BLRABZ."""
    instruction = int.from_bytes(before[-4:], "little")
    return instruction >> 26 == 0b100101 or instruction & 0xFEFFF000 == 0xD63F0000


def _arm_restart(words: list[int]) -> bool:
    """Cannot be done: the kernel has dropped the first argument (orig_x0) before a tracer sees the registers."""
    return False


X86_64 = Arch(
    name="x86_64",
    elf_machine=62,
    words=27,
    columns=(10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16),
    stack_pointer=7,
    frame_pointer=6,
    program_counter=16,
    code_mask=2**64 - 1,
    call_window=7,
    follows_call=_x86_follows_call,
    restart_system_call=_x86_restart,
)

AARCH64 = Arch(
    name="aarch64",
    elf_machine=183,
    words=34,
    columns=tuple(range(33)),
    stack_pointer=31,
    frame_pointer=29,
    program_counter=32,
    code_mask=2**48 - 1,
    call_window=4,
    follows_call=_arm_follows_call,
    restart_system_call=_arm_restart,
)


def here() -> Arch | None:
    """Return this machine's architecture, None when native stacks are not supported on it."""
    return {arch.name: arch for arch in (X86_64, AARCH64)}.get(platform.machine())
