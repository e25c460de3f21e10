"""All that was sampled in one stretch of time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gputop.model import CostBatch, ProcessInfo
from gputop.store.packed import CpuSums, HostPacker, PackedGpus, PackedHost
from gputop.store.records import ThreadKey
from gputop.store.rows import PeekRows, SegmentRows

#: Length of a chunk: short enough that dropping one is a small part of an hour, long enough that the half kilobyte
#: that each thread costs in each chunk does not count.
CHUNK_S = 10.0

#: Bytes of an empty Track with its place in the chunk's dict, of an empty Chunk, of a Quality, of a CostBatch with
#: its mapping, and of a number in a set; all measured with tracemalloc.
_TRACK, _CHUNK, _QUALITY, _COST, _NUMBER = 360, 1800, 200, 900, 64


#: A thread's CPU sums are as large as so many numbers.
_CPU_NUMBERS = 6


@dataclass(slots=True)
class Track:
    """What one chunk knows about one thread.

    Attributes:
        python_name, kernel_name: empty while unknown.
        gap: seconds between its last two looks, 0 while unknown.
    """

    peeks: PeekRows = field(default_factory=PeekRows)
    segments: SegmentRows = field(default_factory=SegmentRows)
    python_name: str = ""
    kernel_name: str = ""
    gap: float = 0.0

    @property
    def bytes(self) -> int:
        """Return the memory taken."""
        return _TRACK + self.peeks.bytes + self.segments.bytes


@dataclass(frozen=True, slots=True)
class Quality:
    """How well one window of Python stacks of a process was read."""

    pid: int
    start: float
    end: float
    samples: int
    failed: int


@dataclass(slots=True)
class Chunk:
    """Everything that ended in one span of CHUNK_S; some of it may have begun before (`earliest`).

    `stacks`, `observations`, `frames` and `strings` are the pools' numbers that it uses, each held once. `tracks_bytes`
    is kept up to date by whoever adds rows.
    """

    tracks: dict[ThreadKey, Track] = field(default_factory=dict)
    stacks: set[int] = field(default_factory=set)
    observations: set[int] = field(default_factory=set)
    frames: set[int] = field(default_factory=set)
    strings: set[int] = field(default_factory=set)
    hosts: list[PackedHost] = field(default_factory=list)
    gpus: list[PackedGpus] = field(default_factory=list)
    costs: list[CostBatch] = field(default_factory=list)
    quality: list[Quality] = field(default_factory=list)
    processes: list[tuple[float, tuple[ProcessInfo, ...]]] = field(default_factory=list)
    cpu: tuple[int, CpuSums] = field(default_factory=lambda: (0, {}))
    earliest: float = math.inf
    latest: float = -math.inf
    tracks_bytes: int = 0
    readings_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Return the memory taken, without what it shares with other chunks."""
        numbers = len(self.stacks) + len(self.observations) + len(self.frames) + len(self.strings)
        numbers += _CPU_NUMBERS * len(self.cpu[1])
        lists = _QUALITY * len(self.quality) + _COST * len(self.costs)
        return _CHUNK + self.tracks_bytes + self.readings_bytes + _NUMBER * numbers + lists

    def all_cpu(self, packer: HostPacker) -> CpuSums:
        """Return the sums of all readings in here, kept until there are more."""
        if self.cpu[0] != len(self.hosts):
            self.cpu = len(self.hosts), packer.sums(self.hosts)
        return self.cpu[1]

    def cover(self, start: float, end: float) -> None:
        """Note that something from `start` to `end` is in here."""
        self.earliest = min(self.earliest, start)
        self.latest = max(self.latest, end)

    def track(self, key: ThreadKey) -> Track:
        """Return the thread's track, made when missing."""
        track = self.tracks.get(key)
        if track is None:
            track = self.tracks[key] = Track()
            self.tracks_bytes += track.bytes
        return track
