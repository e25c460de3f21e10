"""The other architecture: a recorded stack of an aarch64 program with signed return addresses."""

from __future__ import annotations

import struct
from pathlib import Path

from gputop.collectors.native.arch import AARCH64, INTERRUPTED
from gputop.collectors.native.elf import BytesSource, Image
from gputop.collectors.native.modules import Module, Site
from gputop.collectors.native.symbols import Symbols, table_of
from gputop.collectors.native.unwind import Chain, Unwinder

DATA = Path(__file__).parent.parent / "data" / "aarch64"
#: See capture.c: three levels of recursion below a function with a stack of variable size.
CHAIN = ["capture", "inner", "outer", "outer", "outer", "flexible", "program", "_start"]


class Recorded:
    """The program and its stack as recorded: both what the unwinder reads code from, and what it reads words from."""

    def __init__(self) -> None:
        data = (DATA / "stack.bin").read_bytes()
        self.registers: list[int | None] = list(struct.unpack_from("<33Q", data))
        self.stack = data[33 * 8 :]
        self.image = Image(BytesSource((DATA / "program").read_bytes()), AARCH64.elf_machine)
        symbols = Symbols(self.image)
        symbols.install(memoryview(table_of(self.image)))
        self.module = Module("program", self.image, symbols)
        self.base = self.registers[AARCH64.stack_pointer] or 0

    def place(self, address: int) -> Site | None:
        return self.module.site(address) if self.image.read(address, 1) else None

    def follows_call(self, address: int) -> bool:
        return AARCH64.follows_call(self.image.read(address - 4, 4).rjust(4, b"\0"))

    def callee(self, behind: int) -> int | None:
        target = AARCH64.call_target(self.image.read(behind - 4, 4), behind)
        return None if target is None else target[1]

    def word(self, address: int) -> int | None:
        offset = address - self.base
        return int.from_bytes(self.stack[offset : offset + 8], "little") if 0 <= offset <= len(self.stack) - 8 else None


def _names(chain: Chain) -> list[str]:
    return [site.frame().symbol for site in chain.sites]


def test_a_recorded_stack() -> None:
    recorded = Recorded()
    chain = Unwinder(AARCH64).chain(recorded, recorded.registers, recorded)
    assert _names(chain) == CHAIN
    assert chain.complete


def test_the_recording_has_signed_return_addresses() -> None:
    recorded = Recorded()
    words = struct.unpack_from(f"<{len(recorded.stack) // 8}Q", recorded.stack)
    signed = [word for word in words if word >> 48 and recorded.place(word & AARCH64.code_mask)]
    assert len(signed) >= len(CHAIN) - 3


def test_only_stack_pointer_and_counter_are_known_of_a_blocked_thread() -> None:
    recorded = Recorded()
    pointer, counter = recorded.registers[AARCH64.stack_pointer], recorded.registers[AARCH64.program_counter]
    assert pointer is not None
    assert counter is not None
    chain = Unwinder(AARCH64).chain(recorded, AARCH64.blocked_registers(pointer, counter), recorded)
    assert _names(chain) == CHAIN
    assert not chain.complete, "`capture` is a leaf: who called it is told by its caller's caller only"


def test_every_saved_register_is_restored() -> None:
    """`outer` keeps its argument in x19, which the innermost call must not have lost for the outermost."""
    recorded = Recorded()
    registers = recorded.registers
    Unwinder(AARCH64).chain(recorded, registers, recorded)
    assert registers[AARCH64.frame_pointer] == 0, "_start has set it to zero"


def test_a_call_cannot_be_restarted_because_its_first_argument_is_gone() -> None:
    words = [INTERRUPTED, *range(33)]
    assert not AARCH64.restart_system_call(words)
    assert words == [INTERRUPTED, *range(33)]
