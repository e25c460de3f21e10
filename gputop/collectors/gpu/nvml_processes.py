"""Asks NVML which processes use a GPU, and how much."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gputop.collectors.gpu.backend import Watched
from gputop.collectors.gpu.nvml_library import (
    ABSENT,
    ARGUMENT_VERSION_MISMATCH,
    FATAL,
    FUNCTION_NOT_FOUND,
    INSUFFICIENT_SIZE,
    NOT_FOUND,
    SUCCESS,
    Failure,
    Library,
)
from gputop.collectors.gpu.usage import Row, Running, Usage, sane_pid
from gputop.model import NA, GpuUse, Value

_KINDS = ("Compute", "Graphics", "MPSCompute")

#: Processes may start between the call that asks for their number and the one that lists them.
_TRIES = 3

#: Codes of a driver that has the function in an older version only.
_OLDER = frozenset({FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH})

#: An idle GPU has no samples: an error by its code, or pynvml's exception for success.
_NO_ROWS = frozenset({NOT_FOUND, SUCCESS})

_NEW_FUNCTION, _OLD_FUNCTION = "nvmlDeviceGetProcessesUtilizationInfo", "nvmlDeviceGetProcessUtilization"


class Processes:
    """The processes of one GPU; asked once a second, as the driver samples them no faster."""

    every = 1.0

    def __init__(self, reason: Callable[[int], NA]) -> None:
        """`reason` puts a return code into words; `asked` once the driver was."""
        self.usage = Usage()
        self.asked = False
        self._reason = reason
        self._running: Running = NA("not read yet")
        self._sampled: NA | None = NA("not read yet")
        self._version = "_v3"
        self._function = _NEW_FUNCTION
        self._first = True

    def ask(self, library: Library, handle: Any, now: float, wall: float, watched: Watched | None = None) -> None:
        """Read the lists, and the samples since the ask before unless none of `watched` is listed.

        Raises:
            Failure: the GPU is lost or the driver gone.
        """
        self.asked = True
        self._running = self._lists(library, handle)
        rows: Iterable[Row] = ()
        self._sampled = None
        try:
            rows = self._rows(library, handle, wall) if self._lists_one_of(watched) else ()
        except Failure as failure:
            if failure.code in FATAL:
                raise
            self._sampled = self._reason(failure.code)
        self.usage.add(now, self._running, rows)

    def _lists_one_of(self, watched: Watched | None) -> bool:
        """Tell whether there may be samples that matter."""
        if isinstance(self._running, NA):
            return True
        return bool(self._running) if watched is None else not self._running.keys().isdisjoint(watched)

    @property
    def none(self) -> bool:
        """Nobody uses the GPU, as far as the driver lists them: there is nothing to sample."""
        return not isinstance(self._running, NA) and not self._running

    def use(self, watched: Watched, holders: Watched = frozenset()) -> tuple[GpuUse, Value]:
        """Return the watched processes' part, and the number of the others; `holders` have this GPU mapped."""
        use = self.usage.of(watched, self._running, self._sampled, holders)
        return use, self.usage.others(watched, self._running, holders)

    def _lists(self, library: Library, handle: Any) -> Running:
        """Merge the lists of compute, graphics and MPS clients; one process may be in several."""
        merged: dict[int, int | None] = {}
        for kind in _KINDS:
            try:
                listed = self._list(library, handle, kind)
            except Failure as failure:
                if failure.code in FATAL:
                    raise
                if kind == _KINDS[0]:
                    return self._reason(failure.code)
                continue  # not every driver has graphics and MPS
            for item in listed:
                merged[item.pid] = max(merged.get(item.pid) or 0, item.usedGpuMemory or 0) or None
        return merged

    def _list(self, library: Library, handle: Any, kind: str) -> list[Any]:
        """Use version 3, or 2 when the driver lacks it or fills it with garbage (535.43 to 535.86 do)."""
        function = f"nvmlDeviceGet{kind}RunningProcesses"
        if self._version == "_v3":
            try:
                found = _patiently(library, function + "_v3", handle)
            except Failure as failure:
                if failure.code not in _OLDER:
                    raise
            else:
                if all(sane_pid(item.pid) for item in found):
                    return found
            self._version = "_v2"
        return [item for item in _patiently(library, function + "_v2", handle) if sane_pid(item.pid)]

    def _rows(self, library: Library, handle: Any, wall: float) -> list[Row]:
        """Return what is newer than the newest stamp so far; the first time, than a second ago.

        The stamps' clock is not documented. When nothing is newer than a second ago by the wall clock, all that the
        driver still has is read once, only to learn where its stamps stand.
        """
        if not self._first:
            return self._samples(library, handle, self.usage.seen)
        rows = self._samples(library, handle, int((wall - 1) * 1e6))
        if not rows:
            self.usage.skip(self._samples(library, handle, 0))
        self._first = False
        return rows

    def _samples(self, library: Library, handle: Any, since: int) -> list[Row]:
        try:
            items = _patiently(library, self._function, handle, since)
        except Failure as failure:
            if failure.code in _NO_ROWS:
                return []
            if failure.code not in ABSENT or self._function == _OLD_FUNCTION:
                raise
            self._function = _OLD_FUNCTION
            return self._samples(library, handle, since)
        return [Row(item.pid, item.timeStamp, item.smUtil, item.memUtil) for item in items]


def _patiently(library: Library, function: str, *arguments: Any) -> list[Any]:
    """Call again when the list has grown between pynvml's two calls of the driver."""
    for _ in range(_TRIES - 1):
        try:
            return list(library.call(function, *arguments))
        except Failure as failure:
            if failure.code != INSUFFICIENT_SIZE:
                raise
    return list(library.call(function, *arguments))
