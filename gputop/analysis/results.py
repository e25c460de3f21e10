"""What the analysis says about a window: frozen dataclasses that every renderer (screen, text, JSON) reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gputop.analysis.efficiency import Efficiency
from gputop.analysis.states import COMPUTE, GPU_WAIT, WORKED_FOR, groups
from gputop.model import CostBatch, Frame, GpuReading, HostBatch, Note, ProcessInfo, Session, Stack, Value
from gputop.model import Window as Window

#: State id to share of the time looked at; sums to 1 unless empty (nothing was seen).
States = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """One thread over the window.

    Attributes:
        name: Python's name for it where known, else the kernel's.
        role: what it is for ("main", "python", "dataloader", "autograd", "cuda", "pool", "native").
        samples: looks it had; `seconds` is the time they stand for.
        states, detail: shares; detail keys are "state.kind" ("gpu_wait.sync").
    """

    pid: int
    tid: int
    name: str
    role: str
    main: bool
    samples: int
    seconds: float
    cpu: Value
    states: States
    detail: Mapping[str, float]

    @property
    def works(self) -> float:
        """Return the share of its time in which it computes or uses the GPU, by threads of its own too, as far as is
        known."""
        sums = groups(dict(self.states))
        return sums[COMPUTE] + sums[GPU_WAIT] + sum(self.detail.get(kind, 0.0) for kind in WORKED_FOR)


@dataclass(frozen=True, slots=True)
class Headline:
    """The thread that the answer is about, and its split into the four groups (shares that sum to 1)."""

    pid: int
    tid: int
    name: str
    compute: float
    gpu_wait: float
    other_wait: float
    idle: float
    states: States
    detail: Mapping[str, float]


class NativePart(NamedTuple):
    """A native function that a Python line called: demangled name, module's file name, and its share of the line's own
    time, which is what the innermost native function took that says something (`gputop.analysis.native`)."""

    name: str
    module: str
    share: float


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """A function over the window.

    Attributes:
        name, file: a native function's file is its module's ("libcuda.so.1").
        line: the hottest line's number; 0 for a native function.
        self_share, total_share: of the window's wall time, summed over the threads chosen (so they may exceed 1 when
            threads are merged).
        states: what its self time went into.
        native: the native functions that its own time went into, most first; the rest is the interpreter's.
        is_native: it is a native function itself, of a program without Python.
    """

    name: str
    file: str
    line: int
    self_share: float
    total_share: float
    states: States
    native: tuple[NativePart, ...] = ()
    is_native: bool = False

    @property
    def place(self) -> str:
        """Return where it is, in one word: "train.py:31", "libcuda.so.1"."""
        return f"{self.file}:{self.line}" if self.line or not self.is_native else self.file


@dataclass(frozen=True, slots=True)
class LineRow:
    """One source line; shares and `native` as in `FunctionRow`. `states` is of its self time (of its total time where
    it has none of its own), `total_states` of all time in it and in what it calls."""

    file: str
    line: int
    function: str
    self_share: float
    total_share: float
    states: States
    total_states: States = field(default_factory=dict)
    native: tuple[NativePart, ...] = ()

    @property
    def place(self) -> str:
        """Return where it is, in one word: "train.py:31"."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class FlameNode:
    """A node of the call tree: `total` and `self` are seconds; children sorted by weight."""

    frame: Frame
    total: float
    self: float
    states: States
    children: tuple[FlameNode, ...]


@dataclass(frozen=True, slots=True)
class CallTree:
    """The call tree of a window; shares are of `seconds`, those that stacks were watched for."""

    root: FlameNode
    seconds: float


@dataclass(frozen=True, slots=True)
class Column:
    """One step of the timeline: the headline thread's states (empty = not looked at)."""

    start: float
    seconds: float
    states: States


@dataclass(frozen=True, slots=True)
class Series:
    """A curve on the timeline's axis: one value per column (share 0..1), NA where nothing was measured."""

    label: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """States, CPU and GPUs on one time axis; all tuples have the same length."""

    columns: tuple[Column, ...]
    cpu: Series
    gpus: tuple[Series, ...]
    gpu_memory: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class GpuHistory:
    """One GPU over a window.

    Attributes:
        newest, read_at: the newest reading, and its time.
        mean: the same with the window's means of utilisation, GPM counters and throttle times.
        efficiency: what limited it, judged by the means.
        curves: name ("utilization", "memory", "power", "gpm.sm_active", "gpm.tensor", "gpm.dram") to one share (of the
            full scale) for each step of the window, NA where nothing was measured.
    """

    newest: GpuReading
    read_at: float
    mean: GpuReading
    efficiency: Efficiency
    curves: Mapping[str, tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class CpuUse:
    """The machine's cores over the window.

    Attributes:
        cores: mean share in use of each core, by anybody.
        target: mean number of cores that the target kept busy.
        children: the part of it by processes that lived between two looks.
    """

    cores: tuple[float, ...]
    target: Value
    children: Value


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong, in words.

    Attributes:
        id: one of `diagnose.DIAGNOSES` ("gpu-bound", "gpu-starved", "data-bound", …), "mixed" or "no-data".
        title: a few words for the first line ("GPU starved").
        sentence: one sentence with the numbers ("idle 72 % of the last 60 s: MainThread spends 61 % in decode_image").
        evidence: the numbers behind it, one sentence each.
        advice: what usually helps, most likely first.
        likely: it is a guess; the screen says so.
    """

    id: str
    title: str
    sentence: str
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    likely: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything the overview and the report say about one window.

    Attributes:
        host, cpu: the newest reading of the machine, and the window's means; None when there is none.
        gpus, gpus_at: the newest reading of the GPUs in the window, and its time (0 when there is none).
        ended, gone: pid to exit code (None when not known) of the processes that ended, and to what they were.
        energy_j, efficiency: GPU index to the energy used in the window, and to what limited the GPU in it.
    """

    session: Session
    window: Window
    processes: tuple[ProcessInfo, ...]
    ended: Mapping[int, int | None]
    threads: tuple[ThreadRow, ...]
    headline: Headline | None
    functions: tuple[FunctionRow, ...]
    lines: tuple[LineRow, ...]
    timeline: Timeline
    host: HostBatch | None
    gpus: tuple[GpuReading, ...]
    gpus_at: float = 0.0
    energy_j: Mapping[int, Value] = field(default_factory=dict)
    efficiency: Mapping[int, Efficiency] = field(default_factory=dict)
    verdict: Verdict = Verdict("no-data", "waiting for samples", "nothing has been sampled yet")
    cost: CostBatch | None = None
    notes: tuple[Note, ...] = ()
    gone: Mapping[int, ProcessInfo] = field(default_factory=dict)
    stack: Stack = ()
    cpu: CpuUse | None = None

    @property
    def program(self) -> ProcessInfo:
        """Return the process that the target is about: its root, or, where that only wraps another without running
        Python itself (`timeout`, `mpirun`, a shell), the headline's process."""
        root = self.session.root
        if root.python or self.headline is None:
            return root
        return next(
            (process for process in self.processes if process.pid == self.headline.pid and process.python), root
        )
