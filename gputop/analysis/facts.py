"""What a verdict is reached from: the numbers of one window, already summed up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gputop.analysis.results import FunctionRow, Headline, ThreadRow
from gputop.model import NA, Value, Window, known

_UNSAMPLED = NA("not sampled yet")
_NO_QUOTA = NA("no CPU quota")


def mean(values: Iterable[Value]) -> Value:
    """Return the mean of what is known; NA with the first reason when nothing is."""
    numbers: list[float] = []
    reason = "nothing was measured"
    for value in values:
        if not isinstance(value, NA):
            numbers.append(value)
        elif not numbers:
            reason = value.reason
    return sum(numbers) / len(numbers) if numbers else NA(reason)


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU over the window.

    Attributes:
        index, name: as NVML has them.
        utilization: mean share of time with a kernel running, by anybody.
        target_sm: mean share of the streaming multiprocessors' time that the target's processes used.
        memory_used_bytes, memory_total_bytes: of the device, newest in the window.
        target_memory_bytes: the target's part of it.
        target_present: the driver lists one of the target's processes on it.
        sm_active: mean share of its streaming multiprocessors' time with work on them, by anybody.
        pids: the target's processes on it, as the driver numbers them.
    """

    index: int
    name: str
    utilization: Value
    target_sm: Value
    memory_used_bytes: Value
    memory_total_bytes: Value
    target_memory_bytes: Value
    target_present: bool = False
    sm_active: Value = _UNSAMPLED
    pids: tuple[int, ...] = ()

    @property
    def used(self) -> bool:
        """Tell whether the target is known to use this GPU."""
        return self.target_present or bool(known(self.target_memory_bytes) or known(self.target_sm))


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """Why the target may have had no CPU, over the window.

    Attributes:
        machine: cores that there are.
        allowed: cores that the target may run on.
        mine, others: cores kept busy by the target and by other programs, of those it may run on.
        elsewhere: cores' worth of idle time on the cores that it may not run on.
        quota, throttled: as in `model.CpuLimits`, the mean of the window.
    """

    machine: int
    allowed: int
    mine: float
    others: float
    elsewhere: float = 0.0
    quota: Value = _NO_QUOTA
    throttled: Value = _NO_QUOTA


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything `diagnose.verdict` may look at.

    Attributes:
        window: the time it is about.
        headline: the thread that the answer is about; None when no thread was seen.
        threads: every thread seen, the headline's too.
        functions: hottest first, as `hot.functions` ranks them.
        callers: the user's own functions, with what they call in libraries counted as theirs, as `hot.callers` has it.
        gpus: all GPUs; empty when there are none or none can be read.
        cores_used: mean number of cores that the target kept busy.
        cores: cores of the machine that it may use.
        stack_samples, stack_failed: reads of Python stacks, and how many of them failed.
        cpus: the target's share of the CPUs; None when that was not read.
        backward: share of the headline thread's time that its autograd thread told (`analysis.backward`).
        unreadable: why the headline thread could not be looked into, as the newest look said; empty when it could.
    """

    window: Window
    headline: Headline | None = None
    threads: tuple[ThreadRow, ...] = ()
    functions: tuple[FunctionRow, ...] = ()
    callers: tuple[FunctionRow, ...] = ()
    gpus: tuple[GpuFacts, ...] = ()
    cores_used: Value = _UNSAMPLED
    cores: int = 0
    stack_samples: int = 0
    stack_failed: int = 0
    cpus: CpuFacts | None = None
    backward: float = 0.0
    unreadable: str = ""

    @property
    def target_gpus(self) -> tuple[GpuFacts, ...]:
        """Return the GPUs that the target uses; all of them when no part of any is known to be the target's."""
        return tuple(gpu for gpu in self.gpus if gpu.used) or self.gpus

    def gpus_of(self, pid: int) -> tuple[GpuFacts, ...]:
        """Return the GPUs that one process uses; the target's where the driver does not tell."""
        return tuple(gpu for gpu in self.gpus if pid in gpu.pids) or self.target_gpus
