"""What NVML is asked for and how often: a table, one row a read.

Rates follow the cost of the calls, measured on an H200: most getters take 2-10 µs, clocks 1-4 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from gputop.collectors.gpu.machine_memory import machine_memory
from gputop.collectors.gpu.nvml_library import ABSENT, FATAL, NOT_SUPPORTED, Failure, Library
from gputop.model import NA, Value

#: Asked at every look.
TICK = 0.0

#: NVML's "not available" in an unsigned 32-bit or 64-bit value (`NVML_VALUE_NOT_AVAILABLE`).
_NO_VALUES = frozenset({2**32 - 1, 2**64 - 1})

#: Arguments of the getters (nvml.h).
_SENSOR_GPU, _THRESHOLD_SLOWDOWN, _CLOCK_SM, _CLOCK_MEMORY, _UNCORRECTED, _VOLATILE = 0, 1, 1, 2, 1, 0


class Part(Protocol):
    """Something a GPU is asked for: some metrics, every so many seconds."""

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics it fills; they become NA when it fails."""

    @property
    def every(self) -> float:
        """Seconds between two asks."""

    def ask(self, library: Library, handle: Any, now: float) -> Iterable[Value]:
        """Return the values in the order of `names`.

        Raises:
            Failure: NVML refused.
        """


@dataclass(frozen=True, slots=True)
class Read:
    """A part without a memory of its own."""

    names: tuple[str, ...]
    every: float
    values: Callable[[Library, Any], Iterable[Value]]

    def ask(self, library: Library, handle: Any, now: float) -> Iterable[Value]:
        """Ask the driver."""
        return self.values(library, handle)


def share(percent: float) -> Value:
    """Turn NVML's percent into a share; drivers have been seen to report thousands."""
    return percent / 100 if 0 <= percent <= 100 else NA(f"the driver reported {percent:g} %")


def _number(function: str, scale: float, *arguments: int) -> Callable[[Library, Any], Iterable[Value]]:
    """Read one number by `function`, in units of `scale`."""

    def values(library: Library, handle: Any) -> Iterable[Value]:
        value = library.call(function, handle, *arguments)
        return (NA("the driver has no value") if value in _NO_VALUES else float(value * scale),)

    return values


def _use(function: str) -> Callable[[Library, Any], Iterable[Value]]:
    """Read the use of a video engine: percent, and the period it is measured over."""
    return lambda library, handle: (share(library.call(function, handle)[0]),)


def _utilization(library: Library, handle: Any) -> Iterable[Value]:
    rates = library.call("nvmlDeviceGetUtilizationRates", handle)
    return share(rates.gpu), share(rates.memory)


def _memory(library: Library, handle: Any) -> Iterable[Value]:
    """Version 2 keeps apart what the driver reserves; a GPU without memory of its own has the machine's."""
    try:
        info = library.call("nvmlDeviceGetMemoryInfo", handle, library.module.nvmlMemory_v2)
    except Failure as failure:
        if failure.code == NOT_SUPPORTED:
            return _shared_memory()
        if failure.code not in ABSENT:
            raise
        info = library.call("nvmlDeviceGetMemoryInfo", handle)
    if not info.total:
        return _shared_memory()
    reserved = getattr(info, "reserved", None)
    kept = NA("the driver is too old: counted as used") if reserved is None else float(reserved)
    used = float(info.used) if info.used <= info.total else NA("the driver reported more than there is")
    return used, kept, float(info.total), 0.0


def _shared_memory() -> Iterable[Value]:
    used, total = machine_memory()
    return used, NA("the GPU has no memory of its own"), total, 1.0


def _mig(library: Library, handle: Any) -> Iterable[Value]:
    current, _pending = library.call("nvmlDeviceGetMigMode", handle)
    return (float(current),)


MEMORY = Read(("memory_used_bytes", "memory_reserved_bytes", "memory_total_bytes", "memory_shared"), TICK, _memory)

READS: tuple[Read, ...] = (
    Read(("mig_mode",), 1, _mig),  # first, as it explains why others are missing
    Read(("utilization", "memory_bandwidth"), TICK, _utilization),
    MEMORY,
    Read(("power_w",), TICK, _number("nvmlDeviceGetPowerUsage", 1e-3)),
    Read(("temperature_c",), TICK, _number("nvmlDeviceGetTemperature", 1, _SENSOR_GPU)),
    Read(("encoder",), TICK, _use("nvmlDeviceGetEncoderUtilization")),
    Read(("decoder",), TICK, _use("nvmlDeviceGetDecoderUtilization")),
    Read(("clock_sm_mhz",), 2, _number("nvmlDeviceGetClockInfo", 1, _CLOCK_SM)),
    Read(("clock_memory_mhz",), 4, _number("nvmlDeviceGetClockInfo", 1, _CLOCK_MEMORY)),
    Read(("power_limit_w",), 10, _number("nvmlDeviceGetEnforcedPowerLimit", 1e-3)),
    Read(("fan",), 10, lambda library, handle: (share(library.call("nvmlDeviceGetFanSpeed", handle)),)),
    Read(("ecc_uncorrected",), 10, _number("nvmlDeviceGetTotalEccErrors", 1, _UNCORRECTED, _VOLATILE)),
    Read(("temperature_slowdown_c",), 60, _number("nvmlDeviceGetTemperatureThreshold", 1, _THRESHOLD_SLOWDOWN)),
)

#: Bits of the clocks event reasons that hold the clocks down (nvml.h, `nvmlClocksEventReason*`), and what to call
#: them. Idle, application clocks and display clocks are no trouble and are left out.
_REASON_BITS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
}


def throttle_reasons(library: Library, handle: Any) -> tuple[str, ...]:
    """Return what holds the clocks down at this moment; empty also where the driver does not tell."""
    for function in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        try:
            mask = library.call(function, handle)
        except Failure as failure:
            if failure.code in FATAL:
                raise
            continue
        return tuple(words for bit, words in _REASON_BITS.items() if mask & bit)
    return ()
