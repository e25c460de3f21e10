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
_PLACES_3_13 = {
    "interpreters": 40,
    "interpreter_next": 64,
    "interpreter_threads": 72,
    "thread_next": 168,
    "thread_interpreter": 176,
    "thread_frame": 184,
    "thread_ident": 200,
    "frame_code": 240,
    "frame_instruction": 248,
    "frame_owner": 264,
    "code_file": 280,
    "code_name": 296,
    "code_lines": 304,
    "code_first_line": 312,
    "code_instructions": 344,
    "ascii_bytes": 560,
}
#: Bytes of `_PyRuntime` that hold them.
DEBUG_OFFSETS_BYTES = 568
#: `_PyRuntime` and `PyInterpreterState` are smaller than this, other structures are smaller than that.
_LARGEST, _LARGEST_SMALL = 1 << 20, 1 << 10
#: From an ASCII string's header to that of others: the UTF-8 form's pointer and length, and until 3.11 a third word.
_COMPACT_MORE = 16
_NO_FIELD = -1
#: `PyObject.ob_type`.
OBJECT_TYPE = 8


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
        ascii_bytes, compact_bytes: sizes of the headers of strings that are ASCII, and that are not.
        frame_owner: `_PyInterpreterFrame.owner`; -1 where no frame belongs to C code.
        cframe_frame: `_PyCFrame.current_frame`; -1 where there is no such step.
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

    @property
    def native_ids(self) -> bool:
        """Do threads know their native ids?"""
        return self.code_instructions != _NO_FIELD

    @property
    def code_span(self) -> tuple[int, int]:
        """Begin and end of what is read of a code object at each look: its type, and what tells it from others."""
        fields = self.code_file, self.code_name, self.code_lines, self.code_first_line
        return OBJECT_TYPE, (max(fields) & ~7) + 8

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
    (3, 12): Layout(40, 0, 72, 8, 16, 56, 144, 0, 56, 112, 128, 136, 68, 192, 40, 56, 70, 0),
}


def layout_of(version: tuple[int, int], runtime: bytes) -> Layout | None:
    """Return the layout of an interpreter; None when it is not known.

    Args:
        version: major and minor.
        runtime: the first DEBUG_OFFSETS_BYTES of its `_PyRuntime`.
    """
    return _told(runtime) if version == (3, 13) else _LAYOUTS.get(version)


def _told(runtime: bytes) -> Layout | None:
    if len(runtime) < DEBUG_OFFSETS_BYTES or not runtime.startswith(_COOKIE):
        return None
    version, free_threaded = struct.unpack_from("<QQ", runtime, _VERSION)
    if version >> 16 != 0x030D or free_threaded:
        return None
    fields = {name: struct.unpack_from("<Q", runtime, place)[0] for name, place in _PLACES_3_13.items()}
    layout = Layout(**fields, compact_bytes=fields["ascii_bytes"] + _COMPACT_MORE)
    return layout if _plausible(layout) else None


def _plausible(layout: Layout) -> bool:
    """Could these be offsets of fields in this order, words at multiples of their size?"""
    large = layout[:3]
    small = layout[3:-1]
    words = (*large, *layout[3:12], layout.code_instructions)
    return (
        max(large) < _LARGEST
        and max(small) < _LARGEST_SMALL
        and not any(offset % 8 for offset in words)
        and layout.thread_frame < layout.thread_ident
        and layout.frame_code < layout.frame_instruction
    )
