"""Readings of the machine, of threads and of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gputop.model.values import NA, Value, known


@dataclass(frozen=True, slots=True)
class ThreadReading:
    """CPU use of one thread since the reading before.

    Attributes:
        tid, name: native thread id and the kernel's name for it.
        cpu: share of one core.
        starved: share of the time it was runnable without a CPU.
        state: the kernel's letter (R, S, D, T, Z).
        core: the core it ran on last.
    """

    tid: int
    name: str
    cpu: Value
    starved: Value
    state: str
    core: int


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """CPU and memory of one process of the target.

    Attributes:
        cpu: cores in use: 1.0 is one core.
        children: cores in use by those children whose time is in nobody's `cpu`, because they lived between two looks;
            what a child used after its last look is in it too. It is known when they have ended.
    """

    pid: int
    cpu: Value
    rss_bytes: Value
    threads: tuple[ThreadReading, ...]
    children: Value = NA("not counted when this was recorded")


@dataclass(frozen=True, slots=True)
class CpuLimits:
    """What bounds the CPU time of the target's first process.

    Attributes:
        allowed: the cores it may run on (affinity, cpuset), as the kernel lists them ("0-3,8"); empty when not known.
        quota: cores' worth of time that its control group may use; NA without a quota.
        throttled: share of the quota's periods in which the group used it up and was held until the next one.
    """

    allowed: str
    quota: Value
    throttled: Value


@dataclass(frozen=True, slots=True)
class HostBatch:
    """The machine and the target's processes at one moment, averaged over the `seconds` before it.

    Attributes:
        cores: share in use of each core, by anybody.
        target_cores: share of each core used by the target's threads, by the core each ran on last.
        memory_used_bytes, memory_total_bytes: of the machine (or its cgroup limit when lower).
        load: 1, 5 and 15 minute load averages.
        limits: of the target's first process; None in recordings made before they were read.
    """

    time: float
    seconds: float
    cores: tuple[float, ...]
    target_cores: tuple[float, ...]
    memory_used_bytes: Value
    memory_total_bytes: Value
    load: tuple[float, ...]
    processes: tuple[ProcessReading, ...]
    limits: CpuLimits | None = None

    @property
    def target_cpu(self) -> Value:
        """Return the cores in use by the target's processes, with their children of a moment."""
        if not self.processes:
            return NA("no process of the target was there")
        known_cpu = [process.cpu for process in self.processes if not isinstance(process.cpu, NA)]
        return sum(known_cpu) + (known(self.target_children) or 0.0) if known_cpu else self.processes[0].cpu

    @property
    def target_children(self) -> Value:
        """Return the part of `target_cpu` by children that lived between two looks."""
        counted = [process.children for process in self.processes if not isinstance(process.children, NA)]
        return sum(counted) if counted else NA("no process of the target was there twice")


@dataclass(frozen=True, slots=True)
class GpuUse:
    """The watched processes' own part of one GPU.

    Attributes:
        sm: share of the time that their kernels ran (NVML's per-process "SM utilization"), summed over them.
        memory_bandwidth: share of the time that device memory was read or written for them.
        memory_bytes: device memory they hold.
        present: the driver lists one of them on this GPU, also where it gives no numbers for it.
        by_process: (pid as the driver has it, bytes of device memory) of those whose memory it tells.
    """

    sm: Value
    memory_bandwidth: Value
    memory_bytes: Value
    present: bool = False
    by_process: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment; device-wide unless the name says otherwise.

    `metrics` maps a name of `gputop.collectors.gpu.metrics` ("utilization", "memory_used_bytes", "power_w",
    "gpm.sm_active", …) to its value, so that a new metric needs no new field. Shares are 0..1.

    Attributes:
        index, uuid, name: NVML's index, stable id, product name.
        target: the watched processes' own part.
        others: how many other processes use it, or NA.
        throttle: reasons active now ("power cap", "thermal", …).
        error: why the whole GPU cannot be read ("GPU is lost"), empty when it can. Such a GPU keeps its row.
    """

    index: int
    uuid: str
    name: str
    metrics: Mapping[str, Value]
    target: GpuUse
    others: Value = NA("not asked")
    throttle: tuple[str, ...] = ()
    error: str = ""

    @property
    def used(self) -> bool:
        """Tell whether the watched processes are known to use this GPU."""
        return self.target.present or bool(known(self.target.memory_bytes) or known(self.target.sm))

    def metric(self, name: str) -> Value:
        """Return a metric, or NA when this backend has no such metric."""
        return self.metrics.get(name, NA("not reported by this GPU"))


@dataclass(frozen=True, slots=True)
class GpuBatch:
    """All GPUs at one moment, and the finer utilisation curve since the batch before.

    `curve` holds, for each GPU index, (time, utilisation share) pairs from the driver's own ring buffer.
    """

    time: float
    gpus: tuple[GpuReading, ...]
    curve: Mapping[int, tuple[tuple[float, float], ...]] = field(default_factory=dict)
