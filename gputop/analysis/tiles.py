"""Tallies of whole tiles of time, kept: a window moved by half a second is a sum of mostly old tiles.

The screen sums up the last minute twice a second; without this, most of gputop's CPU time would go into adding up the
same looks again and again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import ceil, floor
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from gputop.analysis import native, roles, rules
from gputop.analysis.rules import Classified
from gputop.analysis.tally import Below, Tally, tally
from gputop.model import Observation, Stack, Window
from gputop.store import Cpu, Store, ThreadKey

#: Lengths of tiles, seconds: long ones for the middle of a window, short ones towards its ends.
_TILES_S = (10.0, 2.0)
#: A thread that never had more rows than this in a window is sooner added up than put together from tiles.
_FEW_ROWS = 40
#: The newest readings of GPUs are among those of so many seconds.
_NEWEST_S = 3.0
#: Entries kept at most where nobody calls `turn`.
_MOST = 20_000

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")


class Generations(Generic[_Key, _Item]):
    """A cache that forgets what was not asked for in the last two turns."""

    def __init__(self) -> None:
        self._now: dict[_Key, _Item] = {}
        self._before: dict[_Key, _Item] = {}

    def __len__(self) -> int:
        return len(self._now) + len(self._before)

    def get(self, key: _Key) -> _Item | None:
        """Return what is kept, which is then kept for another turn; else None."""
        item = self._now.get(key)
        if item is None and (item := self._before.pop(key, None)) is not None:
            self._now[key] = item
        return item

    def put(self, key: _Key, item: _Item) -> None:
        """Keep something."""
        if len(self._now) >= _MOST:
            self.turn()
        self._now[key] = item

    def turn(self) -> None:
        """Begin another turn."""
        self._now, self._before = {}, self._now


class Tiles:
    """What was worked out from one store already; as much of it as the last two summaries needed.

    Attributes:
        gpu: the target is known to use a GPU; what it then waits for in XLA is the GPU (`rules.classify`). Never taken
            back.
    """

    def __init__(self) -> None:
        self.gpu = False
        self._many: set[ThreadKey] = set()
        self._tallies: Generations[tuple[ThreadKey, Window, bool, bool], tuple[Hashable, Tally]] = Generations()
        self._classified: Generations[tuple[int, int, bool], tuple[Observation, Stack | None, Classified]] = (
            Generations()
        )
        self._called: Generations[int, tuple[Observation, Stack]] = Generations()

    def __len__(self) -> int:
        return len(self._tallies) + len(self._classified) + len(self._called)

    def turn(self) -> None:
        """Forget what the summary before the last one needed and the last one did not."""
        self._tallies.turn()
        self._classified.turn()
        self._called.turn()

    def look_for_gpu(self, store: Store, window: Window, cpu: Mapping[ThreadKey, Cpu] | None = None) -> bool:
        """Return whether the target is known to use a GPU: the driver lists it there, or has a thread in it.

        Arguments:
            cpu: the threads' CPU use over the window, where the caller has it already.
        """
        if not self.gpu:
            threads = store.cpu(window) if cpu is None else cpu
            newest = store.gpus(Window(max(window.start, window.end - _NEWEST_S), window.end))
            self.gpu = any(roles.is_cuda(thread.name) for thread in threads.values()) or any(
                gpu.used for batch in newest for gpu in batch.gpus
            )
        return self.gpu

    def tally(self, store: Store, key: ThreadKey, window: Window, *, native: bool = False) -> Tally:
        """Return what a thread did in the window; `native`: with its native calls."""
        if key not in self._many:
            peeks, segments = list(store.peeks(key, window)), list(store.segments(key, window))
            if len(peeks) + len(segments) > _FEW_ROWS:
                self._many.add(key)
            return tally(peeks, segments, self.classified, self.called if native else None)
        result = Tally()
        for part, whole in _parts(window):
            result.add(self._kept(store, key, part, native=native) if whole else self._fresh(store, key, part, native))
        return result

    def native(self, store: Store, key: ThreadKey, window: Window) -> Iterator[Below]:
        """Yield a thread's native calls below its Python frames, part by part of the window; do not change them."""
        for part, whole in _parts(window):
            yield (self._kept(store, key, part, native=True) if whole else self._fresh(store, key, part, True)).native

    def column(self, store: Store, key: ThreadKey, window: Window) -> Tally:
        """Return what a thread did in one column of a timeline, without its stacks; do not change the result."""
        return self._kept(store, key, window, stacks=False)

    def _kept(self, store: Store, key: ThreadKey, tile: Window, *, stacks: bool = True, native: bool = False) -> Tally:
        revision = store.revision(tile), self.gpu
        found = self._tallies.get((key, tile, stacks, native))
        if found and found[0] == revision:
            return found[1]
        result = self._fresh(store, key, tile, native)
        if not stacks:
            result.stacks.clear()
            result.lines.clear()
        self._tallies.put((key, tile, stacks, native), (revision, result))
        return result

    def _fresh(self, store: Store, key: ThreadKey, window: Window, native: bool) -> Tally:
        peeks, segments = list(store.peeks(key, window)), list(store.segments(key, window))
        return tally(peeks, segments, self.classified, self.called if native else None)

    def classified(self, observation: Observation, stack: Stack | None) -> Classified:
        """Return the state that was observed, told more precisely by the Python stack where one is known."""
        key = id(observation), id(stack), self.gpu
        found = self._classified.get(key)
        if found is None:
            state = rules.classify(observation, self.gpu)
            self.gpu = self.gpu or rules.tells_of_gpu(state)
            found = observation, stack, state if stack is None else rules.refine(state, stack)
            self._classified.put(key, found)  # with both objects, so that their identities stay theirs
        return found[2]

    def called(self, observation: Observation) -> Stack:
        """Return the native calls of a look (`native.called`)."""
        found = self._called.get(id(observation))
        if found is None:
            found = observation, native.called(observation)
            self._called.put(id(observation), found)
        return found[1]


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
    if last - first > _MOST:
        yield window, False
        return
    if first > last:
        yield from _parts(window, shorter)
        return
    if window.start < first * length:
        yield from _parts(Window(window.start, first * length), shorter)
    for index in range(first, last):
        yield Window(index * length, (index + 1) * length), True
    if last * length < window.end:
        yield from _parts(Window(last * length, window.end), shorter)
