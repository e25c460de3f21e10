"""Code objects and line tables read from memory: right for whatever CPython makes, harmless for whatever else."""

from __future__ import annotations

import ctypes
import json
import os
import struct
import subprocess
import sys
from types import CodeType, FunctionType
from unittest.mock import Mock, patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.collectors.native.memory import read_memory
from gputop.collectors.native.python.codes import Codes, Types
from gputop.collectors.native.python.layout import DEBUG_OFFSETS_BYTES, layout_of
from gputop.collectors.native.python.lines import LineTable, entries_3_10, entries_3_11
from gputop.collectors.native.python.loop import moved_part
from gputop.collectors.native.python.words import CodeWords, FrameWords
from gputop.model import Frame
from tests.interpreters import python

TYPES = Types(id(CodeType), id(str), id(bytes))
CODE_OFFSET = {(3, 11): 184, (3, 12): 192}

#: Prints tables and what CPython itself makes of them: (table, first line, [(end, line or null)…]).
_TABLES = """
import argparse, json, tokenize, types, typing
def walk(code):
    yield code
    for item in code.co_consts:
        if isinstance(item, types.CodeType): yield from walk(item)
for module in (argparse, tokenize, typing):
    with open(module.__file__, encoding="utf-8") as file: top = compile(file.read(), module.__file__, "exec")
    for code in walk(top):
        lines = [(end, line) for _, end, line in code.co_lines()]
        print(json.dumps((code.co_linetable.hex(), code.co_firstlineno, lines)))
"""


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14", "3.15"])
def test_every_line_table_is_read_as_the_interpreter_itself_does(version: str) -> None:
    entries = entries_3_10 if version == "3.10" else entries_3_11
    output = subprocess.run([python(version), "-c", _TABLES], capture_output=True, text=True, check=True).stdout
    tables = [json.loads(line) for line in output.splitlines()]
    assert len(tables) > 300
    for table, first_line, expected in tables:
        lines = LineTable(entries(bytes.fromhex(table), first_line))
        offset, before = 0, first_line
        for end, line in expected:
            for at in range(offset, end, 2):
                assert lines.line(at) == (before if line is None else line)
            offset, before = end, line or before
        assert lines.line(-2) == lines.line(0)
        assert lines.line(offset) is None


@given(st.binary(max_size=400), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63))
def test_any_bytes_as_a_table(table: bytes, first_line: int, offset: int) -> None:
    for entries in (entries_3_10, entries_3_11):
        line = LineTable(entries(table, first_line)).line(offset)
        assert line is None or abs(line) < 2**40


# ----------------------------------------------------------------------------------------------- code objects

needs_layout = pytest.mark.skipif(sys.version_info[:2] not in CODE_OFFSET, reason="for our own interpreter: 3.11, 3.12")


class Own:
    """Our own interpreter's code objects, read as another's are."""

    def __init__(self, code_copies: int = 0) -> None:
        layout = layout_of(sys.version_info[:2], b"")
        assert layout is not None
        layout = layout._replace(code_copies=code_copies)
        self._codes, self._layout = Codes(os.getpid(), layout, TYPES), layout

    def frame(self, thing: object, offset: int = 0) -> Frame | None:
        """Return the frame of an instruction of a code object, by its offset."""
        return self.frame_at(thing, self.instructions(thing) + offset)

    def instructions(self, code: object) -> int:
        """Return where a code object's instructions begin."""
        return id(code) + self._layout.code_instructions

    def frame_at(self, thing: object, instruction: int) -> Frame | None:
        """Return the frame of an instruction of a code object, by its address."""
        begin, end = self._layout.code_span
        content = read_memory(os.getpid(), id(thing) + begin, end - begin)
        return self._codes.frame(CodeWords(id(thing), instruction, content.ljust(end - begin, b"\0")))


def _made(name: str, line: int) -> CodeType:
    space: dict[str, FunctionType] = {}
    exec(compile("\n" * (line - 1) + f"def {name}(): pass", f"<{name}.py>", "exec"), space)
    return space[name].__code__


@needs_layout
@pytest.mark.parametrize("name", ["plain", "größe", "имя", "文", "x" * 500])
def test_names_of_every_width(name: str) -> None:
    own = Own()
    code = _made(name, 17)
    frame = own.frame(code)
    assert frame is not None
    assert (frame.name[:399], frame.line) == (code.co_qualname[:399], 17)
    assert frame.file[:300] == f"<{name}.py>"[:300]


@needs_layout
def test_a_code_object_in_the_place_of_another_is_read_again() -> None:
    """The allocator gives the memory of a freed code object to the next one of its size."""
    own = Own()
    places = set()
    for number in range(200):
        code = _made(f"f{number % 7}", 1 + number % 11)
        places.add(id(code))
        frame = own.frame(code)
        assert frame is not None
        assert (frame.name, frame.line) == (code.co_name, 1 + number % 11)
    assert len(places) < 150, "no place was used twice: this proves nothing"


@needs_layout
def test_an_instruction_outside_its_code_is_none() -> None:
    own = Own()
    code = _made("f", 3)
    for offset in (-4, len(code.co_code), 10**6, -(10**6)):
        assert own.frame(code, offset) is None


