"""Reads py-spy's Chrome traces: begin and end events become time segments of whole stacks.

The format is a bare JSON array of `B` and `E` events, one for each frame that appeared or vanished between two reads,
with microseconds since py-spy started. Under `--threads` each stack grows from a made-up root frame that carries the
thread's id and name. A read that failed writes nothing, so the stack before it just lasts longer.

Whatever the file holds, reading it does not raise: what is unusable is left out.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gputop.model import Frame, Stack
from gputop.text import printable

#: The root frame: native id in decimal, or the pthread's address where the interpreter does not tell (Python <= 3.10).
_ROOT = re.compile(r"thread \((?:(\d{1,10})|0[xX]([0-9A-Fa-f]{1,16}))\)(?:: (.*))?", re.DOTALL)

#: This thread never is without a frame while the program runs: a read that says so was torn, and failed like any other.
_MAIN = "MainThread"

#: Frames remembered between windows; a program that makes up new function names must not fill our memory.
_REMEMBERED = 50_000

_LATEST_US = 1e12
_UNKNOWN_LINE = 1 << 31  # py-spy writes -1 as an unsigned number

#: A frame as it is in the file.
_Raw = tuple[str, str, int]


class Label(NamedTuple):
    """Which thread a stack belongs to: its id, whether that is the native one or `pthread_self()`, and its name."""

    ident: int
    native: bool
    name: str


class Span(NamedTuple):
    """A thread kept one stack between two times, in seconds since py-spy started."""

    label: Label
    start: float
    end: float
    stack: Stack


class Trace(NamedTuple):
    """What a trace holds: its spans, its last time (seconds since py-spy started, 0 without events), and how many reads
    of a thread were torn: they are bridged like those that failed."""

    spans: list[Span]
    last: float
    torn: int


@dataclass(slots=True)
class Memory:
    """Frames already made printable, shared between windows, so that equal stacks share their memory."""

    frames: dict[_Raw, Frame] = field(default_factory=dict)
    stacks: dict[Stack, Stack] = field(default_factory=dict)

    def frame(self, raw: _Raw) -> Frame:
        """Return the frame for what the file says."""
        frame = self.frames.get(raw)
        if frame is None:
            name, file, line = raw
            frame = self.frames[raw] = Frame(printable(name), printable(file), line if 0 < line < _UNKNOWN_LINE else 0)
        return frame

    def stack(self, frames: Stack) -> Stack:
        """Return the first stack seen that equals this one."""
        return self.stacks.setdefault(frames, frames)

    def trim(self) -> None:
        """Forget everything once it is too much; called between windows."""
        for remembered in (self.frames, self.stacks):
            if len(remembered) > _REMEMBERED:
                remembered.clear()


def read(data: bytes, memory: Memory) -> Trace:
    """Return what a trace holds."""
    threads: dict[int, _Thread] = {}
    last = 0.0
    for event in _events(data):
        try:
            args = event["args"]
            raw = (event["name"], args["filename"], args["line"] or 0)
            begins, at, key = event["ph"] == "B", event["ts"], event["tid"]
            if not _plausible(raw, at, key):
                continue
        except (KeyError, TypeError):
            continue
        seconds = at * 1e-6
        last = max(last, seconds)
        thread = threads.get(key)
        if thread is None:
            thread = threads[key] = _Thread(memory)
        thread.apply(begins, raw, seconds)
    spans = [span for thread in threads.values() for span in thread.finish(last)]
    return Trace(spans, last, sum(thread.torn for thread in threads.values()))


def _plausible(raw: tuple[Any, Any, Any], at: Any, key: Any) -> bool:
    name, file, line = raw
    return (
        isinstance(name, str)
        and isinstance(file, str)
        and isinstance(line, int)
        and isinstance(at, (int, float))
        and 0 <= at < _LATEST_US
        and isinstance(key, int)
    )


def _events(data: bytes) -> list[Any]:
    text = data.decode("utf-8", "replace")
    try:
        events = json.loads(text)
    except (ValueError, RecursionError):
        return list(_leading_events(text))
    return events if isinstance(events, list) else []


def _leading_events(text: str) -> Iterator[Any]:
    """Yield the events before the place where a broken array stops making sense."""
    decoder = json.JSONDecoder()
    position = text.find("[") + 1
    while position:
        try:
            event, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return
        yield event
        position = text.find(",", position) + 1


class _Thread:
    """The stack machine of one thread: what is open now, and the spans that were.

    `torn` counts the reads that were recognised as such, once it has finished.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._open: list[_Raw] = []
        self._since = 0.0
        self._spans: list[Span] = []
        self.torn = 0

    def apply(self, begins: bool, raw: _Raw, at: float) -> None:
        if at > self._since:
            self._keep(at)
        if begins:
            self._open.append(raw)
        elif self._open and self._open[-1] == raw:
            self._open.pop()
        elif raw in self._open:
            self._close_down_to(raw)

    def finish(self, at: float) -> list[Span]:
        """Close what was left open, as in a file that was cut off, and return all spans."""
        if at > self._since:
            self._keep(at)
        mended = _mended(self._spans)
        self.torn += len(self._spans) - len(mended)
        return mended

    def _close_down_to(self, raw: _Raw) -> None:
        """Close a frame whose callees were never closed."""
        while self._open.pop() != raw:
            pass

    def _keep(self, at: float) -> None:
        """Note that the open stack lasted until `at`; a thread without Python frames shows none."""
        label = _label(self._open[0]) if self._open else None
        if label and len(self._open) > 1:
            stack = self._memory.stack(tuple(map(self._memory.frame, self._open[1:])))
            self._spans.append(Span(label, self._since, at, stack))
        elif label and label.name == _MAIN and self._spans:
            self._spans[-1] = self._spans[-1]._replace(end=at)
            self.torn += 1
        self._since = at


def _mended(spans: list[Span]) -> list[Span]:
    """Let the stack before last on where a thread's was read torn.

    Such a one begins with a function out of the midst of others, as when a generator was left while its callers were
    being read.
    """
    time: dict[tuple[str, str], float] = defaultdict(float)
    for span in spans:
        time[span.stack[0][:2]] += span.end - span.start
    if len(time) < 2:
        return spans
    first = max(time, key=time.__getitem__)
    within = {frame[:2] for span in spans if span.stack[0][:2] == first for frame in span.stack[1:]}
    within.discard(first)
    mended: list[Span] = []
    for span in spans:
        if span.stack[0][:2] not in within:
            mended.append(span)
        elif mended and mended[-1].end == span.start:
            mended[-1] = mended[-1]._replace(end=span.end)
    return mended


def _label(root: _Raw) -> Label | None:
    name, file, _ = root
    found = None if file else _ROOT.fullmatch(name)
    if found is None:
        return None
    native, pthread, title = found.groups()
    ident = int(native) if native else int(pthread, 16)
    return Label(ident, native is not None, printable(title or ""))
