"""The few words that tell a thread's current Python frame, copied while the thread stands still."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from gputop.collectors.native.memory import Vector, readv
from gputop.collectors.native.python.layout import Layout

#: `_PyInterpreterFrame.owner` of frames that stand for C code is this or more (FRAME_OWNED_BY_CSTACK, _INTERPRETER).
_OF_C = 3
#: The lowest bits of a reference to an object may say how it is counted (3.14, `Py_TAG_BITS`).
_ADDRESS = ~7


class ThreadState:
    """Where a thread's `PyThreadState` and its frame are.

    Attributes:
        ident: what must be in the thread's state for it to be this thread's.
        addresses: of what is read: the thread's state, then what each pointer led to at the last look.
    """

    __slots__ = ("addresses", "at", "ident", "vectors")

    def __init__(self, address: int, ident: int, sizes: tuple[int, ...]) -> None:
        self.ident = ident
        self.addresses = [address, *[0] * (len(sizes) - 1)]
        self.vectors = (Vector * len(sizes))(*map(Vector, self.addresses, sizes))
        self.at = ctypes.byref(self.vectors)

    def move(self, place: int, address: int) -> None:
        """Take note that a pointer leads to another address."""
        self.addresses[place] = self.vectors[place].base = address


class CodeWords(NamedTuple):
    """What a thread runs: addresses of its code object and of the current instruction (in 3.10 its number), and what
    is in the code object (`Layout.code_span`)."""

    code: int
    instruction: int
    content: bytes


class FrameWords:
    """Reads from a thread's state to its current frame and code object.

    All that is on the way is read at once, from where it was at the last look; where a pointer leads elsewhere now, it
    is read once more. So a thread that runs the same function at the same depth takes one read.

    Attributes:
        lost: the thread's state is not where it was any more.
    """

    def __init__(self, pid: int, layout: Layout) -> None:
        self._pid, self._layout = pid, layout
        thread, frame = layout.thread_span, layout.frame_span
        between = [(layout.cframe_frame, layout.cframe_frame + 8)] if layout.cframe_frame >= 0 else []
        spans = [thread, *between, frame, layout.code_span]
        self._sizes = tuple(end - start for start, end in spans)
        begins = [sum(self._sizes[:place]) for place in range(len(spans))]
        buffer = ctypes.create_string_buffer(sum(self._sizes))
        self._bytes = memoryview(buffer).cast("B")
        self._words = self._bytes.cast("Q")
        places = (ctypes.addressof(buffer) + begin for begin in begins)
        self._here = (Vector * len(spans))(*map(Vector, places, self._sizes))
        self._here_at = ctypes.byref(self._here)
        self._total, self._count = sum(self._sizes), len(spans)
        self._ident = (layout.thread_ident - thread[0]) // 8
        #: (word that holds a pointer, place of what it leads to, where in that the reading begins)
        self._pointers = [(begins[place - 1] // 8, place, spans[place][0]) for place in range(1, len(spans))]
        self._start = thread[0]
        self._code, self._instruction, self._owner = (
            begins[-2] - frame[0] + field
            for field in (layout.frame_code, layout.frame_instruction, max(layout.frame_owner, frame[0]))
        )
        self._content = slice(begins[-1], self._total)
        self._full = self.lost = False

    def state(self, address: int, ident: int) -> ThreadState:
        """Return the state of a thread, for `fill`."""
        return ThreadState(address + self._start, ident, self._sizes)

    def fill(self, state: ThreadState) -> None:
        """Read a thread's words. It must be stopped, or blocked."""
        self._full = self.lost = False
        words, addresses = self._words, state.addresses
        for _ in range(self._count):
            count = readv(self._pid, self._here_at, self._count, state.at, self._count, 0)
            if count < self._sizes[0] or words[self._ident] != state.ident:
                self.lost = True
                return
            for word, place, offset in self._pointers:
                address = (words[word] & _ADDRESS) + offset
                if address != addresses[place]:
                    state.move(place, address)
                    break
            else:
                self._full = count == self._total
                return

    def taken(self) -> CodeWords | None:
        """Return what was read, once, so that the next thread's is not taken for it; None when there was no frame."""
        full, self._full = self._full, False
        if not full or (self._layout.frame_owner >= 0 and self._bytes[self._owner] >= _OF_C):
            return None
        words = self._words
        return CodeWords(
            words[self._code >> 3] & _ADDRESS, words[self._instruction >> 3], self._bytes[self._content].tobytes()
        )
