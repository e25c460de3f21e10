"""A sort order that readers can follow: rows change places only when it is worth it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

#: A row overtakes the one above it when its value is larger by a tenth and half a point (of 1.0).
_RATIO, _MARGIN = 1.10, 0.005
#: Two neighbours that have been out of order in so many pictures change places.
_PATIENCE = 4


class Order:
    """Remembers the order shown last and changes it as little as the values allow."""

    def __init__(self) -> None:
        self._keys: list[tuple[str, ...]] = []
        self._of = ""
        self._late: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}

    def settle(self, values: Mapping[tuple[str, ...], float], of: str) -> list[tuple[str, ...]]:
        """Return the keys of `values`, largest first with hysteresis; a new meaning (`of`) sorts afresh."""
        if of != self._of:
            self._keys, self._of = [], of
        kept = [key for key in self._keys if key in values]
        known = set(kept)
        fresh = sorted((key for key in values if key not in known), key=lambda key: -values[key])
        self._keys = self._put_right(_bubbled(_inserted(kept, fresh, values), values), values)
        return self._keys

    def _put_right(self, keys: list[tuple[str, ...]], values: Mapping[tuple[str, ...], float]) -> list[tuple[str, ...]]:
        """Exchange neighbours that stay out of order: values that only sway have changed places again by then."""
        self._late = {
            (above, below): self._late.get((above, below), 0) + 1
            for above, below in pairwise(keys)
            if values[below] > values[above]
        }
        for place, pair in enumerate(pairwise(tuple(keys))):
            if self._late.get(pair, 0) > _PATIENCE:
                keys[place : place + 2] = keys[place + 1], keys[place]
        return keys


def _inserted(
    kept: list[tuple[str, ...]], fresh: list[tuple[str, ...]], values: Mapping[tuple[str, ...], float]
) -> list[tuple[str, ...]]:
    """Merge new keys, largest first, in front of the first kept key that is smaller."""
    out: list[tuple[str, ...]] = []
    waiting = iter(fresh)
    new = next(waiting, None)
    for key in kept:
        while new is not None and values[new] > values[key]:
            out.append(new)
            new = next(waiting, None)
        out.append(key)
    return [*out, *([new] if new is not None else []), *waiting]


def _bubbled(keys: list[tuple[str, ...]], values: Mapping[tuple[str, ...], float]) -> list[tuple[str, ...]]:
    """Insertion sort that lets a key pass only those that it clearly exceeds; nearly sorted input is the rule."""
    out: list[tuple[str, ...]] = []
    for key in keys:
        place = len(out)
        while place and values[key] > values[out[place - 1]] * _RATIO + _MARGIN:
            place -= 1
        out.insert(place, key)
    return out
