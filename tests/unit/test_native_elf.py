"""ELF files, unwind tables and symbols: known ones, and every way of being corrupt."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.collectors.native.arch import AARCH64, X86_64, here
from gputop.collectors.native.cfi import FrameTable
from gputop.collectors.native.elf import BytesSource, ElfError, FileSource, Image, Section
from gputop.collectors.native.expression import evaluate
from gputop.collectors.native.leb import sleb, uleb
from gputop.collectors.native.modules import Mapping, ModuleTable
from gputop.collectors.native.symbols import SymbolReader, Symbols, table_of
from tests.unit.native_tools import compiled, needs_gcc

pytestmark = needs_gcc

#: An image that is damaged may take this long; anything endless takes for ever.
PATIENCE_S = 5.0


def _machine() -> int:
    arch = here()
    if arch is None:
        pytest.skip("native stacks are not supported on this processor")
    return arch.elf_machine


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return Path(compiled(tmp_path_factory.mktemp("elf"), "chains")).read_bytes()


def _symbols(data: bytes) -> Symbols:
    image = Image(BytesSource(data), _machine())
    symbols = Symbols(image)
    symbols.install(memoryview(table_of(image)))
    return symbols


def test_symbols_are_those_of_nm(program: bytes, tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(program)
    listed = subprocess.run(["nm", "-S", str(path)], capture_output=True, text=True, check=True).stdout
    symbols = _symbols(program)
    functions = re.findall(r"^([0-9a-f]{16}) ([0-9a-f]{16}) [Tt] (\S+)$", listed, re.MULTILINE)
    assert len(functions) > 10
    for start, size, name in functions:
        assert symbols.name(int(start, 16)) == name
        assert symbols.name(int(start, 16) + int(size, 16) - 1) == name
    assert symbols.name(0) == ""
    assert symbols.name(2**63) == ""


def test_an_address_behind_the_last_byte_of_a_function_has_no_name(program: bytes) -> None:
    symbols = _symbols(program)
    image = Image(BytesSource(program), _machine())
    code = next(segment for segment in image.segments if segment.executable)
    named = [symbols.name(address) for address in range(code.address, code.address + code.size)]
    assert "" in named, "padding between functions belongs to none"
    assert "main" in named


def test_every_rule_of_a_program_is_found(program: bytes, tmp_path: Path) -> None:
    """`readelf` lists the functions that have an entry; each address of theirs has a rule, from its own function."""
    path = tmp_path / "program"
    path.write_bytes(program)
    listed = subprocess.run(["readelf", "-wF", str(path)], capture_output=True, text=True, check=True).stdout
    ranges = re.findall(r"FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", listed)
    assert len(ranges) > 10
    frames = FrameTable(Image(BytesSource(program), _machine()))
    for start, end in ((int(start, 16), int(end, 16)) for start, end in ranges):
        for address in range(start, end):
            rule = frames.rule(address)
            assert rule is not None
            assert rule.start == start


def test_rules_are_those_of_readelf(program: bytes, tmp_path: Path) -> None:
    if here() is not X86_64:
        pytest.skip("register names of x86-64")
    path = tmp_path / "program"
    path.write_bytes(program)
    listed = subprocess.run(["readelf", "-wF", str(path)], capture_output=True, text=True, check=True).stdout
    frames = FrameTable(Image(BytesSource(program), _machine()))
    end, compared = 0, 0
    for line in listed.splitlines():
        if entry := re.search(r"FDE .*pc=[0-9a-f]+\.\.([0-9a-f]+)", line):
            end = int(entry[1], 16)
        elif " CIE " in line:
            end = 0
        row = re.match(r"([0-9a-f]{16}) r(sp|bp)\+(\d+) ", line)
        if row and int(row[1], 16) < end:
            rule = frames.rule(int(row[1], 16))
            assert rule is not None
            assert (rule.cfa_register, rule.cfa_offset) == ({"sp": 7, "bp": 6}[row[2]], int(row[3]))
            compared += 1
    assert compared > 30


def _use(data: bytes) -> None:
    """Do with an image all that is done with images."""
    started = time.monotonic()
    try:
        image = Image(BytesSource(data), _machine())
    except ElfError:
        return
    frames = FrameTable(image)
    for address in range(0x1000, 0x2000, 16):
        rule = frames.rule(address)
        if rule is not None and rule.cfa_program:
            evaluate(rule.cfa_program, [1] * 17, lambda at: at)
    symbols = Symbols(image)
    symbols.install(memoryview(table_of(image)))
    for address in range(0x1000, 0x2000, 64):
        symbols.name(address)
    assert time.monotonic() - started < PATIENCE_S


def test_an_image_cut_anywhere_is_no_trouble(program: bytes) -> None:
    for size in [*range(128), *range(128, len(program), len(program) // 60)]:
        _use(program[:size])


def test_damaged_bytes_are_no_trouble(program: bytes) -> None:
    chance = random.Random(7)
    for _ in range(150):
        damaged = bytearray(program)
        for _ in range(chance.choice((1, 10, 300))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        _use(bytes(damaged))


@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"\x80"])
def test_damaged_tables_are_no_trouble(program: bytes, filler: bytes) -> None:
    """Whole sections are overwritten: headers say one thing, contents another."""
    image = Image(BytesSource(program), _machine())
    header = image.unwind_header
    assert header is not None
    for offset in (64, header, header + 12, header + 200):
        _use(program[:offset] + filler * 400 + program[offset + 400 :])


@given(st.binary(max_size=200), st.integers(0, 2**64 - 1))
@settings(max_examples=300, deadline=None)
def test_any_expression_ends(code: bytes, value: int) -> None:
    result = evaluate(code, [value] * 17, lambda address: address ^ value, value)
    assert result is None or isinstance(result, int)


@given(st.integers(0, 2**64 - 1))
def test_leb128_reads_what_the_standard_writes(value: int) -> None:
    encoded, rest = bytearray(), value
    while True:
        encoded.append(rest & 0x7F | (0x80 if rest > 0x7F else 0))
        rest >>= 7
        if not rest:
            break
    assert uleb(bytes(encoded), 0) == (value, len(encoded))


@pytest.mark.parametrize(("data", "value"), [(b"\x02", 2), (b"\x7e", -2), (b"\xff\x00", 127), (b"\x80\x7f", -128)])
def test_signed_leb128(data: bytes, value: int) -> None:
    assert sleb(data, 0) == (value, len(data))


def test_endless_leb128_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        uleb(b"\x80" * 1000, 0)


def test_the_expression_of_linkage_stubs() -> None:
    """The one that every PLT has: rsp + 8 + ((rip & 15) >= 11) << 3."""
    program = bytes.fromhex("7708 8000 3f1a 3b2a 33 24 22".replace(" ", ""))
    registers: list[int | None] = [None] * 17
    registers[7], registers[16] = 0x1000, 0x400A
    assert evaluate(program, registers, lambda address: None) == 0x1008
    registers[16] = 0x400B
    assert evaluate(program, registers, lambda address: None) == 0x1010


def test_calls_are_told_from_other_instructions() -> None:
    calls = [
        "e8 11223344",
        "ff d0",
        "41 ff d3",
        "ff 15 11223344",
        "ff 50 10",
        "ff 90 11223344",
        "ff 14 c8",
        "41 ff 54 24 08",
    ]
    others = ["90 90 90 90 90", "48 89 e5", "0f 05", "c3", "e9 11223344", "ff 25 11223344", "ff e0"]
    for text in calls:
        assert X86_64.follows_call(bytes.fromhex(text).rjust(7, b"\x90")), text
    for text in others:
        assert not X86_64.follows_call(bytes.fromhex(text).rjust(7, b"\x90")), text
    for word in (0x94000010, 0xD63F0100, 0xD73F0811):
        assert AARCH64.follows_call(word.to_bytes(4, "little"))
    for word in (0x14000010, 0xD65F03C0, 0xD61F0100):
        assert not AARCH64.follows_call(word.to_bytes(4, "little"))


def test_targets_of_calls() -> None:
    assert X86_64.call_target(b"\x90\x90\xe8" + struct.pack("<i", -16), 0x1000) == ("code", 0xFF0)
    assert X86_64.call_target(b"\x90\xff\x15" + struct.pack("<i", 0x20), 0x1000) == ("pointer", 0x1020)
    assert X86_64.call_target(b"\x90\x90\x90\x90\x41\xff\xd3", 0x1000) is None
    assert X86_64.stub_pointer(bytes.fromhex("f30f1efaf2ff2510000000"), 0x1000) == 0x101B
    assert X86_64.stub_pointer(b"\x55\x48\x89\xe5" * 4, 0x1000) is None
    assert AARCH64.call_target((0x97FFFFFC).to_bytes(4, "little"), 0x1004) == ("code", 0xFF0)
    stub = (0xB0000010).to_bytes(4, "little") + (0xF9400A11).to_bytes(4, "little")
    assert AARCH64.stub_pointer(stub, 0x400010) == 0x401010


@pytest.fixture
def biggest_library() -> Path:
    """The biggest library here: torch's, else the biggest that this interpreter has loaded."""
    torch = Path(sysconfig.get_paths()["purelib"]) / "torch" / "lib" / "libtorch_cpu.so"
    mapped = {Path(line.split()[-1]) for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
    return torch if torch.exists() else max(mapped, key=lambda path: path.stat().st_size)


def test_symbols_are_read_without_holding_anything_up(biggest_library: Path) -> None:
    with open(biggest_library, "rb") as file:
        symbols = Symbols(Image(FileSource(file.fileno()), _machine()))
        reader, longest = SymbolReader(), 0.0
        deadline = time.monotonic() + 60
        reader.read([symbols])
        while reader.child:
            assert time.monotonic() < deadline
            started = time.monotonic()
            reader.poll()
            longest = max(longest, time.monotonic() - started)
            time.sleep(0.01)
        assert symbols.ready
        assert symbols.name(symbols._addresses[0]) != ""
        assert len(symbols._addresses) > 1000
    assert longest < 0.05


class Deadly(Image):
    """An image that kills whoever reads its symbols."""

    def sections(self) -> tuple[Section, ...]:
        os.kill(os.getpid(), signal.SIGKILL)
        return ()


def _read(reader: SymbolReader, tables: list[Symbols]) -> None:
    reader.read(tables)
    deadline = time.monotonic() + 20
    while reader.child:
        assert time.monotonic() < deadline
        reader.poll()
        time.sleep(0.005)


def test_a_hostile_file_takes_down_its_reader_and_no_other_table(program: bytes) -> None:
    first, last = (Symbols(Image(BytesSource(program), _machine())) for _ in range(2))
    hostile = Symbols(Deadly(BytesSource(program), _machine()))
    reader = SymbolReader()
    _read(reader, [first, hostile, last])
    assert (first.ready, hostile.ready, last.ready) == (True, True, False)
    assert hostile.name(hostile.image.entry) == ""
    _read(reader, [last])
    assert first.name(first.image.entry) == last.name(last.image.entry) == "_start"


def test_a_reader_that_is_closed_leaves_no_child(biggest_library: Path) -> None:
    with open(biggest_library, "rb") as file:
        reader = SymbolReader()
        reader.read([Symbols(Image(FileSource(file.fileno()), _machine()))])
        child = reader.child
        reader.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def _mapping(path: Path) -> Mapping:
    found = path.stat()
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    return Mapping(0x1000, 0x2000, "r-xp", 0, device, found.st_ino, str(path))


def test_another_file_of_the_same_path_is_not_taken_for_the_mapped_one(program: bytes, tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(program)
    mapping = _mapping(path)
    table = ModuleTable(_machine())
    assert table.open(os.getpid(), mapping, b"").image is not None
    path.unlink()
    path.write_bytes(program[:64] + b"\1" + program[65:])
    shutil.copy(path, tmp_path / "other")
    moved = mapping._replace(inode=mapping.inode + 10**9)
    assert table.open(os.getpid(), moved, program[:4096]).image is None
    assert table.open(os.getpid(), moved, path.read_bytes()[:4096]).image is not None
    table.close()


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    table = ModuleTable(_machine())
    for path in (fifo, Path("/dev/null"), tmp_path, tmp_path / "absent", Path("/dev/zero")):
        mapping = Mapping(0x1000, 0x2000, "r-xp", 0, "00:00", 1, str(path))
        assert table.open(os.getpid(), mapping, b"").image is None
