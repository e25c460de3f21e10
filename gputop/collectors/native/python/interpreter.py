"""The CPython of one process: where its threads' states are, and what their current frames mean."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from gputop.collectors.native.elf import Image
from gputop.collectors.native.exports import exported_data
from gputop.collectors.native.memory import read_memory
from gputop.collectors.native.python.codes import Codes, Types
from gputop.collectors.native.python.layout import DEBUG_OFFSETS_BYTES, Layout, layout_of
from gputop.collectors.native.python.words import FrameWords
from gputop.collectors.native.space import AddressSpace
from gputop.collectors.native.task import Task
from gputop.model import Frame

_RUNTIME, _VERSION = "_PyRuntime", "Py_Version"
_TYPES = ("PyCode_Type", "PyUnicode_Type", "PyBytes_Type")
#: 3.10 does not export its version.
_NAMED_3_10 = re.compile(r"(lib)?python3\.10")
_MAX_INTERPRETERS, _MAX_THREADS = 64, 4096
#: `struct _gil_runtime_state`, Include/internal/pycore_gil.h.
_GIL_BYTES = 208
#: Threads are looked for again after this time; after ever longer ones when there was nothing new.
_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.2, 15.0
#: That may take this share of the time.
_SHARE = 0.005
#: `struct pthread.tid` of glibc, nptl/descr.h: behind a header and a list.
_PTHREAD_TID = {"x86_64": 720, "aarch64": 208}


class _Runtime(NamedTuple):
    """Where an interpreter keeps everything."""

    address: int
    layout: Layout
    codes: Codes
    words: FrameWords


class Interpreter:
    """Finds the Python frames of one process's threads; of one without CPython, or an unknown one, none."""

    def __init__(self, pid: int, space: AddressSpace) -> None:
        self._pid, self._space = pid, space
        self._runtime: _Runtime | None = None
        self._searched = -1
        self._listed: dict[int, tuple[int, int]] = {}
        self._gils: frozenset[int] = frozenset()
        self._nested = _is_nested(pid)
        self._next = self._earliest = 0.0
        self._pause = _LEAST_PAUSE_S
        self._unknown = 0

    def forget(self) -> None:
        """Forget everything: the process runs another program now."""
        self._runtime, self._searched = None, -1
        self._listed.clear()
        self._gils = frozenset()

    def locate(self, tasks: Iterable[Task]) -> None:
        """Find the Python states of threads whose state is not known; not all of them may have one."""
        missing = [task for task in tasks if task.glance is None]
        runtime = self._find() if missing else None
        if runtime is None:
            return
        unknown = self._anchor(runtime, missing)
        started = time.monotonic()
        if len(unknown) > self._unknown:
            self._next = self._earliest
        self._unknown = len(unknown)
        if not unknown or started < self._next:
            return
        self._listed = dict(self._threads(runtime))
        self._gils = frozenset(self._locks(runtime))
        self._unknown = len(self._anchor(runtime, unknown))
        self._pause = _LEAST_PAUSE_S if self._unknown < len(unknown) else min(2 * self._pause, _MOST_PAUSE_S)
        self._earliest = started + max(_LEAST_PAUSE_S, (time.monotonic() - started) / _SHARE)
        self._next = max(self._earliest, started + self._pause)

    def _anchor(self, runtime: _Runtime, tasks: Iterable[Task]) -> list[Task]:
        """Tell tasks where their states are, as listed last; return those without one."""
        unknown = []
        for task in tasks:
            place = self._listed.pop(task.own_tid if self._nested else task.tid, None)
            if place is None:
                unknown.append(task)
            else:
                task.glance = partial(runtime.words.fill, runtime.words.state(*place))
                task.settled = False
        return unknown

    def frame(self, task: Task) -> Frame | None:
        """Return the Python frame of a thread that has just glanced; None when that is not known."""
        if self._runtime is None or task.glance is None:
            return None
        words = self._runtime.words
        if words.lost:
            task.glance = None
        seen = words.taken()
        return None if seen is None else self._runtime.codes.frame(seen)

    def is_gil(self, address: int) -> bool:
        """Does the address lie in the lock of one of its interpreters? (Up to 3.11 they share one in static data.)"""
        return any(gil <= address < gil + _GIL_BYTES for gil in self._gils)

    # --------------------------------------------------------------------------------------------- interpreter

    def _find(self) -> _Runtime | None:
        if self._runtime is None and self._searched != self._space.revision:
            self._searched = self._space.revision
            found = (self._read(*module) for module in self._space.interpreters())
            self._runtime = next((runtime for runtime in found if runtime), None)
        return self._runtime

    def _read(self, name: str, image: Image, moved: int) -> _Runtime | None:
        exports = exported_data(image, {_RUNTIME, _VERSION, *_TYPES})
        places = {symbol: address + moved for symbol, address in exports.items()}
        version = self._version(name, places.get(_VERSION))
        if version is None or not places.keys() >= {_RUNTIME, *_TYPES}:
            return None
        layout = layout_of(version, read_memory(self._pid, places[_RUNTIME], DEBUG_OFFSETS_BYTES))
        if layout is None:
            return None
        codes = Codes(self._pid, layout, Types(*(places[symbol] for symbol in _TYPES)))
        return _Runtime(places[_RUNTIME], layout, codes, FrameWords(self._pid, layout))

    def _version(self, name: str, place: int | None) -> tuple[int, int] | None:
        if place is None:
            return (3, 10) if _NAMED_3_10.match(name) else None
        told = read_memory(self._pid, place, 4)
        return (told[3], told[2]) if len(told) == 4 else None

    # ------------------------------------------------------------------------------------------------- threads

    def _threads(self, runtime: _Runtime) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield threads by native id, as the process itself sees it: address of the state, and what must be in there.

        Threads that have several states are left out.
        """
        listed = list(self._states(runtime))
        count = Counter(tid for tid, _ in listed)
        return ((tid, place) for tid, place in listed if count[tid] == 1)

    def _states(self, runtime: _Runtime) -> Iterator[tuple[int, tuple[int, int]]]:
        layout = runtime.layout
        for interpreter in self._interpreters(runtime):
            thread = self._word(interpreter + layout.interpreter_threads)
            for _ in range(_MAX_THREADS):
                state = read_memory(self._pid, thread, layout.thread_ident + 8)
                if not thread or _at(state, layout.thread_interpreter) != interpreter:
                    break
                ident = _at(state, layout.thread_ident)
                yield ident if layout.native_ids else self._tid(ident), (thread, ident)
                thread = _at(state, layout.thread_next)

    def _interpreters(self, runtime: _Runtime) -> Iterator[int]:
        interpreter = self._word(runtime.address + runtime.layout.interpreters)
        for _ in range(_MAX_INTERPRETERS):
            if not interpreter:
                return
            yield interpreter
            interpreter = self._word(interpreter + runtime.layout.interpreter_next)

    def _locks(self, runtime: _Runtime) -> Iterator[int]:
        place = runtime.layout.interpreter_gil
        if place >= 0:
            yield from filter(None, (self._word(interpreter + place) for interpreter in self._interpreters(runtime)))

    def _tid(self, pthread: int) -> int:
        """Return the native id of a thread of the C library's."""
        place = _PTHREAD_TID.get(os.uname().machine)
        return self._word(pthread + place) & 0xFFFFFFFF if place else 0

    def _word(self, address: int) -> int:
        return _at(read_memory(self._pid, address, 8), 0)


def _is_nested(pid: int) -> bool:
    """Does the process have other ids in a PID namespace of its own?"""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return any(line.startswith(b"NSpid:") and len(line.split()) > 2 for line in file)
    except OSError:
        return False


def _at(data: bytes, offset: int) -> int:
    """Return the word at an offset, 0 where there is none."""
    return int.from_bytes(data[offset : offset + 8], "little")
