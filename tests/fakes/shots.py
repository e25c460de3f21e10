"""Stores filled with a known story, for tests of what is saved from them."""

from __future__ import annotations

from collections.abc import Mapping

from gputop.analysis.results import Verdict
from gputop.model import (
    NA,
    Frame,
    GpuBatch,
    GpuReading,
    GpuUse,
    HostBatch,
    NativeFrame,
    Note,
    Observation,
    PeekBatch,
    PeekSample,
    ProcessBatch,
    ProcessInfo,
    ProcessReading,
    Session,
    StackBatch,
    StackSegment,
    Value,
    Window,
)
from gputop.snapshot.shot import Shot
from gputop.store import Store

PID = 4121
#: Unix time at monotonic 0; monotonic 100 is where the stories begin.
EPOCH = 1_795_999_900.25
START = 100.0

#: Names that a terminal, a shell, HTML, JSON or the collapsed format could take for something else.
HOSTILE = (
    "\x1b[31mred",
    'quote"and\\slash',
    "</script><script>alert(1)</script>",
    "a;b c\n10",
    "\u202egnp.exe",
    "x" * 10_000,
)

MAIN = Frame("main", "/app/train.py", 88)
STEP = Frame("train_step", "/app/train.py", 40)
LOAD = Frame("decode_image", "/app/data.py", 31)
SYNC = Frame("synchronize", "/lib/torch/cuda/__init__.py", 1162)

WAITING = Observation(
    running=True,
    chain=(
        NativeFrame("libc.so.6", "clock_gettime"),
        NativeFrame("libcuda.so.1", "cuStreamSynchronize"),
        NativeFrame("libcudart.so.12", "cudaStreamSynchronize"),
    ),
)
COMPUTING = Observation(running=True, chain=(NativeFrame("libpython3.12.so", "_PyEval_EvalFrameDefault"),))


def process(pid: int = PID, name: str = "train.py") -> ProcessInfo:
    return ProcessInfo(pid, 1, EPOCH, ("python", name, "--epochs", "90"), "/usr/bin/python3", name, "3.12.3")


def session() -> Session:
    return Session(process(), EPOCH, "node-7", 4, "0.1.0")


def store(name: str = "train.py") -> Store:
    """Return a store that knows whose samples are coming."""
    made = Store()
    made.add(session())
    made.add(ProcessBatch(START, (process(name=name),)))
    return made


def add_stacks(
    into: Store, tid: int, segments: list[tuple[float, float, tuple[Frame, ...]]], name: str = "MainThread"
) -> None:
    """Add one batch: (start, end, stack) in seconds since START."""
    stacks = tuple(dict.fromkeys(stack for _, _, stack in segments))
    rows = tuple(StackSegment(tid, START + a, START + b, stacks.index(stack)) for a, b, stack in segments)
    start, end = rows[0].start, rows[-1].end
    into.add(StackBatch(PID, start, end, {tid: name}, stacks, rows, round((end - start) * 100), 0, 100.0))


def add_peeks(
    into: Store,
    tid: int,
    seen: list[tuple[float, Observation]],
    seconds: float,
    starved: Mapping[int, float] | None = None,
    frame: tuple[Observation, Frame] | None = None,
) -> None:
    """Add one batch of looks at (time since START); the i-th had no CPU for starved[i] seconds.

    `frame` is the Python frame that the looks with that observation have read.
    """
    observations = tuple(dict.fromkeys(observation for _, observation in seen))
    samples = tuple(
        PeekSample(
            START + at,
            tid,
            observations.index(observation),
            seconds,
            (starved or {}).get(i, 0.0),
            0 if frame and observation == frame[0] else -1,
        )
        for i, (at, observation) in enumerate(seen)
    )
    start, end, names = samples[0].time - seconds, samples[-1].time, {tid: "python"}
    into.add(PeekBatch(PID, start, end, observations, samples, names, frames=frame[1:] if frame else ()))


def add_machine(into: Store, at: float, cores: tuple[float, ...] = (0.9, 0.1, 0.2, 0.0)) -> None:
    """Add one reading of the machine and of one GPU without power readings, `at` seconds since START."""
    reading = ProcessReading(PID, 1.1, 3 * 2.0**30, ())
    into.add(
        HostBatch(START + at, 0.5, cores, (0.8, 0.1, 0.2, 0.0), 8 * 2.0**30, 64 * 2.0**30, (1.0, 1.0, 1.0), (reading,))
    )
    metrics: dict[str, Value] = {
        "utilization": 0.28,
        "memory_used_bytes": 12.0 * 2**30,
        "power_w": NA("not supported"),
        "gpm.sm_active": 0.22,
    }
    gpu = GpuReading(0, "GPU-1", "H200", metrics, GpuUse(0.26, NA("not asked"), 11.0 * 2**30))
    into.add(GpuBatch(START + at, (gpu,), {0: ((START + at - 0.4, 0.2), (START + at - 0.2, 0.4))}))


def story() -> Store:
    """Return two seconds: 1 s decoding, 0.9 s waiting for the GPU, a gap of 0.1 s between two batches of stacks."""
    made = store()
    add_stacks(made, PID, [(0.0, 0.6, (MAIN, STEP, LOAD)), (0.6, 0.95, (MAIN, STEP))])
    add_stacks(made, PID, [(1.05, 1.5, (MAIN, STEP, SYNC)), (1.5, 2.0, (MAIN, SYNC))])
    looks = [(0.02 * i, COMPUTING if i <= 50 else WAITING) for i in range(1, 101)]
    add_peeks(made, PID, looks, 0.02, {10: 0.005}, (WAITING, SYNC))
    for at in (0.5, 1.0, 1.5, 2.0):
        add_machine(made, at)
    made.add(Note(START, "gpu", "gpm", "GPM is not supported", "use a newer GPU"))
    return made


VERDICT = Verdict(
    "gpu-bound", "GPU bound", "MainThread waits 45 % for the GPU", ("gpu_wait .45",), ("use a larger batch",)
)


def shot(of: Store | None = None, seconds: float = 2.0) -> Shot:
    """Return a window of `seconds` from START."""
    return Shot(of or story(), Window(START, START + seconds), session(), EPOCH, VERDICT)
