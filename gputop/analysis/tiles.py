"""Tallies of whole tiles of time, kept: a window moved by half a second is a sum of mostly old tiles.

The screen sums up the last minute twice a second; without this, most of gputop's CPU time would go into adding up the
same looks again and again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from math import ceil, floor
from weakref import WeakKeyDictionary

from gputop.analysis import rules
from gputop.analysis.rules import Classified
from gputop.analysis.tally import Tally, tally
from gputop.model import Observation, Stack, Window
from gputop.store import Store, ThreadKey

#: Lengths of tiles, seconds: long ones for the middle of a window, short ones towards its ends.
_TILES_S = (10.0, 2.0)
#: A thread that never had more rows than this in a window is sooner added up than put together from tiles.
_FEW_ROWS = 40
#: Most tiles and classifications kept; forgetting them costs only the time to work them out again.
_MOST_TILES, _MOST_CLASSIFIED = 50_000, 20_000


class Tiles:
    """What was worked out from one store already."""

    def __init__(self) -> None:
        self._many: set[ThreadKey] = set()
        self._tallies: dict[tuple[ThreadKey, Window], tuple[Hashable, Tally]] = {}
        self._classified: dict[tuple[int, int], tuple[Observation, Stack | None, Classified]] = {}

    def tally(self, store: Store, key: ThreadKey, window: Window) -> Tally:
        """Return what a thread did in the window."""
        if key not in self._many:
            peeks, segments = list(store.peeks(key, window)), list(store.segments(key, window))
            if len(peeks) + len(segments) > _FEW_ROWS:
                self._many.add(key)
            return tally(peeks, segments, self.classified)
        result = Tally()
        for part, whole in _parts(window):
            result.add(self.kept(store, key, part) if whole else self._fresh(store, key, part))
        return result

    def kept(self, store: Store, key: ThreadKey, tile: Window) -> Tally:
        """Return what a thread did in a stretch of time that will be asked for again; do not change the result."""
        revision = store.revision(tile)
        found = self._tallies.get((key, tile))
        if found and found[0] == revision:
            return found[1]
        if len(self._tallies) >= _MOST_TILES:
            self._tallies.clear()
        result = self._fresh(store, key, tile)
        self._tallies[key, tile] = revision, result
        return result

    def _fresh(self, store: Store, key: ThreadKey, window: Window) -> Tally:
        return tally(list(store.peeks(key, window)), list(store.segments(key, window)), self.classified)

    def classified(self, observation: Observation, stack: Stack | None) -> Classified:
        """Return the state that was observed, told more precisely by the Python stack where one is known."""
        pair = id(observation), id(stack)
        found = self._classified.get(pair)
        if found is None:
            if len(self._classified) >= _MOST_CLASSIFIED:
                self._classified.clear()
            state = rules.classify(observation)
            found = observation, stack, state if stack is None else rules.refine(state, stack)
            self._classified[pair] = found  # with both objects, so that their identities stay theirs
        return found[2]


_OF_STORE: WeakKeyDictionary[Store, Tiles] = WeakKeyDictionary()


def of(store: Store) -> Tiles:
    """Return what is kept for a store, for as long as the store lives."""
    return _OF_STORE.setdefault(store, Tiles())


def _parts(window: Window, lengths: Sequence[float] = _TILES_S) -> Iterator[tuple[Window, bool]]:
    """Cut a window into whole tiles, the longest that fit, and rests at its ends; say which are whole."""
    if not lengths:
        yield window, False
        return
    length, *shorter = lengths
    first, last = ceil(window.start / length), floor(window.end / length)
    if first > last:
        yield from _parts(window, shorter)
        return
    if window.start < first * length:
        yield from _parts(Window(window.start, first * length), shorter)
    for index in range(first, last):
        yield Window(index * length, (index + 1) * length), True
    if last * length < window.end:
        yield from _parts(Window(last * length, window.end), shorter)
