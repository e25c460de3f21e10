"""Metrics that are the growth of a counter in the driver: throttle times, bytes over PCIe and NVLink, energy.

All but the energy come from one call for many "field values"; it took 6 ms on an H200, the energy 7 ms.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from gputop.collectors.gpu.metrics import THROTTLES
from gputop.collectors.gpu.nvml_library import SUCCESS, Library
from gputop.model import NA, Value

_ALL_LINKS = 0xFFFFFFFF
_KIB = 1024

#: Member of the value union by `nvmlValueType_t`; those of 32 bits and less are too narrow to count bytes.
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_NARROW = frozenset({1, 5, 6})

_FIRST = NA("needs two readings")


class Counter(NamedTuple):
    """A field (nvml.h, `NVML_FI_DEV_*`) that only grows; its growth each second times `scale` is the metric."""

    metric: str
    field: int
    scale: float
    scope: int = 0


#: Nanoseconds that the clocks were held down, by reason (PERF_POLICY_* and CLOCKS_EVENT_REASON_*).
_THROTTLE_FIELDS = {
    "power_cap": 74,
    "thermal": 75,
    "sync_boost": 76,
    "board_limit": 77,
    "reliability": 79,
    "sw_thermal": 269,
    "hw_thermal": 270,
    "power_brake": 271,
}

COUNTERS: tuple[Counter, ...] = (
    *(Counter(f"throttle.{name}", _THROTTLE_FIELDS[name], 1e-9) for name in THROTTLES),
    Counter("pcie_tx_bps", 197, 1),
    Counter("pcie_rx_bps", 198, 1),
    Counter("nvlink_tx_bps", 138, _KIB, _ALL_LINKS),
    Counter("nvlink_rx_bps", 139, _KIB, _ALL_LINKS),
)


class Counters:
    """The growth of all counters since the ask before."""

    names = (*(counter.metric for counter in COUNTERS), "throttled")
    every = 2.0

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self._time = 0.0

    def ask(self, library: Library, handle: Any, now: float) -> Iterable[Value]:
        """Read all fields in one call; each may fail for itself."""
        fields = [(counter.field, counter.scope) for counter in COUNTERS]
        values = library.call("nvmlDeviceGetFieldValues", handle, fields)
        rates = [self._rate(library, counter, value, now) for counter, value in zip(COUNTERS, values, strict=True)]
        self._time = now
        held = [rate for counter, rate in zip(COUNTERS, rates, strict=True) if counter.metric.startswith("throttle.")]
        return (*rates, _longest(held))

    def _rate(self, library: Library, counter: Counter, value: Any, now: float) -> Value:
        if value.nvmlReturn != SUCCESS:
            return library.reason(value.nvmlReturn)
        if counter.scale == 1 and value.valueType in _NARROW:
            return NA("the driver's byte counter has 32 bits and wraps within seconds")
        count = getattr(value.value, _MEMBERS[value.valueType]) * counter.scale
        before = self._before.get(counter.metric)
        self._before[counter.metric] = count
        if before is None or now <= self._time:
            return _FIRST
        return _growth(counter, (count - before) / (now - self._time))


def _growth(counter: Counter, rate: float) -> Value:
    if rate < 0:
        return NA("the driver's counter started again")
    return min(1.0, rate) if counter.metric.startswith("throttle.") else rate


def _longest(shares: list[Value]) -> Value:
    """Reasons overlap, so that their longest is what is sure of the time in all."""
    known = [share for share in shares if not isinstance(share, NA)]
    return max(known) if known else shares[0]


class Energy:
    """Joules since the first ask; goes on when the driver's counter starts again."""

    names = ("energy_j",)

    def __init__(self) -> None:
        self._before: float | None = None
        self._sum: float | None = None

    @property
    def every(self) -> float:
        """Seconds between two asks; the second one comes soon."""
        return 1.0 if self._sum is None else 5.0

    def ask(self, library: Library, handle: Any, now: float) -> Iterable[Value]:
        """Read the driver's counter, in millijoules since it was loaded."""
        count = library.call("nvmlDeviceGetTotalEnergyConsumption", handle) * 1e-3
        if self._before is not None and count >= self._before:
            self._sum = (self._sum or 0.0) + count - self._before
        self._before = count
        return (_FIRST if self._sum is None else self._sum,)
