"""Equal objects kept once: a stack that is seen ten thousand times takes the memory of one.

Counted by hand rather than with `sys.intern` (interned strings never die in CPython 3.12) or weak references
(tuples and strings have none).
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from gputop.model import Frame, NativeFrame, Observation, Stack

T = TypeVar("T", bound=Hashable)

#: Bytes of bookkeeping for each object kept: its slots in a dict and a list, the entry, collector headers.
_ENTRY_BYTES = 220


@dataclass(slots=True)
class _Entry(Generic[T]):
    item: T
    number: int
    users: int = 0


class Pool(Generic[T]):
    """Numbers the different objects of one kind; each lives as long as somebody holds it.

    Subclasses say what an object is made of (`_adopt`, `_abandon`), so that equal parts are one object too.
    """

    def __init__(self) -> None:
        self._entries: dict[T, _Entry[T]] = {}
        self._numbered: list[_Entry[T] | None] = []
        self._free: list[int] = []
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, number: int) -> T:
        return self._entry(number).item

    def hold(self, item: T) -> int:
        """Return the number of the object that equals `item`, which lives until its last `release`."""
        entry = self._entries.get(item) or self._enter(self._adopt(item))
        entry.users += 1
        return entry.number

    def release(self, number: int) -> None:
        """Give up one hold; the last one frees the object, and its number for another."""
        entry = self._entry(number)
        entry.users -= 1
        if not entry.users:
            self._leave(entry)

    def keep(self, item: T) -> T:
        """Hold `item` and return the kept object itself."""
        return self[self.hold(item)]

    def drop(self, item: T) -> None:
        """Release an object that `keep` returned."""
        self.release(self._entries[item].number)

    def _entry(self, number: int) -> _Entry[T]:
        entry = self._numbered[number]
        if entry is None:
            raise KeyError(number)
        return entry

    def _enter(self, item: T) -> _Entry[T]:
        if not self._free:
            self._free.append(len(self._numbered))
            self._numbered.append(None)
        entry = _Entry(item, self._free.pop())
        self._numbered[entry.number] = self._entries[item] = entry
        self.bytes += self._size(item)
        return entry

    def _leave(self, entry: _Entry[T]) -> None:
        del self._entries[entry.item]
        self._numbered[entry.number] = None
        self._free.append(entry.number)
        self.bytes -= self._size(entry.item)
        self._abandon(entry.item)

    def _size(self, item: T) -> int:
        return sys.getsizeof(item) + _ENTRY_BYTES

    def _adopt(self, item: T) -> T:
        return item

    def _abandon(self, item: T) -> None:
        """Release the parts of an object that is forgotten."""


class FramePool(Pool[Frame]):
    """Python frames; their strings are shared."""

    def __init__(self, strings: Pool[str]) -> None:
        super().__init__()
        self._strings = strings

    def _adopt(self, item: Frame) -> Frame:
        return Frame(self._strings.keep(item.name), self._strings.keep(item.file), item.line)

    def _abandon(self, item: Frame) -> None:
        self._strings.drop(item.name)
        self._strings.drop(item.file)


class NativeFramePool(Pool[NativeFrame]):
    """Native frames; their strings are shared."""

    def __init__(self, strings: Pool[str]) -> None:
        super().__init__()
        self._strings = strings

    def _adopt(self, item: NativeFrame) -> NativeFrame:
        return NativeFrame(self._strings.keep(item.module), self._strings.keep(item.symbol))

    def _abandon(self, item: NativeFrame) -> None:
        self._strings.drop(item.module)
        self._strings.drop(item.symbol)


class StackPool(Pool[Stack]):
    """Python stacks; their frames are shared."""

    def __init__(self, strings: Pool[str]) -> None:
        super().__init__()
        self.frames = FramePool(strings)

    def _adopt(self, item: Stack) -> Stack:
        return tuple(map(self.frames.keep, item))

    def _abandon(self, item: Stack) -> None:
        for frame in item:
            self.frames.drop(frame)


class ObservationPool(Pool[Observation]):
    """Observations; the frames of their chains are shared."""

    def __init__(self, strings: Pool[str]) -> None:
        super().__init__()
        self.frames = NativeFramePool(strings)

    def _size(self, item: Observation) -> int:
        return sys.getsizeof(item) + sys.getsizeof(item.chain) + _ENTRY_BYTES

    def _adopt(self, item: Observation) -> Observation:
        return replace(item, chain=tuple(map(self.frames.keep, item.chain)))

    def _abandon(self, item: Observation) -> None:
        for frame in item.chain:
            self.frames.drop(frame)
