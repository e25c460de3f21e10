"""One GPU, or one MIG instance of a GPU, as NVML shows it: what was read last, and when to read it again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gputop.collectors.gpu.backend import Curve, Seen, Watched, unread
from gputop.collectors.gpu.holders import Holders
from gputop.collectors.gpu.metrics import DEVICE_METRICS
from gputop.collectors.gpu.nvml_gpm import Gpm
from gputop.collectors.gpu.nvml_library import ABSENT, FATAL, NOT_SUPPORTED, UNINITIALIZED, Failure, Library
from gputop.collectors.gpu.nvml_processes import Processes
from gputop.collectors.gpu.nvml_reads import Part, throttle_reasons
from gputop.collectors.gpu.nvml_ring import Ring
from gputop.collectors.gpu.schedule import Schedule
from gputop.model import NA, GpuReading, Value
from gputop.text import printable

#: Seconds until a GPU that could not be opened is tried again.
REOPEN_S = 5.0

#: A GPU that nobody has used for so long, seconds, is asked so many times more rarely for what costs much.
UNUSED_S, RARER = 5.0, 4.0

#: GPM measures these directly; the counters are the fallback.
_BETTER_BY_GPM = ("pcie_rx_bps", "pcie_tx_bps", "nvlink_rx_bps", "nvlink_tx_bps")


@dataclass(slots=True)
class Identity:
    """Who a GPU is, kept when it is lost: NVML's index, its id, its product name, what it is a part of."""

    index: int
    uuid: str = ""
    name: str = ""
    part: str = ""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Our clock, and the wall clock that the driver may stamp with."""

    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


class NvmlGpu:
    """Reads one GPU. `find` returns its handle and raises `Failure` when it cannot be had."""

    def __init__(
        self,
        library: Library,
        identity: Identity,
        find: Callable[[], Any],
        parts: tuple[Part, ...],
        clocks: Clocks,
        sharing: int = 1,
    ) -> None:
        self.identity = identity
        self.handle: Any = None
        self.metrics: dict[str, Value] = dict.fromkeys(DEVICE_METRICS, NA("not reported for this kind of GPU"))
        self.metrics.update((name, NA("not read yet")) for part in parts for name in part.names)
        self.processes = Processes(self._reason)
        self._library = library
        self._find = find
        self._parts = parts
        self._clocks = clocks
        self._sharing = sharing
        self._schedule = Schedule(sharing)
        self._used_at = clocks.now()
        self._rarer = 1.0
        self._trouble = Failure(UNINITIALIZED)
        self._reopen = float("-inf")
        self._ring = Ring()
        self._ring_works = False
        self._curve_end = float("-inf")
        self._was_busy = False

    def read(self, watched: Watched, holders: Holders | None = None) -> Seen:
        """Ask for what is due and return all that is known; `holders` where the driver's lists name none of `watched`.

        Raises:
            Failure: the driver is gone (`UNINITIALIZED`); any other trouble is told by the reading.
        """
        try:
            if self.handle is None:
                self._open()
            mapped = holders.get(self._minor(), frozenset()) if holders else frozenset()
            throttle = self._refresh(None if mapped else watched)
            curve = self._curve()
        except Failure as failure:
            if failure.code == UNINITIALIZED:
                raise
            return self._failed(failure)
        use, others = self.processes.use(watched, mapped)
        who = self.identity
        return Seen(GpuReading(who.index, who.uuid, who.name, self._best(), use, others, throttle), curve)

    def close(self) -> None:
        """Give back what the driver holds for us."""
        for part in self._parts:
            if isinstance(part, Gpm):
                part.release(self._library)

    def _minor(self) -> int:
        """Return N of this GPU's /dev/nvidiaN, -1 when the driver does not tell."""
        try:
            return int(self._library.call("nvmlDeviceGetMinorNumber", self.handle))
        except Failure:
            return -1

    def _open(self) -> None:
        """Get the handle; only every few seconds when that fails."""
        now = self._clocks.now()
        if now < self._reopen:
            raise self._trouble
        self._reopen = now + REOPEN_S
        handle = self._find()
        who, library = self.identity, self._library
        who.uuid = library.text("nvmlDeviceGetUUID", handle) or who.uuid
        who.name = f"{printable(library.text('nvmlDeviceGetName', handle))} {who.part}".strip() or who.name
        self.handle = handle

    def _failed(self, failure: Failure) -> Seen:
        """Return the row of a GPU that cannot be read: it keeps its index, name and id."""
        self._trouble = failure
        if self.handle is not None:
            self.close()
            self.handle = None
        who, reason = self.identity, self._library.reason(failure.code).reason
        return Seen(unread(who.index, reason, uuid=who.uuid, name=who.name, error=reason))

    def _refresh(self, watched: Watched | None) -> tuple[str, ...]:
        """Bring metrics and processes up to date; return what holds the clocks down now.

        `watched` is None where the driver may know them by other pids.
        """
        now = self._clocks.now()
        for part in self._parts:
            if self._schedule.is_due(part.names[0], part.every, now):
                self._ask(part)
        if self._library.wsl:
            self._doubt_idleness()
        if self._schedule.is_due("processes", Processes.every, now):
            began = self._clocks.now()
            self.processes.ask(self._library, self.handle, began, self._clocks.wall(), watched)
            self._schedule.done("processes", Processes.every, began, self._clocks.now())
        self._spare(now)
        return throttle_reasons(self._library, self.handle)

    def _spare(self, now: float) -> None:
        """Ask a GPU that nobody uses more rarely, and one that is used again for everything at once."""
        if not self.processes.none or self.metrics["utilization"] != 0:
            self._used_at = now
        unused = now - self._used_at > UNUSED_S
        if not unused and self._rarer > 1:
            self._schedule = Schedule(self._sharing)
        self._rarer = RARER if unused else 1.0

    def _ask(self, part: Part) -> None:
        began = self._clocks.now()
        absent = False
        try:
            values: Iterable[Value] = part.ask(self._library, self.handle, began)
        except Failure as failure:
            if failure.code in FATAL:
                raise
            absent = failure.code in ABSENT
            values = (self._reason(failure.code),) * len(part.names)
        self.metrics.update(zip(part.names, values, strict=True))
        every = part.every * (self._rarer if part.every >= 1 else 1)
        self._schedule.done(part.names[0], every, began, self._clocks.now(), absent=absent)

    def _curve(self) -> Curve:
        """Return the driver's ring once a second, or the plain utilisation where it has none."""
        now = self._clocks.now()
        points: Curve = ()
        if self._rarer == 1 and self._schedule.is_due("ring", Ring.every, now):
            points = self._read_ring(now)
            self._ring_works = bool(points)
        if not self._ring_works or self._rarer > 1:
            busy = self.metrics["utilization"]
            points = () if isinstance(busy, NA) else ((now, busy),)
        points = tuple(point for point in points if point[0] > self._curve_end)
        self._curve_end = points[-1][0] if points else self._curve_end
        return points

    def _read_ring(self, now: float) -> Curve:
        absent = False
        try:
            return self._ring.read(self._library, self.handle, now, self._clocks.wall())
        except Failure as failure:
            if failure.code in FATAL:
                raise
            absent = failure.code in ABSENT
            return ()
        finally:
            self._schedule.done("ring", Ring.every, now, self._clocks.now(), absent=absent)

    def _reason(self, code: int) -> NA:
        if code == NOT_SUPPORTED and self.metrics["mig_mode"] == 1.0:
            return NA("not available while MIG is on")
        return self._library.reason(code)

    def _doubt_idleness(self) -> None:
        """Older drivers under WSL report 0 % for ever: believe it only after another value was seen."""
        busy = self.metrics["utilization"]
        self._was_busy = self._was_busy or bool(busy)
        if busy == 0 and not self._was_busy:
            self.metrics["utilization"] = NA("0 % may be all that the WSL driver reports")

    def _best(self) -> dict[str, Value]:
        """Return the metrics, each from the better of two sources."""
        chosen = dict(self.metrics)
        for name in _BETTER_BY_GPM:
            measured = chosen["gpm." + name]
            if not isinstance(measured, NA):
                chosen[name] = measured
        return chosen
