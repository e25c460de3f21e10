"""Where CPython's structures have the fields that lead from a thread to its current line.

Bytes from the start of each structure, of 64-bit builds. For 3.10 to 3.12 they are what `offsetof` says of the headers
(Include/cpython, Include/internal); from 3.13 on the interpreter says itself where its fields are (`_Py_DebugOffsets`,
Include/internal/pycore_runtime.h). Versions that are not here were not tried, and get no frames.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

#: `_PyRuntime` of 3.13 and newer begins with this …
_COOKIE = b"xdebugpy"
#: … and says at these places what its version is, whether it is free-threaded, and where the fields are.
_VERSION, _FREE_THREADED = 8, 16
_TOLD = (
    *("interpreters", "interpreter_next", "interpreter_threads", "interpreter_gil"),
    *("thread_next", "thread_interpreter", "thread_frame", "thread_ident"),
    *("frame_code", "frame_instruction", "frame_owner"),
    *("code_file", "code_name", "code_lines", "code_first_line", "code_instructions", "code_copies"),
    *("object_type", "data_size", "data_bytes", "text_state", "text_length", "ascii_bytes"),
)
_PLACES: dict[tuple[int, int], tuple[int | None, ...]] = {
    (3, 13): (
        *(40, 64, 72, 112),
        *(168, 176, 184, 200),
        *(240, 248, 264),
        *(280, 296, 304, 312, 344, None),
        *(360, 520, 528, 544, 552, 560),
    ),
    (3, 14): (
        *(40, 64, 72, 120),
        *(192, 200, 208, 224),
        *(264, 272, 288),
        *(320, 336, 344, 352, 384, 392),
        *(408, 600, 608, 624, 632, 640),
    ),
    (3, 15): (
        *(40, 64, 72, 120),
        *(192, 200, 208, 248),
        *(328, 336, 352),
        *(384, 400, 408, 416, 448, 456),
        *(472, 696, 704, 720, 728, 736),
    ),
}
#: `Layout.text_kind` of free-threaded builds, where it is not that of others: interning takes a byte of its own.
_TEXT_KIND = {(3, 14): 8, (3, 15): 8}
#: Bytes of `_PyRuntime` that hold them.
DEBUG_OFFSETS_BYTES = 744
#: `_PyRuntime` and `PyInterpreterState` are smaller than this, other structures are smaller than that.
_LARGEST, _LARGEST_SMALL = 1 << 20, 1 << 10
#: From an ASCII string's header to that of others: the UTF-8 form's pointer and length, and until 3.11 a third word.
_COMPACT_MORE = 16
_NO_FIELD = -1
_WORD = struct.Struct("<Q")


class Layout(NamedTuple):
    """Offsets of fields, in bytes.

    Attributes:
        interpreters: `_PyRuntime.interpreters.head`.
        interpreter_next, interpreter_threads: `PyInterpreterState.next`, `.threads.head`.
        thread_next, thread_interpreter: `PyThreadState.next`, `.interp`.
        thread_frame: `PyThreadState.current_frame`; `.cframe` in 3.11 and 3.12; `.frame` in 3.10.
        thread_ident: `PyThreadState.native_thread_id`; in 3.10 `.thread_id`, the address of a `struct pthread`.
        frame_code, frame_instruction: `_PyInterpreterFrame.f_code`, `.prev_instr` and what they became.
        code_file, code_name, code_lines, code_first_line: `PyCodeObject.co_filename`, `.co_qualname`, `.co_linetable`,
            `.co_firstlineno`.
        code_instructions: `PyCodeObject.co_code_adaptive`; -1 in 3.10, whose frames count instructions instead.
        code_copies: `PyCodeObject.co_tlbc`, copies of its instructions, one for each thread; 0 without.
        ascii_bytes, compact_bytes: sizes of the headers of strings that are ASCII, and that are not.
        frame_owner: `_PyInterpreterFrame.owner`; -1 where no frame belongs to C code.
        cframe_frame: `_PyCFrame.current_frame`; -1 where there is no such step.
        interpreter_gil: `PyInterpreterState.ceval.gil`; -1 where all interpreters share one, in static data.
        object_type: `PyObject.ob_type`.
        data_size, data_bytes: `PyBytesObject.ob_size`, `.ob_sval`.
        text_length, text_state: `PyASCIIObject.length`, `.state`.
        text_kind: lowest bit, in `.state`, of what tells how characters are stored (`.kind`, `.compact`, `.ascii`).
    """

    interpreters: int
    interpreter_next: int
    interpreter_threads: int
    thread_next: int
    thread_interpreter: int
    thread_frame: int
    thread_ident: int
    frame_code: int
    frame_instruction: int
    code_file: int
    code_name: int
    code_lines: int
    code_first_line: int
    code_instructions: int
    ascii_bytes: int
    compact_bytes: int
    frame_owner: int = _NO_FIELD
    cframe_frame: int = _NO_FIELD
    interpreter_gil: int = _NO_FIELD
    object_type: int = 8
    data_size: int = 16
    data_bytes: int = 32
    text_length: int = 16
    text_state: int = 32
    text_kind: int = 2
    code_copies: int = 0

    @property
    def native_ids(self) -> bool:
        """Do threads know their native ids?"""
        return self.code_instructions != _NO_FIELD

    @property
    def code_span(self) -> tuple[int, int]:
        """Begin and end of what is read of a code object at each look: its type, and what tells it from others."""
        fields = self.code_file, self.code_name, self.code_lines, self.code_first_line
        return self.object_type, (max(fields) & ~7) + 8

    @property
    def thread_span(self) -> tuple[int, int]:
        """Begin and end of what is read of a `PyThreadState` at each look."""
        return self.thread_frame, self.thread_ident + 8

    @property
    def frame_span(self) -> tuple[int, int]:
        """Begin and end of what is read of a frame at each look, whole words."""
        return self.frame_code, max(self.frame_instruction, self.frame_owner & ~7) + 8


_LAYOUTS = {
    (3, 10): Layout(32, 0, 8, 8, 16, 24, 176, 32, 96, 104, 112, 120, 40, _NO_FIELD, 48, 72),
    (3, 11): Layout(40, 0, 16, 8, 16, 56, 160, 32, 56, 112, 128, 136, 72, 184, 48, 72, 69, 8),
    (3, 12): Layout(40, 0, 72, 8, 16, 56, 144, 0, 56, 112, 128, 136, 68, 192, 40, 56, 70, 0, 384),
}


def layout_of(version: tuple[int, int], runtime: bytes) -> Layout | None:
    """Return the layout of an interpreter; None when it is not known.

    Args:
        version: major and minor.
        runtime: the first DEBUG_OFFSETS_BYTES of its `_PyRuntime`.
    """
    return _told(version, runtime) if version in _PLACES else _LAYOUTS.get(version)


def _told(version: tuple[int, int], runtime: bytes) -> Layout | None:
    if len(runtime) < DEBUG_OFFSETS_BYTES or not runtime.startswith(_COOKIE):
        return None
    number, free_threaded = (_WORD.unpack_from(runtime, place)[0] for place in (_VERSION, _FREE_THREADED))
    if (number >> 24, number >> 16 & 0xFF) != version:
        return None
    places = zip(_TOLD, _PLACES[version], strict=True)
    fields = {name: _WORD.unpack_from(runtime, place)[0] for name, place in places if place is not None}
    layout = Layout(**fields, compact_bytes=fields["ascii_bytes"] + _COMPACT_MORE)
    if free_threaded:
        layout = layout._replace(text_kind=_TEXT_KIND.get(version, layout.text_kind))
    return layout if _plausible(layout) else None


def _plausible(layout: Layout) -> bool:
    """Could these be offsets of fields in this order, words at multiples of their size?"""
    large = *layout[:3], layout.interpreter_gil
    small = *layout[3:17], *layout[19:]
    words = (*large, *layout[3:12], layout.code_instructions, layout.object_type)
    return (
        max(large) < _LARGEST
        and max(small) < _LARGEST_SMALL
        and not any(offset % 8 for offset in words)
        and layout.thread_frame < layout.thread_ident
        and layout.frame_code < layout.frame_instruction
        and layout.object_type < layout.code_first_line
    )