@needs_layout
def test_an_instruction_in_a_thread_s_own_copy_of_the_code() -> None:
    """Free-threaded builds from 3.14 on run such copies: `_PyCodeArray`, the first entry being the code's own."""
    code = _made("f", 3)
    copy = ctypes.create_string_buffer(code.co_code)
    own = Own()
    array = (ctypes.c_uint64 * 4)(3, own.instructions(code), 0, ctypes.addressof(copy))
    pointer = ctypes.c_uint64(ctypes.addressof(array))
    assert own.frame_at(code, ctypes.addressof(copy) + 2) is None
    apart = Own(code_copies=ctypes.addressof(pointer) - id(code))
    for offset in range(0, len(code.co_code), 2):
        assert apart.frame_at(code, ctypes.addressof(copy) + offset) == own.frame(code, offset) is not None
        assert apart.frame(code, offset) == own.frame(code, offset)
    assert apart.frame_at(code, ctypes.addressof(copy) + len(code.co_code)) is None


@needs_layout
def test_other_objects_are_no_code() -> None:
    own = Own()
    for thing in ("text", b"data", 1 << 80, object(), _made):
        assert own.frame(thing) is None


@given(st.data())
def test_hostile_memory_gives_a_frame_or_none(data: st.DataObject) -> None:
    """Objects with the right types, and anything at all for the rest; reads may be short."""
    words = st.one_of(st.sampled_from([*TYPES, 0, 1, 40, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))

    def read(_pid: int, _address: int, size: int) -> bytes:
        size = min(size, data.draw(st.sampled_from([0, 7, 30, 200, 4096])))
        pattern = data.draw(st.lists(words, min_size=1, max_size=24))
        content = struct.pack(f"<{len(pattern)}Q", *pattern)
        return (content * (size // len(content) + 1))[:size]

    with patch("gputop.collectors.native.python.codes.read_memory", read):
        for version in ((3, 10), (3, 11), (3, 12)):
            layout = layout_of(version, b"")
            assert layout is not None
            begin, end = layout.code_span
            content = data.draw(st.lists(words, min_size=(end - begin) // 8, max_size=(end - begin) // 8))
            seen = CodeWords(data.draw(words), data.draw(words), struct.pack(f"<{len(content)}Q", *content))
            frame = Codes(1, layout, TYPES).frame(seen)
            assert frame is None or frame.line >= 0


# ---------------------------------------------------------------------------------------------------- the loop

_HOT, _COLD, _OTHER = range(0x5000, 0x5100), range(0x1000, 0x3000), range(0x8000, 0x9000)


def _jump(at: int, target: int) -> bytes:
    return b"\x0f\x84" + struct.pack("<i", target - at - 6)


def _part(targets: list[int]) -> int:
    """Return the part of a loop that has jumps to these addresses."""
    code = b"".join(_jump(_HOT.start + 6 * number, target) for number, target in enumerate(targets))
    image = Mock(read=lambda address, size: code.ljust(size, b"\x90") if address == _HOT.start else b"")
    functions = (_HOT, _COLD, _OTHER)
    rule = lambda address: next((Mock(start=place.start) for place in functions if address in place), None)  # noqa: E731
    with patch("gputop.collectors.native.python.loop.exported_function", return_value=(_HOT.start, len(_HOT))):
        return moved_part(image, rule)


def test_the_part_of_the_loop_that_is_apart_is_where_its_jumps_lead() -> None:
    assert _part([_HOT.start + 40] * 9 + [_COLD.start, _COLD.start + 64, _COLD.stop - 8, _OTHER.start]) == _COLD.start
    assert _part([_HOT.start + 40] * 9) == 0
    assert _part([_COLD.start + 8, _OTHER.start + 8, 0x7FFF0000, 0x10]) == 0


# --------------------------------------------------------------------------------------------------- layouts


@pytest.mark.parametrize("version", [(2, 7), (3, 9), (3, 16), (4, 0)])
def test_versions_that_were_not_tried_have_no_layout(version: tuple[int, int]) -> None:
    assert layout_of(version, bytes(DEBUG_OFFSETS_BYTES)) is None


@given(st.binary(max_size=DEBUG_OFFSETS_BYTES - 24), st.integers(0, 2**64 - 1), st.integers(0, 2))
def test_hostile_debug_offsets(rest: bytes, version: int, free_threaded: int) -> None:
    head = b"xdebugpy" + struct.pack("<QQ", version if version % 2 else 0x030D00F0, free_threaded)
    layout = layout_of((3, 13), (head + rest).ljust(DEBUG_OFFSETS_BYTES, b"\0"))
    if layout is not None:
        FrameWords(os.getpid(), layout)


def test_a_thread_state_that_is_no_more() -> None:
    layout = layout_of((3, 12), b"")
    assert layout is not None
    words = FrameWords(os.getpid(), layout)
    for address in (0, 8, 2**47, 2**64 - 8, 2**64):
        words.fill(words.state(address, 1))
        assert words.lost
        assert words.taken() is None
