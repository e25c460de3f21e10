"""The store itself: chunks of time, the oldest dropped whole when memory runs out."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, TypeVar

from gputop.model import (
    Batch,
    CostBatch,
    GpuBatch,
    HostBatch,
    Note,
    PeekBatch,
    ProcessBatch,
    ProcessInfo,
    Session,
    StackBatch,
    Window,
)
from gputop.store.chunk import CHUNK_S, Chunk, Quality
from gputop.store.packed import GpuPacker, HostPacker
from gputop.store.pool import ObservationPool, Pool, StackPool, T
from gputop.store.records import ThreadKey

#: Notes and ends of processes kept at most: a target that forks without end must not fill the memory.
_MOST_NOTES, _MOST_ENDED = 500, 5000
#: Changes are counted by spans of this many seconds; a row longer than so many spans counts in the last ones only.
_REVISION_S, _LONGEST_REVISED = 1.0, 600
#: Bytes of one such count.
_REVISION = 130
#: A gap between looks that is longer than so many times the gap before, and than so many seconds, was not looked at.
_REACH, _REACH_S = 4.0, 0.5
#: Chunks searched for the gap before.
_LATELY = 30
_Row = TypeVar("_Row", bound=tuple[Any, ...])


class Ring:
    """The writing half of the store: puts batches into chunks and drops the oldest. Not locked."""

    def __init__(self, limit_bytes: int) -> None:
        self.session: Session | None = None
        self.notes: dict[tuple[str, str], Note] = {}
        self.ended: dict[int, int | None] = {}
        self.gone: dict[int, ProcessInfo] = {}
        self.chunks: dict[int, Chunk] = {}
        self.order: list[int] = []
        self.strings: Pool[str] = Pool()
        self.stacks = StackPool(self.strings)
        self.observations = ObservationPool(self.strings)
        self.host_packer = HostPacker(self.strings)
        self.revisions: defaultdict[int, int] = defaultdict(int)
        self.horizon: int | None = None
        #: Length in seconds of the longest row so far: how long after a time there may be rows that reach back to it.
        self.longest = 0.0
        #: The processes at the time that was dropped last.
        self.first_processes: tuple[ProcessInfo, ...] = ()
        self._gpu_packer = GpuPacker()
        self._limit = limit_bytes
        self._adders: dict[type, Any] = {
            StackBatch: self._add_stacks,
            PeekBatch: self._add_peeks,
            HostBatch: self._add_host,
            GpuBatch: self._add_gpus,
            CostBatch: self._add_cost,
            ProcessBatch: self._add_processes,
            Note: self._add_note,
            Session: self._add_session,
        }

    @property
    def bytes(self) -> int:
        """Return the memory taken, estimated."""
        pools = (self.strings, self.stacks, self.stacks.frames, self.observations, self.observations.frames)
        revisions = _REVISION * len(self.revisions)
        return revisions + sum(pool.bytes for pool in pools) + sum(chunk.bytes for chunk in self.chunks.values())

    def add(self, batch: Batch) -> None:
        """Keep a batch; the oldest chunks go when memory runs out."""
        self._adders[type(batch)](batch)
        while self.order and self.bytes > self._limit:
            self._drop_oldest()

    def _chunk(self, index: int) -> Chunk | None:
        """Return a chunk, made when missing; None when that time was dropped already."""
        if self.horizon is not None and index <= self.horizon:
            return None
        chunk = self.chunks.get(index)
        if chunk is None:
            chunk = self.chunks[index] = Chunk()
            insort(self.order, index)
        return chunk

    def _drop_oldest(self) -> None:
        self.horizon = self.order.pop(0)
        chunk = self.chunks.pop(self.horizon)
        oldest = (self.horizon + 1) * CHUNK_S / _REVISION_S
        for index in [index for index in self.revisions if index < oldest]:
            del self.revisions[index]
        for pool, numbers in (
            (self.stacks, chunk.stacks),
            (self.observations, chunk.observations),
            (self.stacks.frames, chunk.frames),
            (self.strings, chunk.strings),
        ):
            for number in numbers:
                pool.release(number)
        for packed in chunk.hosts:
            self.host_packer.forget(packed)
        if chunk.processes:
            self.first_processes = chunk.processes[-1][1]

    # ---------------------------------------------------------------------------------------- stacks and peeks

    def _add_peeks(self, batch: PeekBatch) -> None:
        samples = _by_chunk_and_thread(batch.samples, 0, 1)
        for (index, tid), looks in samples.items():
            chunk = self._chunk(index)
            if chunk is None:
                continue
            key = ThreadKey(batch.pid, tid)
            track = chunk.track(key)
            track.kernel_name = self._string(chunk, batch.names.get(tid, "")) or track.kernel_name
            track.gap = track.gap or self._gap(index, key)
            before = track.peeks.bytes
            for time, _, observation, gap, starved, place in looks:
                number = _number(self.observations, chunk.observations, batch.observations[observation])
                frame = -1 if place < 0 else _number(self.stacks.frames, chunk.frames, batch.frames[place])
                seconds = _stands_for(gap, track.gap)
                track.gap = gap
                self._cover(chunk, time - seconds, time)
                track.peeks.look(time, seconds, min(starved, gap) * seconds / gap if gap else 0.0, number, frame)
            chunk.tracks_bytes += track.peeks.bytes - before

    def _gap(self, index: int, key: ThreadKey) -> float:
        """Return the newest gap between a thread's looks before a chunk, 0 when it was not looked at lately."""
        before = self.order[max(0, bisect_left(self.order, index) - _LATELY) : bisect_left(self.order, index)]
        tracks = (self.chunks[index].tracks.get(key) for index in reversed(before))
        return next((track.gap for track in tracks if track), 0.0)

    def _add_stacks(self, batch: StackBatch) -> None:
        segments = _by_chunk_and_thread(batch.segments, 2, 0)
        for (index, tid), stretches in segments.items():
            chunk = self._chunk(index)
            if chunk is None:
                continue
            track = chunk.track(ThreadKey(batch.pid, tid))
            track.python_name = self._string(chunk, batch.threads.get(tid, "")) or track.python_name
            before = track.segments.bytes
            for _, start, end, stack in stretches:
                self._cover(chunk, start, end)
                track.segments.stay(start, end, _number(self.stacks, chunk.stacks, batch.stacks[stack]))
            chunk.tracks_bytes += track.segments.bytes - before
        last = self._chunk(_index(batch.end))
        if last:
            last.cover(batch.start, batch.end)
            self.longest = max(self.longest, batch.end - batch.start)
            last.quality.append(Quality(batch.pid, batch.start, batch.end, batch.samples, batch.failed))

    def _cover(self, chunk: Chunk, start: float, end: float) -> None:
        """Note that a row of a thread was added, for `revision`."""
        chunk.cover(start, end)
        self.longest = max(self.longest, end - start)
        first, last = int(start // _REVISION_S), int(end // _REVISION_S)
        for index in range(max(first, last - _LONGEST_REVISED), last + 1):
            self.revisions[index] += 1

    def revision(self, window: Window) -> tuple[int | None, int]:
        """Return what changes whenever rows of threads within the window are added or dropped."""
        indexes = range(int(window.start // _REVISION_S), math.ceil(window.end / _REVISION_S))
        if len(indexes) > len(self.revisions):
            return self.horizon, sum(count for index, count in self.revisions.items() if index in indexes)
        return self.horizon, sum(self.revisions.get(index, 0) for index in indexes)

    def _string(self, chunk: Chunk, text: str) -> str:
        return self.strings[_number(self.strings, chunk.strings, text)] if text else ""

    # ------------------------------------------------------------------------------------------------ the rest

    def _add_host(self, batch: HostBatch) -> None:
        chunk = self._chunk(_index(batch.time))
        if chunk:
            packed = self.host_packer.pack(batch)
            insort(chunk.hosts, packed, key=lambda host: host.batch.time)
            chunk.readings_bytes += packed.bytes
            chunk.cover(batch.time - batch.seconds, batch.time)

    def _add_gpus(self, batch: GpuBatch) -> None:
        chunk = self._chunk(_index(batch.time))
        if chunk:
            packed = self._gpu_packer.pack(batch)
            insort(chunk.gpus, packed, key=lambda gpus: gpus.time)
            chunk.readings_bytes += packed.bytes
            chunk.cover(batch.time, batch.time)

    def _add_cost(self, batch: CostBatch) -> None:
        chunk = self._chunk(_index(batch.time))
        if chunk:
            insort(chunk.costs, batch, key=lambda cost: cost.time)
            chunk.cover(batch.time, batch.time)

    def _add_processes(self, batch: ProcessBatch) -> None:
        newest = self.processes(math.inf)
        self.ended.update(batch.ended)
        self.gone.update({process.pid: process for process in newest if process.pid in self.ended})
        while len(self.ended) > _MOST_ENDED:
            oldest = next(iter(self.ended))
            del self.ended[oldest]
            self.gone.pop(oldest, None)
        chunk = self._chunk(_index(batch.time))
        if not chunk or newest == batch.processes:
            return
        same = {process: process for process in newest}
        chunk.readings_bytes += 100 + sum(8 if process in same else _weight(process) for process in batch.processes)
        processes = tuple(same.get(process, process) for process in batch.processes)
        insort(chunk.processes, (batch.time, processes), key=lambda entry: entry[0])
        chunk.cover(batch.time, batch.time)

    def processes(self, at: float) -> tuple[ProcessInfo, ...]:
        """Return the processes that lived at a time."""
        for index in reversed(self.order):
            for time, processes in reversed(self.chunks[index].processes):
                if time <= at:
                    return processes
        return self.first_processes

    def _add_note(self, note: Note) -> None:
        before = self.notes.get((note.source, note.key))
        if before and before.time > note.time:
            return
        self.notes.pop((note.source, note.key), None)
        if note.what:
            self.notes[note.source, note.key] = note
        if len(self.notes) > _MOST_NOTES:
            del self.notes[next(iter(self.notes))]

    def _add_session(self, session: Session) -> None:
        self.session = session


def _stands_for(gap: float, before: float) -> float:
    """Return the time before a look that it stands for; `gap` is that since the last look, `before` the gap before it.

    A gap much longer than the one before was not looked at: such a look stands for as long as the one before.
    """
    return gap if gap <= max(_REACH * before, _REACH_S) else before or _REACH_S


def _index(time: float) -> int:
    return int(time // CHUNK_S)


def _by_chunk_and_thread(rows: Iterable[_Row], time: int, tid: int) -> dict[tuple[int, int], list[_Row]]:
    """Group samples by the chunk that they end in and their thread; `time` and `tid` are the fields' places."""
    groups: dict[tuple[int, int], list[_Row]] = defaultdict(list)
    for row in rows:
        groups[int(row[time] // CHUNK_S), row[tid]].append(row)
    return groups


def _number(pool: Pool[T], held: set[int], item: T) -> int:
    """Return an object's number in the pool, held once for the chunk whose `held` this is."""
    number = pool.hold(item)
    if number in held:
        pool.release(number)
    else:
        held.add(number)
    return number


def _weight(process: ProcessInfo) -> int:
    """Return the bytes that a description of a process takes, roughly."""
    texts = (*process.cmdline, process.exe, process.name, *process.frameworks)
    return 500 + sum(map(sys.getsizeof, texts))
