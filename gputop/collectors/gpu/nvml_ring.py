"""The driver's own ring of utilisation samples: a 5 Hz curve for one call a second."""

from __future__ import annotations

from typing import Any

from gputop.collectors.gpu.backend import Curve
from gputop.collectors.gpu.nvml_library import NOT_FOUND, Failure, Library

_GPU_UTILIZATION_SAMPLES = 1

_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

#: Stamps this near to the wall clock are taken for Unix time, seconds.
_WALL_S = 30.0


class Ring:
    """Reads what is new in one GPU's ring; once a second is often enough.

    Stamps are microseconds of a clock that the documentation leaves open: seen were Unix time and time since boot.
    They are fed back as they came, and turned into our clock by their distance to the wall clock where that is small,
    else by taking the newest for a moment ago.
    """

    every = 1.0

    def __init__(self) -> None:
        self._last = 0
        self._offset: float | None = None

    def read(self, library: Library, handle: Any, now: float, wall: float) -> Curve:
        """Return the samples since the call before; empty when there are none, as on an idle GPU.

        Raises:
            Failure: the driver has no ring for this GPU.
        """
        try:
            kind, samples = library.call("nvmlDeviceGetSamples", handle, _GPU_UTILIZATION_SAMPLES, self._last)
        except Failure as failure:
            if failure.code != NOT_FOUND:
                raise
            return ()
        member = _MEMBERS[kind]
        fresh = [(item.timeStamp, getattr(item.sampleValue, member)) for item in samples if item.timeStamp > self._last]
        if not fresh:
            return ()
        self._last = max(stamp for stamp, _ in fresh)
        offset = self._place(self._last * 1e-6, now, wall)
        return tuple(
            (min(now, stamp * 1e-6 + offset), percent / 100) for stamp, percent in sorted(fresh) if 0 <= percent <= 100
        )

    def _place(self, newest: float, now: float, wall: float) -> float:
        """Return what to add to a stamp, in seconds, to get our time."""
        if abs(wall - newest) < _WALL_S:
            return now - wall
        delay = now - newest
        if self._offset is None or not 0 <= delay - self._offset < _WALL_S:
            self._offset = delay  # a sample is never from the future: the smallest distance is the best
        return self._offset
