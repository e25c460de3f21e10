"""What can be known about a GPU: one table, one row a metric.

The names are stable: reports, recordings, traces and the exporter use them. A backend fills those that its driver
has; where a value is missing its reading holds `NA(reason)`. To add a metric, add its row here and the read that
fills it in the backend (for NVML: `nvml_reads.READS`).
"""

from __future__ import annotations

from dataclasses import dataclass

SHARE, BYTES, BYTES_PER_SECOND, WATT, JOULE, CELSIUS, MEGAHERTZ, COUNT, FLAG = (
    "share",
    "bytes",
    "bytes/s",
    "W",
    "J",
    "°C",
    "MHz",
    "count",
    "flag",
)

DEVICE, PROCESS = "device", "process"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: stable key in `GpuReading.metrics`.
        label: a few letters for the screen.
        unit: a share is 0..1, a flag 0 or 1; every other unit is absolute.
        meaning: one sentence for help and exporters.
        full: the metric that is its full scale, empty when there is none.
        scope: the whole device's, or the watched processes' own part of it: "process.X" is `GpuUse.X`.
    """

    name: str
    label: str
    unit: str
    meaning: str
    full: str = ""
    scope: str = DEVICE


#: Why the clocks are held down, by the driver's own nanosecond counters: suffix of the metric, words for the screen.
THROTTLES = {
    "power_cap": "power cap",
    "thermal": "thermal",
    "sync_boost": "sync boost",
    "board_limit": "board limit",
    "reliability": "reliability",
    "sw_thermal": "thermal (software)",
    "hw_thermal": "thermal (hardware)",
    "power_brake": "power brake",
}

METRICS: tuple[Metric, ...] = (
    Metric("utilization", "util", SHARE, "time in which at least one kernel ran, however small"),
    Metric("memory_bandwidth", "mem bw", SHARE, "time in which device memory was read or written"),
    Metric(
        "memory_used_bytes", "memory", BYTES, "device memory in use, without what is reserved", "memory_total_bytes"
    ),
    Metric("memory_reserved_bytes", "reserved", BYTES, "device memory that driver and firmware keep"),
    Metric("memory_total_bytes", "of", BYTES, "device memory in all"),
    Metric("memory_shared", "shared", FLAG, "1: the GPU has no memory of its own, memory_* are the machine's"),
    Metric("power_w", "power", WATT, "power drawn, as the driver averages it (1 s on most)", "power_limit_w"),
    Metric("power_limit_w", "limit", WATT, "power that the driver holds it below"),
    Metric("energy_j", "energy", JOULE, "energy used since gputop attached"),
    Metric("temperature_c", "temp", CELSIUS, "temperature of the chip", "temperature_slowdown_c"),
    Metric("temperature_slowdown_c", "slows at", CELSIUS, "temperature at which the hardware slows itself"),
    Metric("clock_sm_mhz", "SM clock", MEGAHERTZ, "clock of the streaming multiprocessors"),
    Metric("clock_memory_mhz", "mem clock", MEGAHERTZ, "clock of the device memory"),
    Metric("pcie_rx_bps", "PCIe ↓", BYTES_PER_SECOND, "bytes a second from the host to the GPU"),
    Metric("pcie_tx_bps", "PCIe ↑", BYTES_PER_SECOND, "bytes a second from the GPU to the host"),
    Metric("nvlink_rx_bps", "NVLink ↓", BYTES_PER_SECOND, "bytes a second received over all NVLinks"),
    Metric("nvlink_tx_bps", "NVLink ↑", BYTES_PER_SECOND, "bytes a second sent over all NVLinks"),
    Metric("encoder", "enc", SHARE, "use of the video encoder"),
    Metric("decoder", "dec", SHARE, "use of the video decoder"),
    Metric("ecc_uncorrected", "ECC", COUNT, "uncorrected memory errors since the driver was loaded"),
    Metric("fan", "fan", SHARE, "fan speed asked for"),
    Metric("mig_mode", "MIG", FLAG, "1: the GPU is divided into instances"),
    Metric("throttled", "throttled", SHARE, "time in which the longest active reason held the clocks down"),
    *(
        Metric(f"throttle.{name}", words, SHARE, f"time in which the clocks were held down: {words}")
        for name, words in THROTTLES.items()
    ),
    Metric("gpm.graphics", "busy", SHARE, "time in which any compute or graphics work was active"),
    Metric("gpm.sm_active", "SM active", SHARE, "multiprocessors that had work, averaged over all and over time"),
    Metric("gpm.sm_occupancy", "occupancy", SHARE, "warps resident, of those the multiprocessors could hold"),
    Metric("gpm.tensor", "tensor", SHARE, "time in which tensor cores worked"),
    Metric("gpm.fp32", "FP32", SHARE, "time in which the FP32 pipe worked"),
    Metric("gpm.dram", "DRAM", SHARE, "device memory bandwidth used, of the theoretical peak"),
    Metric("gpm.pcie_rx_bps", "PCIe ↓", BYTES_PER_SECOND, "bytes a second from the host to the GPU, by GPM"),
    Metric("gpm.pcie_tx_bps", "PCIe ↑", BYTES_PER_SECOND, "bytes a second from the GPU to the host, by GPM"),
    Metric("gpm.nvlink_rx_bps", "NVLink ↓", BYTES_PER_SECOND, "bytes a second received over all NVLinks, by GPM"),
    Metric("gpm.nvlink_tx_bps", "NVLink ↑", BYTES_PER_SECOND, "bytes a second sent over all NVLinks, by GPM"),
    Metric("process.sm", "SM", SHARE, "time in which the watched processes' kernels ran", scope=PROCESS),
    Metric("process.memory_bandwidth", "mem bw", SHARE, "time in which memory was used for them", scope=PROCESS),
    Metric("process.memory_bytes", "memory", BYTES, "memory they hold", "memory_total_bytes", scope=PROCESS),
)

BY_NAME = {metric.name: metric for metric in METRICS}

#: Names of what a reading says about the whole device.
DEVICE_METRICS = tuple(metric.name for metric in METRICS if metric.scope == DEVICE)
