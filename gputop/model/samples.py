"""Python stacks, and looks at native threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


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
        syscall: name of the system call it is blocked in ("futex", "epoll_wait"); of a running thread, the one it had
            gone to sleep in by the time it was stopped, empty where it had not.
        waits_on: what that call concerns: "gil" (a futex in the interpreter's own data), "pipe", "socket", "file",
            "tty", "eventfd", "epoll", "nvidia", "process", "timer", "memory" (the memory map's lock), or empty.
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
