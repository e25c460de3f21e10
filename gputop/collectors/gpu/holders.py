"""Which watched processes have a context on a GPU, by their memory maps: a second way to tell whose GPU it is.

It is for when the driver's lists name none of them. In a container without the host's PID namespace the driver lists
the host's pids, or nothing. What a program has mapped is seen there too. (What it has open tells nothing: all GPUs.)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from gputop.collectors.gpu.backend import Watched
from gputop.collectors.gpu.schedule import Schedule

#: Minor number of a device file (N of /dev/nvidiaN) to the watched processes that have a context on it.
Holders = Mapping[int, frozenset[int]]

PROC = Path("/proc")

#: Seconds between two looks; more where a look is costly.
EVERY_S = 5.0

#: How often a GPU's device file is mapped by a process that has a context there. Measured on H200s with driver 580: a
#: program maps each GPU that it can see twice, and once more for each context; one that only asks NVML maps none.
CONTEXT_MAPS = 3

_MAPPED = re.compile(rb" /dev/nvidia(\d+)$", re.MULTILINE)
_PIDS = re.compile(rb"^NSpid:(.*)$", re.MULTILINE)


class Maps:
    """Looks into the memory maps of processes, rarely."""

    def __init__(self, clock: Callable[[], float], proc: Path = PROC) -> None:
        self._clock = clock
        self._proc = proc
        self._schedule = Schedule(1)
        self._watched: Watched = frozenset()
        self._found: Holders = {}

    def holders(self, watched: Watched) -> Holders:
        """Return who has a context where; those whose map may not be read are left out."""
        began = self._clock()
        if watched != self._watched or self._schedule.is_due("maps", EVERY_S, began):
            self._watched, self._found = watched, self._look(watched)
            self._schedule.done("maps", EVERY_S, began, self._clock())
        return self._found

    def _look(self, watched: Watched) -> Holders:
        found: dict[int, set[int]] = {}
        for pid in watched - self._inner_names(watched):
            for minor in self._minors(pid):
                found.setdefault(minor, set()).add(pid)
        return {minor: frozenset(pids) for minor, pids in found.items()}

    def _minors(self, pid: int) -> frozenset[int]:
        with suppress(OSError):
            mapped = Counter(map(int, _MAPPED.findall((self._proc / str(pid) / "maps").read_bytes())))
            return frozenset(minor for minor, count in mapped.items() if count >= CONTEXT_MAPS)
        return frozenset()

    def _inner_names(self, watched: Watched) -> frozenset[int]:
        """Return the numbers that watched processes have in PID namespaces of their own: here they are others'."""
        inner: set[int] = set()
        for pid in watched:
            with suppress(OSError):
                said = _PIDS.search((self._proc / str(pid) / "status").read_bytes())
                inner.update(map(int, said[1].split()[1:]) if said else ())
        return frozenset(inner)
