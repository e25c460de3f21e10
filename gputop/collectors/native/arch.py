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
#: What a system call that was broken off in its sleep returns before the kernel has decided what becomes of it:
#: -ERESTARTSYS, -ERESTARTNOINTR, -ERESTARTNOHAND, -ERESTART_RESTARTBLOCK (include/linux/errno.h).
_BROKEN_OFF = frozenset({INTERRUPTED, *(2**64 - number for number in (512, 513, 514, 516))})


@dataclass(frozen=True, slots=True)
class Arch:
    """One architecture as the unwinder and the tracer see it.

    Attributes:
        name: as `platform.machine` gives it.
        elf_machine: `e_machine` of its ELF files.
        words: 8-byte words in NT_PRSTATUS's register set.
        columns: DWARF register number to word index; the last one is the program counter.
        stack_pointer, frame_pointer, program_counter: DWARF register numbers.
        links: calls leave the return address in a register; what is on the stack is a pair of frame pointer and return
            address, somewhere in the frame. Otherwise it is on the stack, on top of the frame.
        code_mask: bits of a code address; clears pointer authentication codes.
        call_window: bytes before a return address that `follows_call` wants to see.
        follows_call: do these bytes end in a call instruction?
        call_target: what the call that these bytes end in calls, given the address behind it: ("code", address) or, for
            a call through a pointer at a fixed address, ("pointer", address); None when only the processor knows.
        stub_pointer: where a linkage stub (PLT entry) at an address keeps its target, given its first bytes; None when
            this is no stub.
        restart_system_call: changes the registers of a thread that is about to return EINTR so that it issues the
            call again; False when it is not about to.
        asleep: the number of the system call in which the stop found a thread asleep; None when it found it at work, or
            where the registers do not tell.
    """

    name: str
    elf_machine: int
    words: int
    columns: tuple[int, ...]
    stack_pointer: int
    frame_pointer: int
    program_counter: int
    links: bool
    code_mask: int
    call_window: int
    follows_call: Callable[[bytes], bool]
    call_target: Callable[[bytes, int], tuple[str, int] | None]
    stub_pointer: Callable[[bytes, int], int | None]
    restart_system_call: Callable[[list[int]], bool]
    asleep: Callable[[Sequence[int]], int | None]

    def registers(self, words: Sequence[int]) -> list[int | None]:
        """Return the DWARF registers of a register set."""
        return [words[column] for column in self.columns]

    def blocked_registers(self, stack_pointer: int | None, program_counter: int) -> list[int | None]:
        """Return DWARF registers of which only these are known."""
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


def _x86_call_target(before: bytes, behind: int) -> tuple[str, int] | None:
    distance = int.from_bytes(before[-4:], "little", signed=True)
    if before[-5:-4] == b"\xe8":
        return "code", behind + distance
    return ("pointer", behind + distance) if before[-6:-4] == b"\xff\x15" else None


#: An optional `endbr64`, then `jmp *slot(%rip)`, with or without a `bnd` prefix.
_X86_STUB = re.compile(rb"(?:\xf3\x0f\x1e\xfa)?\xf2?\xff\x25(.{4})", re.DOTALL)


def _x86_stub_pointer(code: bytes, address: int) -> int | None:
    match = _X86_STUB.match(code)
    if match is None:
        return None
    return address + match.end() + int.from_bytes(match[1], "little", signed=True)


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


def _x86_asleep(words: Sequence[int]) -> int | None:
    number = words[_X86_ORIG_RAX]
    return number if words[_X86_RAX] in _BROKEN_OFF and not number >> 63 else None


def _arm_follows_call(before: bytes) -> bool:
    """BL, BLR or one of BLRAA…BLRABZ."""
    instruction = int.from_bytes(before[-4:], "little")
    return instruction >> 26 == 0b100101 or instruction & 0xFEFFF000 == 0xD63F0000


def _arm_call_target(before: bytes, behind: int) -> tuple[str, int] | None:
    instruction = int.from_bytes(before[-4:], "little")
    if instruction >> 26 != 0b100101:
        return None
    words = instruction & 0x3FFFFFF
    return "code", behind - 4 + 4 * (words - ((words & 0x2000000) << 1))


def _arm_stub_pointer(code: bytes, address: int) -> int | None:
    """`adrp x16, page; ldr x17, [x16, #offset]`, perhaps behind `bti c`."""
    skip = 4 if code[:4] == b"\x5f\x24\x03\xd5" else 0
    page, load = (int.from_bytes(code[at : at + 4], "little") for at in (skip, skip + 4))
    if page & 0x9F00001F != 0x90000010 or load & 0xFFC003FF != 0xF9400211:
        return None
    pages = (page >> 29 & 3) | (page >> 5 & 0x7FFFF) << 2
    base = ((address + skip) & ~0xFFF) + ((pages - ((pages & 0x100000) << 1)) << 12)
    return base + (load >> 10 & 0xFFF) * 8


def _arm_restart(words: list[int]) -> bool:
    """Cannot be done: the kernel has dropped the first argument (orig_x0) before a tracer sees the registers."""
    return False


def _arm_asleep(words: Sequence[int]) -> int | None:
    """Cannot be told: the kernel has already prepared the call to be made again when a tracer sees the registers."""
    return None


X86_64 = Arch(
    name="x86_64",
    elf_machine=62,
    words=27,
    columns=(10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16),
    stack_pointer=7,
    frame_pointer=6,
    program_counter=16,
    links=False,
    code_mask=2**64 - 1,
    call_window=7,
    follows_call=_x86_follows_call,
    call_target=_x86_call_target,
    stub_pointer=_x86_stub_pointer,
    restart_system_call=_x86_restart,
    asleep=_x86_asleep,
)

AARCH64 = Arch(
    name="aarch64",
    elf_machine=183,
    words=34,
    columns=tuple(range(33)),
    stack_pointer=31,
    frame_pointer=29,
    program_counter=32,
    links=True,
    code_mask=2**48 - 1,
    call_window=4,
    follows_call=_arm_follows_call,
    call_target=_arm_call_target,
    stub_pointer=_arm_stub_pointer,
    restart_system_call=_arm_restart,
    asleep=_arm_asleep,
)


def here() -> Arch | None:
    """Return this machine's architecture, None when native stacks are not supported on it."""
    return {arch.name: arch for arch in (X86_64, AARCH64)}.get(platform.machine())
