"""From the thread ids that py-spy prints to the native ids that everybody else here uses.

Python 3.11 and newer keep the native id, as the program's own PID namespace numbers it. Older ones keep only
`pthread_self()`, the address of the C library's record of the thread, and that record holds the native id.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from gputop.collectors.stacks.chrometrace import Label

#: How far into `struct pthread` the id is looked for: it is at 720 in glibc on x86-64, 208 on aarch64, 48 in musl.
_RECORD_BYTES = 1024
_RECORD = struct.Struct(f"{_RECORD_BYTES // 4}i")


class NativeIds:
    """The native ids of one process's threads."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self._pid = pid
        self._folder = proc / str(pid)
        self._tasks: Mapping[int, int] = {}
        self._pthreads: dict[int, int] = {}

    def resolve(self, labels: Iterable[Label]) -> Mapping[Label, int]:
        """Return the native id of each thread, as seen from here.

        A thread that cannot be told keeps the id that py-spy gave, which is unique within its process.
        """
        labels = set(labels)
        pthreads = [label.ident for label in labels if not label.native]
        if pthreads or any(label.ident not in self._tasks for label in labels):
            self._tasks = self._list_tasks()
        self._pthreads |= self._look_up(pthreads)
        return {label: self._known(label) for label in labels}

    def _known(self, label: Label) -> int:
        if label.native:
            return self._tasks.get(label.ident, label.ident)
        return self._pthreads.get(label.ident, self._pid if label.name == "MainThread" else label.ident)

    def _list_tasks(self) -> Mapping[int, int]:
        """Return the process's thread ids as it sees them itself, mapped to ours."""
        try:
            tasks = [int(name) for name in os.listdir(self._folder / "task")]
        except (OSError, ValueError):
            return {}
        if len(_namespaced(self._folder / "status")) < 2:
            return {task: task for task in tasks}
        seen_inside = {task: _namespaced(self._folder / "task" / str(task) / "status") for task in tasks}
        return {ids[-1]: task for task, ids in seen_inside.items() if ids}

    def _look_up(self, pthreads: list[int]) -> dict[int, int]:
        """Look ids up in the threads' records.

        Their place differs between C libraries: it is where most records hold a different one of the process's ids.
        """
        records = [(pthread, self._record(pthread)) for pthread in pthreads]
        readable = [(pthread, record) for pthread, record in records if record]
        best: dict[int, int] = {}
        for column in zip(*(record for _, record in readable), strict=True):
            found = {
                ident: pthread for (pthread, _), ident in zip(readable, column, strict=True) if ident in self._tasks
            }
            if len(found) > len(best):
                best = found
        return {pthread: self._tasks[ident] for ident, pthread in best.items()}

    def _record(self, address: int) -> tuple[int, ...]:
        """Read the start of a thread's record; reading a process's memory does not disturb it."""
        try:
            with open(self._folder / "mem", "rb", buffering=0) as memory:
                return _RECORD.unpack(os.pread(memory.fileno(), _RECORD_BYTES, address))
        except (OSError, OverflowError, struct.error):
            return ()


def _namespaced(status: Path) -> list[int]:
    """Return a task's ids from our PID namespace to its own (`NSpid`; empty before Linux 4.1)."""
    try:
        lines = status.read_bytes().splitlines()
    except OSError:
        return []
    return next(([int(word) for word in line.split()[1:]] for line in lines if line.startswith(b"NSpid:")), [])
