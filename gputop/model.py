"""The nouns of gputop: what was sampled, in frozen dataclasses with units in their docstrings.

Times are `time.monotonic()` seconds. A share is a fraction between 0 and 1. A value that could not be measured is
`NA(reason)`, never an invented 0. All text is printable (see `gputop.text`). Collectors hand over *batches*; the store
keeps them, a recording is a file of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class NA:
    """A value that is not available, and why; falsy, so `value or fallback` reads naturally."""

    reason: str

    def __bool__(self) -> bool:
        return False


#: A number, or the reason why there is none.
Value = float | NA


def known(value: Value) -> float | None:
    """Return the number, or None where it is not available (as JSON wants it)."""
    return None if isinstance(value, NA) else value


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, monotonic seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Return its length."""
        return self.end - self.start


# ---------------------------------------------------------------------------------------------- processes


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """What a process is, as far as it does not change while it lives.

    Attributes:
        pid: as seen from here.
        ppid: its parent.
        started_unix: start in seconds since the epoch; with `pid` it names one process for good.
        cmdline: argument vector.
        exe: path of the running program, empty when unreadable.
        name: short name for lists ("train.py" rather than "python").
        python: version such as "3.12.3", or None when no CPython is loaded.
        frameworks: ("torch 2.11.0", …) found loaded, without asking the program.
        rank: position in a distributed job (RANK), or None.
        local_rank: position on this machine (LOCAL_RANK), or None.
        aliases: every pid it has, in its own PID namespaces too (NSpid), for matching with NVML.
    """

    pid: int
    ppid: int
    started_unix: float
    cmdline: tuple[str, ...]
    exe: str = ""
    name: str = ""
    python: str | None = None
    frameworks: tuple[str, ...] = ()
    rank: int | None = None
    local_rank: int | None = None
    aliases: tuple[int, ...] = ()

    @property
    def language(self) -> str:
        """Return whether it runs Python, in words, for people; a process of somebody else cannot be looked into."""
        if self.python is not None:
            return f"Python {self.python}"
        if self.exe:
            return "not a Python process"
        if self.kernel:
            return "a thread of the kernel"
        program = os.path.basename(self.cmdline[0]) if self.cmdline else ""
        if program.startswith("python"):
            return "Python by its name; it cannot be looked into"
        return "Python or not: it cannot be looked into"

    @property
    def kernel(self) -> bool:
        """Tell whether it is a thread of the kernel, which has no program and no arguments."""
        return not self.exe and not self.cmdline


# ------------------------------------------------------------------------------------------- Python stacks


class Frame(NamedTuple):
    """One Python frame: function, source file, current line (0 when unknown)."""

    name: str
    file: str
    line: int


#: Root first.
Stack = tuple[Frame, ...]


class StackSegment(NamedTuple):
    """A thread kept one stack from `start` to `end`; `stack` indexes the batch's `stacks`."""

    tid: int
    start: float
    end: float
    stack: int


@dataclass(frozen=True, slots=True)
class StackBatch:
    """Python stacks of one process over one window.

    Attributes:
        pid: the process.
        start, end: the time covered; time between two batches was not looked at.
        threads: native thread id to name, for every thread that showed a Python stack.
        stacks: the different stacks seen.
        segments: who had which when.
        samples, failed: how many times all threads were read, and how many of those reads failed. A failed
            read leaves the stack before it open: it is an extension, not a gap.
        rate_hz: reads asked for each second.
    """

    pid: int
    start: float
    end: float
    threads: Mapping[int, str]
    stacks: tuple[Stack, ...]
    segments: tuple[StackSegment, ...]
    samples: int
    failed: int
    rate_hz: float


# --------------------------------------------------------------------------------------------------- peeks


class NativeFrame(NamedTuple):
    """One native frame: the module's file name ("libcuda.so.1", "[vdso]", "" for JIT code) and the symbol.

    `symbol` is the exported or .symtab name whose range holds the address, as it is in the file (mangled); empty
    when there is none.
    """

    module: str
    symbol: str


