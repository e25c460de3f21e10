"""GPM: what the multiprocessors really did, from counters in the chip; Hopper and newer, whole device only.

Two samples make one reading. Less than 100 ms apart they give zeros, so they are a second apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from gputop.collectors.gpu.nvml_library import NOT_SUPPORTED, SUCCESS, Failure, Library
from gputop.model import NA, Value

_MIB = 1024 * 1024


class GpmMetric(NamedTuple):
    """A metric of nvml.h (`nvmlGpmMetricId_t`), whose value times `scale` is ours."""

    metric: str
    id: int
    scale: float


_PERCENT = 0.01

GPM_METRICS = (
    GpmMetric("gpm.graphics", 1, _PERCENT),
    GpmMetric("gpm.sm_active", 2, _PERCENT),
    GpmMetric("gpm.sm_occupancy", 3, _PERCENT),
    GpmMetric("gpm.tensor", 5, _PERCENT),
    GpmMetric("gpm.dram", 10, _PERCENT),
    GpmMetric("gpm.fp32", 12, _PERCENT),
    GpmMetric("gpm.pcie_tx_bps", 20, _MIB),
    GpmMetric("gpm.pcie_rx_bps", 21, _MIB),
    GpmMetric("gpm.nvlink_rx_bps", 60, _MIB),
    GpmMetric("gpm.nvlink_tx_bps", 61, _MIB),
)

#: Seconds that two samples must be apart.
APART_S = 0.1


class Gpm:
    """Samples a GPU, or one MIG instance of it, and compares with the sample before."""

    names = tuple(metric.metric for metric in GPM_METRICS)
    every = 1.0

    def __init__(self, instance: tuple[Any, int] | None = None) -> None:
        """`instance` is a MIG instance: the handle of the GPU it is a part of, and its number there."""
        self._instance = instance
        self._buffers: list[Any] = []
        self._taken: float | None = None
        self._values: tuple[Value, ...] = (NA("needs two samples"),) * len(GPM_METRICS)

    def ask(self, library: Library, handle: Any, now: float) -> Iterable[Value]:
        """Take a sample and compare it with the one before."""
        if not self._buffers:
            self._allocate(library, handle)
        if self._taken is not None and now - self._taken < APART_S:
            return self._values
        older, newer = self._buffers
        self._sample(library, handle, older)
        self._buffers = [newer, older]
        if self._taken is not None:
            self._values = self._compare(library, newer, older)
        self._taken = now
        return self._values

    def release(self, library: Library) -> None:
        """Give the buffers back; the next ask starts anew."""
        buffers, self._buffers, self._taken = self._buffers, [], None
        for buffer in buffers:
            try:
                library.finish("nvmlGpmSampleFree", buffer)
            except Failure:
                continue  # the driver that held it is gone

    def _allocate(self, library: Library, handle: Any) -> None:
        whole = self._instance[0] if self._instance else handle
        if not library.call("nvmlGpmQueryDeviceSupport", whole).isSupportedDevice:
            raise Failure(NOT_SUPPORTED)
        self._buffers = [library.call("nvmlGpmSampleAlloc") for _ in range(2)]

    def _sample(self, library: Library, handle: Any, buffer: Any) -> None:
        if self._instance is None:
            library.call("nvmlGpmSampleGet", handle, buffer)
        else:
            library.call("nvmlGpmMigSampleGet", *self._instance, buffer)

    def _compare(self, library: Library, older: Any, newer: Any) -> tuple[Value, ...]:
        request = library.module.c_nvmlGpmMetricsGet_t()
        request.version = library.module.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(GPM_METRICS)
        request.sample1, request.sample2 = older, newer
        for slot, metric in zip(request.metrics, GPM_METRICS, strict=False):
            slot.metricId = metric.id
        library.call("nvmlGpmMetricsGet", request)
        return tuple(_value(library, slot, metric) for slot, metric in zip(request.metrics, GPM_METRICS, strict=False))


def _value(library: Library, slot: Any, metric: GpmMetric) -> Value:
    if slot.nvmlReturn != SUCCESS:
        return library.reason(slot.nvmlReturn)
    if not math.isfinite(slot.value):
        return NA("the driver has no value")
    return float(slot.value * metric.scale)
