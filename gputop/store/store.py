"""The store as its users see it: the ring under one lock, and every kind of question about a window."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping

from gputop.model import Batch, CostBatch, GpuBatch, HostBatch, Note, ProcessInfo, Session, Window
from gputop.store.chunk import CHUNK_S, Chunk, Track
from gputop.store.packed import CpuSums, merge, unpack_gpus
from gputop.store.records import Cpu, Names, Peek, Segment, ThreadKey
from gputop.store.ring import Ring


class Store:
    """Everything sampled lately, within `limit_bytes` (estimated, good to some per cent).

    One thread adds, any thread may ask; what is returned never changes afterwards. Batches may come late and out of
    order. What is older than the oldest time still kept is ignored. Times are monotonic seconds.
    """

    def __init__(self, limit_bytes: int = 64 << 20) -> None:
        self._lock = threading.Lock()
        self._ring = Ring(limit_bytes)

    def add(self, batch: Batch) -> None:
        """Keep a batch; when memory runs out the oldest time is dropped, of all sources alike."""
        with self._lock:
            self._ring.add(batch)

    @property
    def bytes(self) -> int:
        """Return the memory taken, estimated."""
        with self._lock:
            return self._ring.bytes

    @property
    def session(self) -> Session | None:
        """Return the newest session."""
        return self._ring.session

    def span(self) -> Window | None:
        """Return the oldest to the newest time of which anything is kept; None when nothing is."""
        with self._lock:
            chunks = self._ring.chunks.values()
            earliest = min((chunk.earliest for chunk in chunks), default=math.inf)
            latest = max((chunk.latest for chunk in chunks), default=-math.inf)
        return Window(earliest, latest) if earliest <= latest else None

    def _over(self, window: Window) -> Iterator[Chunk]:
        """Yield the chunks, oldest first, that may hold something of the window."""
        order, chunks = self._ring.order, self._ring.chunks
        last = window.end + self._ring.longest
        for place in range(bisect_left(order, window.start // CHUNK_S), len(order)):
            chunk = chunks[order[place]]
            if chunk.earliest <= window.end:
                yield chunk
            elif order[place] * CHUNK_S > last:
                break

    # ------------------------------------------------------------------------------------------------- threads

    def threads(self, window: Window) -> tuple[ThreadKey, ...]:
        """Return the threads that peeks or stacks saw in the window, sorted."""
        found: set[ThreadKey] = set()
        with self._lock:
            for chunk in self._over(window):
                found.update(key for key, track in chunk.tracks.items() if key not in found and _seen(track, window))
        return tuple(sorted(found))

    def names(self, key: ThreadKey) -> Names:
        """Return a thread's newest names."""
        python = kernel = ""
        with self._lock:
            for index in reversed(self._ring.order):
                track = self._ring.chunks[index].tracks.get(key)
                if track:
                    python, kernel = python or track.python_name, kernel or track.kernel_name
                    if python and kernel:
                        break
        return Names(python, kernel)

    def name(self, key: ThreadKey) -> str:
        """Return Python's newest name for a thread, else the kernel's, else an empty text."""
        names = self.names(key)
        return names.python or names.kernel

    def revision(self, window: Window) -> Hashable:
        """Return something that changes whenever looks or stacks within the window are added or dropped."""
        with self._lock:
            return self._ring.revision(window)

    def peeks(self, key: ThreadKey, window: Window) -> Iterator[Peek]:
        """Return what was seen of a thread, in order of time, clipped to the window.

        Each stands for the time since the look before it; but where that is more than four times the gap before, and
        more than half a second, nobody looked for a while, and it stands for the length of the gap before.
        """
        with self._lock:
            observation, frames = self._ring.observations.__getitem__, self._ring.stacks.frames
            found = [
                Peek(
                    time, seconds, starved, observation(number), looks, frames[place] if place >= 0 else None, looks > 1
                )
                for chunk in self._over(window)
                if (track := chunk.tracks.get(key))
                for time, seconds, starved, number, looks, place in track.peeks.later(window.start)
                if time - seconds < window.end
            ]
        return iter(_clipped(found, window))

    def segments(self, key: ThreadKey, window: Window) -> Iterator[Segment]:
        """Return the Python stacks of a thread, in order of time, clipped to the window."""
        with self._lock:
            stack = self._ring.stacks.__getitem__
            found = [
                Segment(max(start, window.start), min(end, window.end), stack(number))
                for chunk in self._over(window)
                if (track := chunk.tracks.get(key))
                for end, start, number in track.segments.later(window.start)
                if start < window.end
            ]
        return iter(found)

    def stack_quality(self, window: Window) -> tuple[int, int]:
        """Return how many times all Python stacks were read, and how many reads failed; windows of stacks that lie
        partly outside count in part."""
        samples = failed = 0.0
        with self._lock:
            for chunk in self._over(window):
                for quality in chunk.quality:
                    part = _overlap(quality.start, quality.end, window)
                    samples += part * quality.samples
                    failed += part * quality.failed
        return round(samples), round(failed)

    def stacks_cover(self, pid: int, window: Window) -> float:
        """Return for how many seconds of the window a process's Python stacks were watched."""
        with self._lock:
            watched = sorted(
                (max(quality.start, window.start), min(quality.end, window.end))
                for chunk in self._over(window)
                for quality in chunk.quality
                if quality.pid == pid
            )
        covered, until = 0.0, window.start
        for start, end in watched:
            covered += max(0.0, end - max(start, until))
            until = max(until, end)
        return covered

    # ------------------------------------------------------------------------------------- machine, GPUs, rest

    def hosts(self, window: Window) -> tuple[HostBatch, ...]:
        """Return the readings of the machine taken in the window.

        Only the last one has its processes' thread tables (hundreds of rows twice a second); `cpu` sums up the others.
        """
        with self._lock:
            found = [
                packed
                for chunk in self._over(window)
                for packed in chunk.hosts
                if window.start <= packed.batch.time <= window.end
            ]
            unpack = self._ring.host_packer.unpack
            return tuple(unpack(packed, threads=packed is found[-1]) for packed in found)

    def cpu(self, window: Window) -> Mapping[ThreadKey, Cpu]:
        """Return each thread's mean CPU use, from the readings taken in the window."""
        with self._lock:
            packer, sums = self._ring.host_packer, CpuSums()
            for chunk in self._over(window):
                within = [packed for packed in chunk.hosts if window.start < packed.batch.time <= window.end]
                merge(sums, chunk.all_cpu(packer) if len(within) == len(chunk.hosts) else packer.sums(within))
            return packer.threads(sums)

    def gpus(self, window: Window) -> tuple[GpuBatch, ...]:
        """Return the readings of the GPUs taken in the window."""
        with self._lock:
            found = [
                packed
                for chunk in self._over(window)
                for packed in chunk.gpus
                if window.start <= packed.time <= window.end
            ]
        return tuple(map(unpack_gpus, found))

    def processes(self, at: float) -> tuple[ProcessInfo, ...]:
        """Return the target's processes at a time."""
        with self._lock:
            return self._ring.processes(at)

    def ended(self) -> Mapping[int, int | None]:
        """Return the processes that ended, with their exit code where it is known."""
        with self._lock:
            return dict(self._ring.ended)

    def gone(self) -> Mapping[int, ProcessInfo]:
        """Return what the processes that ended were, as far as they were seen alive."""
        with self._lock:
            return dict(self._ring.gone)

    def notes(self) -> tuple[Note, ...]:
        """Return what does not work at the newest time, oldest first."""
        with self._lock:
            return tuple(sorted(self._ring.notes.values(), key=lambda note: note.time))

    def costs(self, window: Window) -> tuple[CostBatch, ...]:
        """Return what gputop itself cost, each time it was measured in the window, oldest first."""
        with self._lock:
            chunks = [self._ring.chunks[index] for index in sorted(self._ring.order)]
            found = [cost for chunk in chunks for cost in chunk.costs if window.start < cost.time <= window.end]
        return tuple(found)


def _seen(track: Track, window: Window) -> bool:
    peeks, segments = track.peeks.later(window.start), track.segments.later(window.start)
    return any(row[0] - row[1] < window.end for row in peeks) or any(row[1] < window.end for row in segments)


def _overlap(start: float, end: float, window: Window) -> float:
    """Return the share of a stretch of time that lies in the window; a moment counts whole."""
    if end <= start:
        return float(window.start < end <= window.end)
    return max(0.0, min(end, window.end) - max(start, window.start)) / (end - start)


def _clipped(peeks: list[Peek], window: Window) -> list[Peek]:
    """Cut what sticks out of the window at its ends; only the first and the last can."""
    return [
        peek if window.start <= peek.time - peek.seconds and peek.time <= window.end else _cut(peek, window)
        for peek in peeks
    ]


def _cut(peek: Peek, window: Window) -> Peek:
    part = _overlap(peek.time - peek.seconds, peek.time, window)
    looks = max(1, round(peek.looks * part))
    end = min(peek.time, window.end)
    return peek._replace(time=end, seconds=peek.seconds * part, starved=peek.starved * part, looks=looks)
