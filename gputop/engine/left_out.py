"""Notices functions that py-spy leaves out of its stacks without a word: those with a name or file of over 4 kB.

It reads strings of at most 4096 bytes and skips a frame that has a longer one, so its time goes to its caller
(`copy_string` in py-spy's python_data_access.rs; tried with 0.4.3). The native looks read the start of any name.
"""

from __future__ import annotations

from gputop.model import Batch, Frame, Note, PeekBatch, StackBatch
from gputop.text import NAME_LIMIT

#: Windows of stacks that a function may be missing from by chance.
_WINDOWS = 3
#: Functions watched; a program may make up any number.
_MOST = 100
_SHOWN = 60


class LeftOut:
    """What the looks saw under a name that was cut, and no stack has."""

    def __init__(self) -> None:
        self._windows: dict[tuple[int, Frame], int] = {}
        self._looked: set[tuple[int, Frame]] = set()
        self._told = False

    def note(self, batch: Batch) -> Note | None:
        """Take a batch in; returns a note once something is found to be left out."""
        if isinstance(batch, PeekBatch):
            for frame in batch.frames:
                key = batch.pid, frame._replace(line=0)
                if _cut(frame) and (key in self._windows or len(self._windows) < _MOST):
                    self._windows.setdefault(key, 0)
                    self._looked.add(key)
        elif isinstance(batch, StackBatch) and self._windows and batch.segments and not self._told:
            return self._missing(batch)
        return None

    def _missing(self, batch: StackBatch) -> Note | None:
        seen = {frame._replace(line=0) for stack in batch.stacks for frame in stack}
        for key in [key for key in self._looked if key[0] == batch.pid]:
            self._looked.remove(key)
            _, frame = key
            self._windows[key] = -_WINDOWS if frame in seen else self._windows[key] + 1
            if self._windows[key] >= _WINDOWS:
                self._told = True
                return Note(batch.end, "stacks", "long-names", _what(frame), "give it a shorter name")
        return None


def _cut(frame: Frame) -> bool:
    return any(len(text) == NAME_LIMIT and text.endswith("…") for text in (frame.name, frame.file))


def _what(frame: Frame) -> str:
    name = frame.name if len(frame.name) <= _SHOWN else f"{frame.name[:_SHOWN]}…"
    return f"py-spy leaves out functions with names of over 4 kB, such as {name}: their time counts as their callers'"
