"""A short reading of a torch trace: what the GPU and the CPU did, and who waited for whom.

Standard library only: it runs in a process of its own (`apart`), since a trace may hold millions of events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from gputop.snapshot.kineto import spans
from gputop.snapshot.kineto.events import about, events
from gputop.snapshot.kineto.spans import Intervals, Span
from gputop.snapshot.track_ids import STACKS_TID, STATES_TID
from gputop.text import printable

Stretches = Sequence[tuple[int, float, float]]

#: Rows in each list.
TOP = 8

_KERNEL, _COPIES, _CPU = "kernel", ("gpu_memcpy", "gpu_memset"), ("cpu_op", "cuda_runtime", "cuda_driver")
_GPU = (_KERNEL, *_COPIES)
_MARK = "user_annotation"

#: Runtime calls in which the CPU waits for the GPU.
_WAITS = ("Synchronize", "cudaMemcpy", "cuMemcpy")

#: A GPU that is idle for more than this share while its kernels are shorter and start sooner after their launch than
#: these microseconds is waiting for the next launch.
_IDLE_SHARE, _SHORT_US, _SOON_US = 0.5, 50.0, 30.0
_BUSY_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel or a call: how often, its seconds (a call's own, without calls inside it), their share of the list."""

    name: str
    calls: int
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class Gap:
    """The GPU had nothing to do from `start_s` (seconds into the trace) for `seconds`.

    Attributes:
        doing: what the thread that launches its work did meanwhile: (torch's operator, CUDA call or `record_function`,
            seconds in it and in none inside it), the longest first; what is missing was outside torch.
        python: the same by the Python functions that gputop saw in it, empty in a trace without our stacks.
    """

    start_s: float
    seconds: float
    doing: tuple[tuple[str, float], ...]
    python: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """What a trace shows.

    Attributes:
        seconds: from the first event of torch's to the last.
        devices: GPUs with work.
        gpu_busy: share of that time in which a GPU had a kernel or copy running, the mean over the devices.
        kernels, operators: most time first; operators are torch's and the CUDA calls below them.
        kernel_us: median length of a kernel; `launch_us` median time from its launch to its start.
        waiting: share of the time in which the launching thread waited for the GPU (synchronise, blocking copy).
        gaps: the GPU's longest idle stretches; in a trace without GPU work there are none.
        copy_seconds: time of copies; `copy_alone` the share of it during which no kernel ran.
        verdict: "launch-bound" (short kernels, each waiting for its launch), "cpu-bound" (the GPU idles for long
            stretches), "gpu-bound", "mixed" or "no-gpu".
        ours: what gputop wrote into it (`sampled.about`), empty for another's trace.
    """

    seconds: float
    devices: int
    gpu_busy: float
    kernels: tuple[Row, ...]
    operators: tuple[Row, ...]
    kernel_us: float
    launch_us: float
    waiting: float
    gaps: tuple[Gap, ...]
    copy_seconds: float
    copy_alone: float
    verdict: str
    ours: Mapping[str, Any] = field(default_factory=dict)


class _Stacks:
    """The innermost Python function of each thread over time, from the tracks that gputop draws."""

    def __init__(self) -> None:
        self.stretches: defaultdict[object, list[tuple[int, float, float]]] = defaultdict(list)
        self._open: defaultdict[object, list[int]] = defaultdict(list)
        self._since: dict[object, float] = {}

    def change(self, thread: object, at: float, entered: int | None) -> None:
        """A function was entered, or (None) the innermost one left."""
        opened = self._open[thread]
        if opened and at > self._since[thread]:
            self.stretches[thread].append((opened[-1], self._since[thread], at))
        self._since[thread] = at
        if entered is not None:
            opened.append(entered)
        elif opened:
            opened.pop()


