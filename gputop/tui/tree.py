"""The program's processes as rows of a tree; pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gputop.analysis.results import Summary, ThreadRow
from gputop.model import NA, ProcessInfo, Value

NO_GPU = NA("uses no GPU that the driver tells of")
_UNTOLD = NA("the driver does not tell the memory of a process")
_UNREAD = NA("no GPU could be read")
_NOT_READ = NA("not read yet")


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One process.

    Attributes:
        process, depth: what it is, and how many ancestors above it belong to the program.
        ended: it has ended, with `code` where that is known.
        cpu: cores in use; rss_bytes, gpu_bytes: memory it holds, on all GPUs together.
        main: its main thread over the window, None where no thread of it was seen.
    """

    process: ProcessInfo
    depth: int
    ended: bool
    code: int | None
    cpu: Value
    rss_bytes: Value
    gpu_bytes: Value
    main: ThreadRow | None


def rows(summary: Summary) -> tuple[ProcessRow, ...]:
    """Return the processes, each below its parent; those that ended keep their place."""
    known = {**summary.gone, **{process.pid: process for process in summary.processes}}
    known.setdefault(summary.session.root.pid, summary.session.root)
    live = {process.pid for process in summary.processes} - summary.ended.keys()
    readings = {reading.pid: reading for reading in summary.host.processes} if summary.host else {}
    mains = {row.pid: row for row in summary.threads if row.main}

    def row(process: ProcessInfo, depth: int) -> ProcessRow:
        reading = readings.get(process.pid)
        return ProcessRow(
            process=process,
            depth=depth,
            ended=process.pid not in live,
            code=summary.ended.get(process.pid),
            cpu=reading.cpu if reading else _NOT_READ,
            rss_bytes=reading.rss_bytes if reading else _NOT_READ,
            gpu_bytes=_gpu_bytes(summary, process),
            main=mains.get(process.pid),
        )

    return tuple(row(process, depth) for process, depth in _walk(known, summary.session.root.pid))


def _walk(known: Mapping[int, ProcessInfo], root: int) -> Iterator[tuple[ProcessInfo, int]]:
    """Yield each process below its parent, siblings by rank, then by pid."""
    children: dict[int, list[ProcessInfo]] = {}
    tops: list[ProcessInfo] = []
    for process in known.values():
        below = process.ppid in known and process.pid != root
        (children.setdefault(process.ppid, []) if below else tops).append(process)
    waiting = [(process, 0) for process in _sorted(tops)]
    left = dict(known)
    while waiting:
        process, depth = waiting.pop(0)
        if left.pop(process.pid, None):
            yield process, depth
            waiting[:0] = [(child, depth + 1) for child in _sorted(children.get(process.pid, ()))]
    yield from ((process, 0) for process in left.values())


def _sorted(processes: Iterable[ProcessInfo]) -> list[ProcessInfo]:
    return sorted(processes, key=lambda process: (process.rank is None, process.rank or 0, process.pid))


def _gpu_bytes(summary: Summary, process: ProcessInfo) -> Value:
    """Return what a process holds on all GPUs; the driver may know it by a pid of another namespace."""
    pids = {process.pid, *process.aliases}
    held = [amount for gpu in summary.gpus for pid, amount in gpu.target.by_process if pid in pids]
    if held:
        return sum(held)
    if all(gpu.error for gpu in summary.gpus):
        return _UNREAD
    uses = [gpu.target for gpu in summary.gpus if gpu.target.present]
    return _UNTOLD if uses and not any(use.by_process for use in uses) else NO_GPU
