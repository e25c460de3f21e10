"""Known threads made by hand: what they were seen to do, second by second."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.model import (
    Frame,
    HostBatch,
    NativeFrame,
    Observation,
    PeekBatch,
    PeekSample,
    ProcessInfo,
    ProcessReading,
    Session,
    Stack,
    StackBatch,
    StackSegment,
    ThreadReading,
    Value,
)
from gputop.store import Store

PID = 100
ROOT = ProcessInfo(PID, 1, 1.7e9, ("python", "train.py"), name="train.py")

PYTHON = Observation(running=True, chain=(NativeFrame("libpython3.11.so.1.0", "_PyEval_EvalFrameDefault"),))
NATIVE = Observation(running=True, chain=(NativeFrame("libmath.so", "kernel"),))
SYNC = Observation(
    running=True,
    chain=(
        NativeFrame("libc.so.6", "clock_gettime"),
        NativeFrame("libcuda.so.1", ""),
        NativeFrame("libcuda.so.1", "cuStreamSynchronize"),
    ),
)
LOCK = Observation(
    syscall="futex",
    chain=(
        NativeFrame("libc.so.6", "__futex_abstimed_wait_common"),
        NativeFrame("libpython3.11.so.1.0", "PyThread_acquire_lock_timed"),
        NativeFrame("libpython3.11.so.1.0", "lock_PyThread_acquire_lock"),
        NativeFrame("libpython3.11.so.1.0", "_PyEval_EvalFrameDefault"),
    ),
)
SLEEP = Observation(syscall="clock_nanosleep", waits_on="timer")

MAIN = Frame("main", "train.py", 10)
DECODE = Frame("decode", "data.py", 31)
STEP = Frame("step", "train.py", 88)
LOADER: Stack = (
    MAIN,
    Frame("_get_data", "/site-packages/torch/utils/data/dataloader.py", 1000),
    Frame("get", "/usr/lib/python3.11/queue.py", 171),
    Frame("wait", "/usr/lib/python3.11/threading.py", 320),
)
WORKER: Stack = (
    Frame("_worker", "/usr/lib/python3.11/concurrent/futures/thread.py", 81),
    Frame("wait", "/usr/lib/python3.11/threading.py", 320),
)

#: (start, end, what was seen or which stack was there)
Seen = tuple[float, float, Observation]
Stood = tuple[float, float, Stack]


def session(cores: int = 4) -> Session:
    """Return the session that these threads belong to."""
    return Session(ROOT, 1.7e9, "box", cores, "0.1")


def peeks(
    tid: int,
    seen: Sequence[Seen],
    pid: int = PID,
    period: float = 0.02,
    starved: float = 0.0,
    frames: Sequence[Frame] = (),
) -> PeekBatch:
    """Return looks every `period` seconds, each `starved` seconds of it without a CPU, and the frame it read."""
    observations = tuple(dict.fromkeys(observation for _, _, observation in seen))
    samples = []
    for place, (start, end, observation) in enumerate(seen):
        count = max(1, round((end - start) / period))
        length = (end - start) / count
        samples += [
            PeekSample(
                start + length * (number + 1),
                tid,
                observations.index(observation),
                length,
                starved,
                place if frames else -1,
            )
            for number in range(count)
        ]
    return PeekBatch(pid, 0.0, 0.0, observations, tuple(samples), {tid: f"comm{tid}"}, frames=tuple(frames))


def looks(tid: int, rows: Sequence[tuple[float, Observation, Frame | None]], period: float = 0.02) -> PeekBatch:
    """Return single looks at (time, what was seen, the frame that the thread was in)."""
    observations = tuple(dict.fromkeys(observation for _, observation, _ in rows))
    frames = tuple(dict.fromkeys(frame for _, _, frame in rows if frame))
    samples = tuple(
        PeekSample(time, tid, observations.index(seen), period, 0.0, frames.index(frame) if frame else -1)
        for time, seen, frame in rows
    )
    return PeekBatch(PID, 0.0, 0.0, observations, samples, {tid: f"comm{tid}"}, frames=frames)


def stacks(tid: int, stood: Sequence[Stood], pid: int = PID, name: str = "MainThread") -> StackBatch:
    """Return Python stacks as one batch."""
    different = tuple(dict.fromkeys(stack for _, _, stack in stood))
    segments = tuple(StackSegment(tid, start, end, different.index(stack)) for start, end, stack in stood)
    begin, end = min(row[0] for row in stood), max(row[1] for row in stood)
    return StackBatch(pid, begin, end, {tid: name}, different, segments, 100, 1, 100.0)


def host(
    time: float, cpu: dict[int, Value], used: float = 1.0, starved: Value = 0.0, pid: int = PID, name: str = ""
) -> HostBatch:
    """Return a reading over half a second: each thread's CPU share, and the process's cores."""
    threads = tuple(ThreadReading(tid, name or f"comm{tid}", share, starved, "S", 0) for tid, share in cpu.items())
    process = ProcessReading(pid, used, 1e9, threads)
    return HostBatch(time, 0.5, (used / 4,) * 4, (used / 4,) * 4, 1e9, 4e9, (1.0, 1.0, 1.0), (process,))


def stored(*batches: object) -> Store:
    """Return a store with the session and these batches."""
    store = Store()
    for batch in (session(), *batches):
        store.add(batch)  # type: ignore[arg-type]
    return store
