"""A thread's looks and stacks as packed rows: 26 and 20 bytes each instead of some 200 as objects."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

#: Two looks are contiguous when the second's seconds begin where the first ended; times in files are rounded.
_TOUCH_S = 1e-4
_MOST_LOOKS = 0xFFFF
#: One window of stacks ends, the next begins: a thread that has the same stack on both sides of so short a seam is
#: taken to have kept it, as py-spy itself does between two samples.
_SEAM_S = 0.05


class Rows:
    """Packed rows, sorted by their first field, a time; a row that comes out of order finds its place."""

    _row: Struct

    def __init__(self) -> None:
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data) // self._row.size

    @property
    def bytes(self) -> int:
        """Return the memory taken."""
        return self._data.__sizeof__()

    def put(self, *fields: float) -> None:
        """Insert one row, last among those of the same time."""
        packed = self._row.pack(*fields)
        if not self._data or fields[0] >= self._at(len(self) - 1)[0]:
            self._data += packed
        else:
            offset = self._after(fields[0]) * self._row.size
            self._data[offset:offset] = packed

    def later(self, time: float) -> Iterator[tuple[Any, ...]]:
        """Return the rows whose first field is above `time`, as they are now."""
        return self._row.iter_unpack(self._data[self._after(time) * self._row.size :])

    def _at(self, index: int) -> tuple[Any, ...]:
        return self._row.unpack_from(self._data, index * self._row.size)

    def _after(self, time: float) -> int:
        if not self._data or self._at(0)[0] > time:
            return 0  # as in most chunks of a window
        low, high = 1, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._at(middle)[0] <= time:
                low = middle + 1
            else:
                high = middle
        return low


class PeekRows(Rows):
    """time, seconds, starved, observation's number, looks, frame's number or -1"""

    _row = Struct("<dffIHi")

    def look(self, time: float, seconds: float, starved: float, observation: int, frame: int) -> None:
        """Add one look; one that continues the last row and saw the same only makes that row longer.

        The first look of a kind keeps its own row, so that a row of several spans the time between two looks that saw
        the same, and nothing of the time before.
        """
        if self._continues(len(self) - 1, time - seconds, starved, observation, frame):
            end, before, _, _, looks, _ = self._at(len(self) - 1)
            if looks > 1 or self._continues(len(self) - 2, end - before, starved, observation, frame):
                last = (len(self) - 1) * self._row.size
                self._row.pack_into(self._data, last, time, before + seconds, 0.0, observation, looks + 1, frame)
                return
        self.put(time, seconds, starved, observation, 1, frame)

    def _continues(self, index: int, start: float, starved: float, observation: int, frame: int) -> bool:
        """Does time that starts then go on where a row ends, with the same seen and no time without a CPU?"""
        if index < 0:
            return False
        end, _, starved_before, same, looks, same_frame = self._at(index)
        return (
            (same, same_frame) == (observation, frame)
            and not starved
            and not starved_before
            and abs(start - end) <= _TOUCH_S
            and looks < _MOST_LOOKS
        )


class SegmentRows(Rows):
    """end, start, stack's number"""

    _row = Struct("<ddI")

    def stay(self, start: float, end: float, stack: int) -> None:
        """Add the time that one stack was there; the same stack going on only makes the last row longer."""
        if self._data:
            until, since, same = self._at(len(self) - 1)
            if same == stack and since <= start and abs(start - until) <= _SEAM_S and end >= until:
                self._row.pack_into(self._data, (len(self) - 1) * self._row.size, end, since, stack)
                return
        self.put(end, start, stack)
