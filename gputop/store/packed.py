"""Readings of the machine and the GPUs in a tenth of their size: thread tables as rows, metrics as arrays."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from struct import Struct

from gputop.model import NA, GpuBatch, GpuReading, HostBatch, ProcessReading, ThreadReading, Value
from gputop.store.pool import Pool
from gputop.store.records import Cpu, ThreadKey

#: tid, name's number, CPU share, starved share, state, core. A negative share is an index of a reason: -1 the first.
_THREAD = Struct("<qIffBi")
_LARGEST_CORE = 0x7FFFFFFF


#: Thread to its seconds on a CPU, those they were measured over and the last reason where they were not; the same
#: three for the seconds without a CPU; its name's number. A list, since it is added to a hundred times a thread.
CpuSums = dict[tuple[int, int], list[float]]


def merge(sums: CpuSums, more: CpuSums) -> None:
    """Add sums of another, later time."""
    for key, entry in more.items():
        before = sums.get(key)
        if before is None:
            sums[key] = list(entry)
        else:
            for place in (0, 1, 3, 4):
                before[place] += entry[place]
            before[2], before[5], before[6] = entry[2], entry[5], entry[6]


class Reasons:
    """The different NA values seen, numbered; a hostile file cannot make more than a few."""

    _MOST = 256

    def __init__(self) -> None:
        self._all: list[NA] = [NA("not available")]

    def code(self, value: Value) -> float:
        """Return a share as it is, an NA as the negative number of its reason."""
        if not isinstance(value, NA):
            return max(0.0, value)
        if value not in self._all and len(self._all) < self._MOST:
            self._all.append(value)
        return -1.0 - (self._all.index(value) if value in self._all else 0)

    def value(self, code: float) -> Value:
        """Return what `code` stands for."""
        return code if code >= 0 else self._all[int(-code) - 1]


@dataclass(frozen=True, slots=True)
class PackedHost:
    """A HostBatch: `batch` without its cores and thread tables, which are packed."""

    batch: HostBatch
    cores: array[float]
    target_cores: array[float]
    threads: tuple[bytes, ...]

    @property
    def bytes(self) -> int:
        """Return the memory taken, roughly."""
        arrays = sys.getsizeof(self.cores) + sys.getsizeof(self.target_cores)
        return 700 + arrays + sum(300 + len(table) for table in self.threads)


class HostPacker:
    """Packs HostBatches; the names of threads are kept in `names` until `forget`."""

    def __init__(self, names: Pool[str]) -> None:
        self._names = names
        self._reasons = Reasons()

    def pack(self, batch: HostBatch) -> PackedHost:
        """Return the packed form; it holds its threads' names."""
        bare = tuple(replace(process, threads=()) for process in batch.processes)
        return PackedHost(
            replace(batch, cores=(), target_cores=(), processes=bare),
            array("f", batch.cores),
            array("f", batch.target_cores),
            tuple(b"".join(map(self._row, process.threads)) for process in batch.processes),
        )

    def _row(self, thread: ThreadReading) -> bytes:
        code = self._reasons.code
        state = ord(thread.state[:1] or "?") & 0x7F
        name = self._names.hold(thread.name)
        core = max(-1, min(thread.core, _LARGEST_CORE))
        return _THREAD.pack(thread.tid, name, code(thread.cpu), code(thread.starved), state, core)

    def unpack(self, packed: PackedHost, threads: bool) -> HostBatch:
        """Return the batch, with or without its processes' thread tables."""
        batch = packed.batch
        return HostBatch(
            batch.time,
            batch.seconds,
            tuple(packed.cores),
            tuple(packed.target_cores),
            batch.memory_used_bytes,
            batch.memory_total_bytes,
            batch.load,
            self._processes(packed) if threads else batch.processes,
            batch.limits,
        )

    def _processes(self, packed: PackedHost) -> tuple[ProcessReading, ...]:
        pairs = zip(packed.batch.processes, packed.threads, strict=True)
        return tuple(replace(process, threads=tuple(self._readings(table))) for process, table in pairs)

    def _readings(self, table: bytes) -> Iterator[ThreadReading]:
        value = self._reasons.value
        for tid, name, cpu, starved, state, core in _THREAD.iter_unpack(table):
            yield ThreadReading(tid, self._names[name], value(cpu), value(starved), chr(state), core)

    def sums(self, readings: Iterable[PackedHost]) -> CpuSums:
        """Add up each thread's CPU time over the readings."""
        sums: CpuSums = {}
        for packed in readings:
            seconds = packed.batch.seconds
            for process, table in zip(packed.batch.processes, packed.threads, strict=True):
                for tid, name, cpu, starved, _, _ in _THREAD.iter_unpack(table):
                    entry = sums.get((process.pid, tid))
                    if entry is None:
                        entry = sums[process.pid, tid] = [0.0, 0.0, -1.0, 0.0, 0.0, -1.0, 0.0]
                    if cpu >= 0:
                        entry[0] += cpu * seconds
                        entry[1] += seconds
                    else:
                        entry[2] = cpu
                    if starved >= 0:
                        entry[3] += starved * seconds
                        entry[4] += seconds
                    else:
                        entry[5] = starved
                    entry[6] = name
        return sums

    def threads(self, sums: CpuSums) -> Mapping[ThreadKey, Cpu]:
        """Return each thread's mean CPU use."""
        return {
            ThreadKey(*key): Cpu(self._names[int(entry[6])], self._mean(*entry[:3]), self._mean(*entry[3:6]), entry[1])
            for key, entry in sums.items()
        }

    def _mean(self, total: float, seconds: float, reason: float) -> Value:
        return total / seconds if seconds else self._reasons.value(reason)

    def forget(self, packed: PackedHost) -> None:
        """Release the names that `pack` held."""
        for table in packed.threads:
            for row in _THREAD.iter_unpack(table):
                self._names.release(row[1])