@dataclass(frozen=True, slots=True)
class Observation:
    """What one peek saw of one thread. Equal observations are the same state.

    Attributes:
        running: runnable when looked at (on a CPU, or waiting for one).
        syscall: name of the system call it is blocked in ("futex", "epoll_wait"), empty when running.
        waits_on: what that call concerns: "gil" (a futex in the interpreter's own data), "pipe", "socket", "file",
            "tty", "eventfd", "epoll", "nvidia", "process", "timer", or empty.
        chain: native frames, leaf first.
        complete: the chain reached the thread's start; False where unwind tables were missing (JIT, MKL).
        stopped: "T" in job-control or tracing stop, "D" in uninterruptible sleep, "Z" dead; else empty.
        unreadable: why nothing could be read; empty when it could.
    """

    running: bool = False
    syscall: str = ""
    waits_on: str = ""
    chain: tuple[NativeFrame, ...] = ()
    complete: bool = True
    stopped: str = ""
    unreadable: str = ""


class PeekSample(NamedTuple):
    """One look at one thread; it stands for the `seconds` before `time`.

    `observation` indexes the batch's `observations`. For `starved` of those seconds the thread was runnable but had
    no CPU (exact, from the scheduler's run-queue wait), the rest belongs to the state observed.

    `frame` indexes the batch's `frames`: the Python frame that the thread was in at that very moment; -1 where that is
    not known.
    """

    time: float
    tid: int
    observation: int
    seconds: float
    starved: float
    frame: int = -1


@dataclass(frozen=True, slots=True)
class PeekBatch:
    """Looks at the threads of one process.

    Attributes:
        pid: the process.
        start, end: the time covered.
        observations, samples: what was seen, and when.
        names: native thread id to the kernel's thread name (`comm`).
        stops: how often a running thread was stopped.
        stopped_s: seconds that threads were held up in all.
        failed: looks that gave nothing.
        rate_hz: looks asked for each second at the main and busy threads.
        frames: the current Python frames seen; empty in recordings made before there were any.
    """

    pid: int
    start: float
    end: float
    observations: tuple[Observation, ...]
    samples: tuple[PeekSample, ...]
    names: Mapping[int, str]
    stops: int = 0
    stopped_s: float = 0.0
    failed: int = 0
    rate_hz: float = 0.0
    frames: tuple[Frame, ...] = ()


# ---------------------------------------------------------------------------------------------------- host


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


# ----------------------------------------------------------------------------------------------------- GPU


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


# ------------------------------------------------------------------------------------------------- the rest


@dataclass(frozen=True, slots=True)
class ProcessBatch:
    """The target's processes: all that live now, and those that ended since the batch before (pid, code or None)."""

    time: float
    processes: tuple[ProcessInfo, ...]
    ended: tuple[tuple[int, int | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """Something that does not work, or works less well, and what helps.

    `source` names the part ("stacks", "peek", "gpu", "host", "target", "snapshot", "engine"); the newest note of a
    source and `key` replaces the one before; an empty `what` withdraws it.
    """

    time: float
    source: str
    key: str
    what: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class CostBatch:
    """What gputop costs over the last seconds.

    Attributes:
        own_cpu: part ("screen", "peek", "py-spy", "gpu", "rest") to share of one core.
        stopped: share of the time that the most stopped thread was held up.
        stack_rate_hz, peek_rate_hz: what the governor allows now.
        failed: share of failed samples.
        limited: why rates are below what was asked for, empty when they are not.
    """

    time: float
    own_cpu: Mapping[str, float]
    stopped: float
    stack_rate_hz: float
    peek_rate_hz: float
    failed: float
    limited: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """What a recording is of: written first, known before anything is sampled.

    `epoch` is the Unix time at monotonic 0: unix = monotonic + epoch.
    """

    root: ProcessInfo
    epoch: float
    hostname: str
    cores: int
    version: str


Batch = StackBatch | PeekBatch | HostBatch | GpuBatch | ProcessBatch | Note | CostBatch | Session
