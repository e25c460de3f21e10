"""Batches as a busy training job gives them, made up: the load for benches, memory bounds and file sizes."""

from __future__ import annotations

import random
from collections.abc import Iterator

from gputop.model import (
    NA,
    Batch,
    CostBatch,
    Frame,
    GpuBatch,
    GpuReading,
    GpuUse,
    HostBatch,
    NativeFrame,
    Observation,
    PeekBatch,
    PeekSample,
    ProcessBatch,
    ProcessInfo,
    ProcessReading,
    Session,
    Stack,
    StackBatch,
    StackSegment,
    ThreadReading,
    Value,
)

PID = 1000
PARKED = Observation(
    syscall="futex",
    chain=tuple(NativeFrame("libc.so.6", f"wait_{number}") for number in range(12)),
)


class Feed:
    """One process: a main thread whose stack changes all the time, `busy` threads like it, and `parked` ones.

    Python stacks come in windows of a second at 100 Hz, looks at 50 Hz (5 Hz for parked threads) twice a second,
    readings of machine and GPU twice a second.
    """

    def __init__(self, busy: int = 1, parked: int = 40, gpus: int = 1, cores: int = 16, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self.busy = [PID + number for number in range(busy)]
        self.parked = [PID + busy + number for number in range(parked)]
        self._gpus, self._cores = gpus, cores
        self._stacks = [_stack(number, self._random) for number in range(300)]
        self._seen = [_observation(number, self._random) for number in range(200)]
        self._idle = tuple(Frame(f"wait_{depth}", "/usr/lib/python3.11/threading.py", depth) for depth in range(8))

    def session(self) -> Session:
        """Return what the recording is of."""
        return Session(self.process(), 1.7e9, "box", self._cores, "0.1")

    def process(self) -> ProcessInfo:
        """Return the one process."""
        return ProcessInfo(PID, 1, 1.7e9, ("python", "train.py"), "/usr/bin/python", "train.py", "3.11.7")

    def run(self, start: float, seconds: int) -> Iterator[Batch]:
        """Yield what comes in `seconds` seconds from `start`, in the order of arrival."""
        yield self.session()
        yield ProcessBatch(start, (self.process(),))
        for second in range(seconds):
            yield from self.second(start + second)

    def second(self, start: float) -> Iterator[Batch]:
        """Yield the batches of one second."""
        for half in (start, start + 0.5):
            yield self._peeks(half)
            yield self._host(half + 0.5)
            yield self._gpu(half + 0.5)
        yield self._stacks_of(start)
        yield CostBatch(start + 1, {"screen": 0.02, "peek": 0.03, "py-spy": 0.05, "rest": 0.01}, 0.004, 100, 50, 0.01)

    def _peeks(self, start: float) -> PeekBatch:
        seen = self._random.sample(self._seen, 15)
        pick, rest = self._random.randrange, len(seen)
        frames = tuple(dict.fromkeys(stack[-1] for stack in self._stacks))
        samples = [
            PeekSample(
                start + 0.02 * (tick + 1), tid, pick(rest), 0.02, 0.001 * (pick(10) == 0), pick(len(frames) + 1) - 1
            )
            for tick in range(25)
            for tid in self.busy
        ]
        samples += (
            PeekSample(start + 0.25 * (tick + 1), tid, rest, 0.25, 0.0) for tick in range(2) for tid in self.parked
        )
        names = dict.fromkeys((*self.busy, *self.parked), "python")
        return PeekBatch(PID, start, start + 0.5, (*seen, PARKED), tuple(samples), names, 25, 0.002, 0, 50.0, frames)

    def _stacks_of(self, start: float) -> StackBatch:
        begin, end = start + 0.01, start + 1.0
        chosen = self._random.sample(self._stacks, 60)
        segments = [
            StackSegment(tid, begin + 0.01 * step, begin + 0.01 * (step + 1), self._random.randrange(60))
            for tid in self.busy
            for step in range(99)
        ]
        segments += (StackSegment(tid, begin, end, 60) for tid in self.parked)
        names = {tid: "MainThread" if tid == PID else f"worker-{tid}" for tid in (*self.busy, *self.parked)}
        return StackBatch(PID, begin, end, names, (*chosen, self._idle), tuple(segments), 99, 1, 100.0)

    def _host(self, time: float) -> HostBatch:
        chance = self._random.random
        cores = tuple(chance() for _ in range(self._cores))
        threads = tuple(
            ThreadReading(tid, "python", chance(), chance() / 100, "S", tid % 16) for tid in (*self.busy, *self.parked)
        )
        process = ProcessReading(PID, chance() * 4, 4e9, threads)
        return HostBatch(time, 0.5, cores, cores, 5e10, 1e11, (1.0, 2.0, 3.0), (process,))

    def _gpu(self, time: float) -> GpuBatch:
        chance = self._random.random
        metrics: dict[str, Value] = {f"metric_{number}": chance() for number in range(25)}
        metrics |= {
            "utilization": chance(),
            "memory_used_bytes": 4e10,
            "memory_total_bytes": 1e11,
            "energy_j": time * 300,
        }
        missing: dict[str, Value] = {"fan": NA("not supported"), "nvlink_rx_bps": NA("no NVLink")}
        readings = tuple(
            GpuReading(index, f"GPU-{index}", "H200", metrics | missing, GpuUse(chance(), chance(), 3e10, True))
            for index in range(self._gpus)
        )
        points = tuple((time - 0.4 + 0.2 * step, chance()) for step in range(2))
        return GpuBatch(time, readings, dict.fromkeys(range(self._gpus), points))


def _stack(number: int, chance: random.Random) -> Stack:
    depth = chance.randrange(12, 28)
    return tuple(
        Frame(
            f"function_{level}_{number % 3}",
            f"/opt/env/lib/python3.11/site-packages/torch/module_{level}.py",
            10 + number % 5,
        )
        for level in range(depth)
    )


def _observation(number: int, chance: random.Random) -> Observation:
    chain = tuple(
        NativeFrame(f"lib{level % 5}.so", f"symbol_{level}_{number % 11}") for level in range(chance.randrange(6, 34))
    )
    return Observation(running=True, chain=(NativeFrame("libtorch.so", f"leaf_{number}"), *chain))
