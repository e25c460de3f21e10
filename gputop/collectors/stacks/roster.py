"""Who is looked at now: the target always, the others in turn when they are too many."""

from __future__ import annotations

from collections.abc import Iterator

from gputop.collectors.stacks.track import Track
from gputop.model import ProcessInfo

#: Processes looked at at the same time; each costs a py-spy.
AT_ONCE = 3
#: The target's part of what may be spent where others are followed: the answer is about it, and a data loader's workers
#: are all alike.
TARGET_PART = 2 / 3


class Roster:
    """The tracks of the followed processes, the target's first.

    Args:
        share: of a core, what all py-spys together may use.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._tracks: dict[tuple[int, float], Track] = {}

    def __iter__(self) -> Iterator[Track]:
        return iter(tuple(self._tracks.values()))

    def follow(self, processes: tuple[ProcessInfo, ...]) -> tuple[Track, ...]:
        """Follow exactly these; the track of another goes once its py-spy has ended. Return those that went."""
        wanted = {(process.pid, process.started_unix): process for process in processes}
        kept = {key: self._tracks.get(key) or Track(process) for key, process in wanted.items()}
        leaving = {key: track for key, track in self._tracks.items() if key not in wanted and track.current}
        for track in leaving.values():
            track.retire()
        for track in kept.values():
            track.retired = False
        gone = tuple(track for key, track in self._tracks.items() if key not in kept and key not in leaving)
        self._tracks = kept | leaving
        return gone

    def take_turns(self, now: float) -> tuple[int, int]:
        """Say who may open windows, and for which share of the CPU; return how many at a time, and of how many."""
        followed = [track for track in self if not track.retired]
        crowded = len(followed) > AT_ONCE
        for place, track in enumerate(followed):
            track.continuous = not crowded or place == 0
            track.turn = track.turn or track.continuous
            track.share = self._share_of(place, len(followed))
        if crowded:
            _next_in_turn(followed[1:], now)
        return min(len(followed), AT_ONCE), len(followed)

    def _share_of(self, place: int, count: int) -> float:
        """The target gets its part, the others that are looked at together the rest."""
        if count == 1:
            return self._share
        if place == 0:
            return self._share * TARGET_PART
        return self._share * (1 - TARGET_PART) / (min(count, AT_ONCE) - 1)


def _next_in_turn(others: list[Track], now: float) -> None:
    """Fill the free places with those who have waited longest."""
    busy = sum(track.turn or track.current is not None for track in others)
    waiting = [track for track in others if not track.turn and track.current is None and now >= track.not_before]
    chosen = sorted(waiting, key=lambda track: track.last_turn)[: max(AT_ONCE - 1 - busy, 0)]
    for rank, track in enumerate(chosen):
        track.turn = True
        track.last_turn = now + rank * 1e-6  # who has waited longer is before the other next time, too