@dataclass(frozen=True, slots=True)
class PackedGpu:
    """One reading of one GPU: `bare` is it without its metrics, which are `values` by `names`, or `missing`."""

    bare: GpuReading
    names: tuple[str, ...]
    values: array[float]
    missing: tuple[tuple[str, NA], ...]

    @property
    def bytes(self) -> int:
        """Return the memory taken, roughly."""
        return 600 + sys.getsizeof(self.values)


@dataclass(frozen=True, slots=True)
class PackedGpus:
    """A GpuBatch: its GPUs, and its curves as (time, share) pairs one after the other."""

    time: float
    gpus: tuple[PackedGpu, ...]
    curves: tuple[tuple[int, array[float]], ...]

    @property
    def bytes(self) -> int:
        """Return the memory taken, roughly."""
        return 300 + sum(gpu.bytes for gpu in self.gpus) + sum(150 + sys.getsizeof(points) for _, points in self.curves)


class GpuPacker:
    """Packs GpuBatches; names and reasons that are the same from reading to reading are one object."""

    def __init__(self) -> None:
        self._before: dict[int, PackedGpu] = {}

    def pack(self, batch: GpuBatch) -> PackedGpus:
        """Return the packed form."""
        gpus = tuple(map(self._gpu, batch.gpus))
        self._before = {gpu.bare.index: gpu for gpu in gpus}
        curves = ((index, array("d", chain.from_iterable(points))) for index, points in batch.curve.items())
        return PackedGpus(batch.time, gpus, tuple(curves))

    def _gpu(self, reading: GpuReading) -> PackedGpu:
        values = {name: value for name, value in reading.metrics.items() if not isinstance(value, NA)}
        missing = tuple((name, value) for name, value in reading.metrics.items() if isinstance(value, NA))
        names = tuple(values)
        before = self._before.get(reading.index)
        if before:
            names = before.names if before.names == names else names
            missing = before.missing if before.missing == missing else missing
        return PackedGpu(replace(reading, metrics={}), names, array("d", values.values()), missing)


def unpack_gpus(packed: PackedGpus) -> GpuBatch:
    """Return the batch that was packed."""
    curve = {index: tuple(zip(points[::2], points[1::2], strict=True)) for index, points in packed.curves}
    return GpuBatch(packed.time, tuple(map(_reading, packed.gpus)), curve)


def _reading(gpu: PackedGpu) -> GpuReading:
    metrics: dict[str, Value] = dict(zip(gpu.names, gpu.values, strict=True))
    return replace(gpu.bare, metrics=metrics | dict(gpu.missing))