class _Trace:
    """What is kept of a trace while it is read: numbers, and each name once."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.kernels: defaultdict[object, Intervals] = defaultdict(Intervals)
        self.copies: defaultdict[object, Intervals] = defaultdict(Intervals)
        self.calls: defaultdict[object, Intervals] = defaultdict(Intervals)
        self.marks: defaultdict[object, Intervals] = defaultdict(Intervals)
        self.stacks = _Stacks()
        self.launches: dict[int, tuple[float, object]] = {}
        self.starts: list[tuple[float, int]] = []
        self.first, self.last = float("inf"), float("-inf")

    def add(self, event: dict[str, Any]) -> None:
        """Take one event: torch's complete ones and our stacks; others are passed over."""
        kind, phase = event.get("cat"), event.get("ph")
        try:
            if phase == "X" and kind in (*_GPU, *_CPU, _MARK):
                self._complete(event, str(kind), float(event["ts"]), float(event["dur"]))
            elif phase in ("B", "E") and STACKS_TID <= event["tid"] < STATES_TID:
                entered = self._function(event) if phase == "B" else None
                thread = event["pid"], event["tid"] - STACKS_TID
                self.stacks.change(thread, float(event["ts"]), entered)
        except (KeyError, TypeError, ValueError):
            return

    def _number(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def _function(self, event: dict[str, Any]) -> int:
        arguments = event.get("args")
        at = str(arguments.get("at", "")) if isinstance(arguments, dict) else ""
        return self._number(f"{event['name']} ({at.rpartition('/')[2]})")

    def _complete(self, event: dict[str, Any], kind: str, start: float, duration: float) -> None:
        number = self._number(str(event.get("name", "")))
        thread = event.get("pid"), event.get("tid")
        if kind == _MARK:
            self.marks[thread].add(start, duration, number)
            return
        self.first, self.last = min(self.first, start), max(self.last, start + duration)
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        correlation = arguments.get("correlation")
        if kind in _GPU:
            device = arguments.get("device", event.get("pid"))
            (self.kernels if kind == _KERNEL else self.copies)[device].add(start, duration, number)
            if isinstance(correlation, int):
                self.starts.append((start, correlation))
        else:
            self.calls[thread].add(start, duration, number)
            if isinstance(correlation, int) and kind != "cpu_op":
                self.launches[correlation] = (start, thread)


def read(path: Path) -> Reading:
    """Read a trace.

    Raises:
        SnapshotError: the file cannot be read, is no trace, or holds nothing of torch's.
    """
    trace = _Trace()
    for event in events(path):
        trace.add(event)
    return replace(_summed(trace), ours=about(path))


def _summed(trace: _Trace) -> Reading:
    window = (trace.first, trace.last) if trace.last > trace.first else (0.0, 0.0)
    length = window[1] - window[0]
    names = [printable(name) for name in trace.names]
    gpu = _gpu(trace, length)
    main = _launching(trace)
    doing = list(spans.innermost(spans.joined(trace.calls[main], trace.marks[main])))
    waiting = sum(end - start for number, start, end in doing if any(word in names[number] for word in _WAITS))
    delays = [start - trace.launches[number][0] for start, number in trace.starts if number in trace.launches]
    kernel_us = _median([duration for kernels in trace.kernels.values() for duration in kernels.durations])
    reading = Reading(
        seconds=length / 1e6,
        devices=len(gpu.work),
        gpu_busy=gpu.busy,
        kernels=_rows((pair for kernels in trace.kernels.values() for pair in kernels.pairs()), names),
        operators=_rows(((n, own) for one in trace.calls.values() for n, _, own in spans.self_times(one)), names),
        kernel_us=kernel_us,
        launch_us=_median(delays),
        waiting=waiting / length if length else 0.0,
        gaps=tuple(_gaps(gpu.work, window, (doing, trace.stacks.stretches[main]), names)),
        copy_seconds=gpu.copying / 1e6,
        copy_alone=1 - gpu.hidden / gpu.copying if gpu.copying else 0.0,
        verdict="",
    )
    return replace(reading, verdict=_verdict(reading))


@dataclass(frozen=True, slots=True)
class _Gpu:
    """The devices' working times as unions, their mean share, time of copies, and of copies under a kernel."""

    work: dict[object, list[Span]]
    busy: float
    copying: float
    hidden: float


def _gpu(trace: _Trace, length: float) -> _Gpu:
    work, copying, hidden = {}, 0.0, 0.0
    for device in set(trace.kernels) | set(trace.copies):
        kernels = spans.union(trace.kernels[device].spans())
        copies = spans.union(trace.copies[device].spans())
        work[device] = spans.union(sorted(kernels + copies))
        copying += spans.total(copies)
        hidden += spans.overlap(copies, kernels)
    busy = sum(map(spans.total, work.values())) / (len(work) * length) if work and length else 0.0
    return _Gpu(work, busy, copying, hidden)


def _median(numbers: list[float]) -> float:
    return median(numbers) if numbers else 0.0


def _verdict(reading: Reading) -> str:
    if not reading.kernels:
        return "no-gpu"
    if reading.gpu_busy >= _BUSY_SHARE:
        return "gpu-bound"
    if reading.gpu_busy >= _IDLE_SHARE:
        return "mixed"
    if reading.kernel_us < _SHORT_US and reading.launch_us < _SOON_US and _launches(reading):
        return "launch-bound"
    return "cpu-bound"


def _launches(reading: Reading) -> bool:
    """Tell whether the GPU's idle time is made of many short gaps, not of a few long ones."""
    idle = reading.seconds * (1 - reading.gpu_busy) * reading.devices
    return sum(gap.seconds for gap in reading.gaps) < idle / 2


def _rows(times: Iterable[tuple[int, float]], names: list[str]) -> tuple[Row, ...]:
    sums: defaultdict[int, float] = defaultdict(float)
    calls: defaultdict[int, int] = defaultdict(int)
    for number, microseconds in times:
        sums[number] += microseconds
        calls[number] += 1
    whole = sum(sums.values())
    ranked = sorted(sums, key=lambda number: -sums[number])[:TOP]
    return tuple(
        Row(names[number], calls[number], sums[number] / 1e6, sums[number] / whole if whole else 0.0)
        for number in ranked
    )


def _launching(trace: _Trace) -> object:
    """Return the thread that launched most of the GPU's work, or that made most calls."""
    counts: defaultdict[object, int] = defaultdict(int)
    for _, thread in trace.launches.values():
        counts[thread] += 1
    by_calls = {thread: len(calls) for thread, calls in trace.calls.items()}
    return max(counts or by_calls, key=(counts or by_calls).__getitem__, default=None)


def _gaps(
    work: dict[object, list[Span]], window: Span, did: tuple[Stretches, Stretches], names: list[str]
) -> Iterator[Gap]:
    """Yield the longest stretches in which one device had nothing to do, with what the launching thread did: `did` in
    torch, and in Python."""
    idle = (gap for joined in work.values() for gap in spans.gaps(joined, window))
    for start, end in sorted(idle, key=lambda gap: gap[0] - gap[1])[:TOP]:
        torch, python = (_longest(spans.within(stretches, (start, end)), names) for stretches in did)
        yield Gap((start - window[0]) / 1e6, (end - start) / 1e6, torch, python)


def _longest(sums: dict[int, float], names: list[str]) -> tuple[tuple[str, float], ...]:
    ranked = sorted(sums, key=lambda number: -sums[number])[:3]
    return tuple((names[number], sums[number] / 1e6) for number in ranked)
