"""A synthetic source for the screen: a training job whose GPU starves, and some that are hard to draw.

Everything is a function of time alone, so that pictures of a fixed clock are the same on every run.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gputop.analysis.efficiency import assess
from gputop.analysis.results import (
    CallTree,
    Column,
    FunctionRow,
    GpuHistory,
    Headline,
    LineRow,
    Series,
    Summary,
    ThreadRow,
    Timeline,
    Verdict,
)
from gputop.analysis.states import groups
from gputop.model import (
    NA,
    CostBatch,
    GpuReading,
    GpuUse,
    HostBatch,
    Note,
    ProcessInfo,
    ProcessReading,
    Session,
    ThreadReading,
    Value,
    Window,
)
from gputop.snapshot.flight import Saved
from gputop.snapshot.kineto.request import Options
from gputop.snapshot.kineto.route import Route
from gputop.target.code import Code
from tests.fakes.program import CALLS, STACK, code_of
from tests.fakes.verdicts import BOUND, STARVED

EPOCH = 1_700_000_000.0

_FUNCTIONS = (
    ("decode_image", "/home/ada/train/data.py", 31, 0.410, 0.414, {"native": 0.9, "python": 0.1}),
    ("train_step", "/home/ada/train/train.py", 88, 0.120, 0.889, {"python": 0.7, "gpu_api": 0.3}),
    ("synchronize", "/usr/lib/python3/dist-packages/torch/cuda/__init__.py", 1162, 0.088, 0.088, {"gpu_wait": 1.0}),
    ("normalise", "/home/ada/train/data.py", 57, 0.081, 0.083, {"native": 0.6, "python": 0.4}),
    (
        "_conv_forward",
        "/venv/lib/python3.12/site-packages/torch/nn/modules/conv.py",
        548,
        0.041,
        0.102,
        {"gpu_api": 1.0},
    ),
    (
        "step",
        "/venv/lib/python3.12/site-packages/torch/optim/adamw.py",
        243,
        0.032,
        0.061,
        {"python": 0.5, "gpu_api": 0.5},
    ),
    ("acquire", "/usr/lib/python3.12/threading.py", 355, 0.021, 0.021, {"gil": 0.7, "lock": 0.3}),
    ("read", "/usr/lib/python3.12/pathlib.py", 1029, 0.019, 0.019, {"io": 1.0}),
    ("log_metrics", "/home/ada/train/train.py", 140, 0.011, 0.030, {"python": 0.6, "io": 0.4}),
    ("__getitem__", "/home/ada/train/data.py", 22, 0.006, 0.503, {"python": 1.0}),
    (
        "_call_impl",
        "/venv/lib/python3.12/site-packages/torch/nn/modules/module.py",
        1562,
        0.004,
        0.240,
        {"python": 1.0},
    ),
    ("<listcomp>", "/home/ada/train/data.py", 60, 0.003, 0.003, {"python": 1.0}),
)

_RANKS = tuple(
    ProcessInfo(4500 + rank, 4121, EPOCH, ("python", "train.py"), "", "train.py", "3.12.3", (), rank, rank)
    for rank in range(4)
)
_GONE = ProcessInfo(4600, 4121, EPOCH, ("python", "export.py"), "", "export.py", "3.12.3")


@dataclass
class FakeSource:
    """Implements `gputop.tui.source.Source`.

    Attributes:
        gpus, cores, threads, functions: sizes of what is shown.
        hostile: names that are long, wide or odd.
        slow_s: how long a summary takes.
        gate: when given, a summary waits for it (and for nothing else).
        question: what a snapshot asks consent for.
        alone, native: what the last summary was asked; options: what the last snapshot was.
        possible: which trace can be taken; shows: what it shows.
        ended_at: time at which the target ended.
    """

    verdict: Verdict = STARVED
    gpus: int = 1
    cores: int = 16
    threads: int = 41
    functions: int = 12
    hostile: bool = False
    notes: tuple[Note, ...] = ()
    live: bool = True
    launched: bool = False
    output: Path | None = None
    slow_s: float = 0.0
    gate: threading.Event | None = None
    clock: Callable[[], float] = time.monotonic
    exited: tuple[int | None] | None = None
    ended_by: int | None = None
    ended_at: float | None = None
    question: str = ""
    alone: bool = False
    native: bool = False
    possible: Route | None = None
    shows: tuple[str, ...] = ()
    options: Options | None = None
    snapshot_error: Exception | None = None
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        started = self.clock() + EPOCH - 4364
        command = ("python", "train.py", "--epochs", "90")
        if self.hostile:
            command = ("python", "-c", "x" * 300, "日本語" * 30)
        self.session = Session(
            ProcessInfo(4121, 1, started, command, "/usr/bin/python3", "train.py", "3.12.3", ("torch 2.11.0",)),
            EPOCH, "node", self.cores, "0.1.0",
        )  # fmt: skip
        self._born = self.clock() - 300

    def span(self) -> Window | None:
        return Window(self._born, self.ended_at if self.ended_at is not None else self.clock())

    def set_rate(self, factor: float) -> None:
        self.asked.append(f"rate {factor:g}")

    def route(self) -> Route | None:
        return self.possible

    def reading(self, saved: Saved) -> tuple[str, ...]:
        return self.shows

    def snap(
        self, options: Options, progress: Callable[[str], None], consent: Callable[[str], bool]
    ) -> tuple[Saved, ...]:
        self.options = options
        if self.question:
            self.asked.append(f"consent {consent(self.question)}")
        progress("writing")
        if self.gate is not None:
            self.gate.wait(10)
        if self.snapshot_error is not None:
            raise self.snapshot_error
        path = Path("/tmp/gputop/train-4121.json.gz")
        return (Saved(path, 81_000, "sampled trace", "open it at ui.perfetto.dev", Window(0, 1)),)

    def output_lines(self, count: int) -> list[str]:
        if self.output is None:
            return []
        step = int(self.clock() * 2)
        return [
            f"epoch 3  step {1800 + step - n}  loss {2.1 + math.sin(step - n) / 9:.3f}  41.{n % 10} img/s"
            for n in range(min(count, 30), 0, -1)
        ]

    def forward(self, signum: int) -> None:
        self.asked.append(f"signal {int(signum)}")

    def terminate(self) -> None:
        self.asked.append("terminate")

    def flame(self, window: Window, thread: tuple[int, int] | None = None, *, alone: bool = False) -> CallTree:
        return CallTree(CALLS, CALLS.total)

    def strips(
        self, window: Window, threads: Sequence[tuple[int, int]], steps: int
    ) -> dict[tuple[int, int], tuple[Column, ...]]:
        step = window.seconds / steps
        starts = [window.start + place * step for place in range(steps)]
        waits = {"native": 0.3, "lock": 0.6, "idle": 0.1}
        return {
            key: tuple(Column(at, step, self._states(at) if key[0] == key[1] else waits) for at in starts)
            for key in threads
        }

    def gpu_history(self, window: Window, steps: int) -> tuple[GpuHistory, ...]:
        step = window.seconds / steps
        return tuple(self._history(index, [window.start + place * step for place in range(steps)], window.end)
                     for index in range(self.gpus))  # fmt: skip

    def _history(self, index: int, times: list[float], end: float) -> GpuHistory:
        gpu = self._gpu(index, end)
        busy = tuple(_busy(at + index) for at in times)
        curves: dict[str, tuple[Value, ...]] = {"utilization": busy, "power": busy, "memory": (0.09,) * len(times)}
        curves |= {name: (NA("needs a Hopper GPU"),) * len(times) for name in ("gpm.tensor", "gpm.dram")}
        return GpuHistory(gpu, end, gpu, assess(gpu), curves)

    def code(self, file: str) -> Code:
        return code_of(file)

    def about_now(self, summary: Summary) -> Summary:
        return summary

    def summary(
        self,
        window: Window,
        columns: int,
        thread: tuple[int, int] | None = None,
        *,
        alone: bool = False,
        native: bool = False,
    ) -> Summary:
        self.alone, self.native = alone, native
        if self.gate is not None:
            self.gate.wait(10)
        time.sleep(self.slow_s)
        timeline = self._timeline(window, columns)
        states = _mean([column.states for column in timeline.columns])
        group = groups(states)
        name = "MainThread" if thread is None else f"thread {thread[1]}"
        headline = Headline(
            4121, 4121, name, group["compute"], group["gpu_wait"], group["other_wait"], group["idle"], states, {}
        )
        return Summary(
            session=self.session,
            window=window,
            processes=(self.session.root, *_RANKS),
            ended={_GONE.pid: 1},
            gone={_GONE.pid: _GONE},
            threads=self._threads(window.end, states),
            headline=headline,
            functions=self._functions(window.end),
            lines=tuple(_line(row) for row in self._functions(window.end)),
            timeline=timeline,
            host=self._host(window.end),
            gpus=tuple(self._gpu(index, window.end) for index in range(self.gpus)),
            gpus_at=window.end,
            efficiency={index: assess(self._gpu(index, window.end)) for index in range(self.gpus)},
            verdict=self.verdict,
            cost=CostBatch(window.end, {"screen": 0.018, "peek": 0.021, "py-spy": 0.022}, 0.003, 100, 50, 0.011),
            notes=self.notes,
            stack=STACK,
        )  # fmt: skip

    def _states(self, at: float) -> dict[str, float]:
        if at < self._born or at > (self.ended_at or self.clock()):
            return {}
        wave = (math.sin(at / 3.1) + math.sin(at / 1.7) * 0.6) * 0.11
        beat = max(0.0, math.sin(at / 4.7)) ** 9
        if self.verdict is BOUND:
            parts = {"python": 0.03, "gpu_api": 0.05, "gpu_wait": 0.9 + wave / 9, "idle": 0.02}
        else:
            parts = {
                "python": 0.2 + wave / 2,
                "native": max(0.02, 0.46 + wave - beat * 0.42),
                "gpu_api": 0.04 + beat * 0.12,
                "gpu_wait": 0.03 + beat * 0.55,
                "gil": 0.01,
                "io": 0.02 + max(0.0, math.sin(at / 2.3)) ** 20 * 0.3,
                "idle": max(0.01, 0.2 - wave),
            }
        total = sum(parts.values())
        return {name: share / total for name, share in parts.items()}

    def _timeline(self, window: Window, columns: int) -> Timeline:
        step = window.seconds / columns
        starts = [window.start + index * step for index in range(columns)]
        nothing = NA("not running")

        def series(label: str, value: Callable[[float], float]) -> Series:
            return Series(label, tuple(value(at) if self._states(at) else nothing for at in starts))

        gpus = tuple(series(f"GPU {index}", partial(_busy_of, index)) for index in range(self.gpus))
        memory = tuple(series(f"GPU {index}", lambda at: 0.08 + 0.01 * math.sin(at / 9)) for index in range(self.gpus))
        cpu = series("CPU", lambda at: 0.3 + 0.1 * math.sin(at / 5))
        return Timeline(tuple(Column(at, step, self._states(at)) for at in starts), cpu, gpus, memory)

    def _functions(self, at: float) -> tuple[FunctionRow, ...]:
        rows = []
        for index in range(self.functions):
            name, file, line, own, total, states = _FUNCTIONS[index % len(_FUNCTIONS)]
            wobble = 1 + 0.06 * math.sin(at / 2 + index)
            shrink = 1 / (1 + index // len(_FUNCTIONS)) ** 2
            more = "" if index < len(_FUNCTIONS) else f"_{index}"
            if self.hostile and index % 3 == 0:
                more += "�[31m" + "very_long_name_" * 24
            if self.hostile and index % 3 == 1:
                more += "関数名" * 20
            rows.append(FunctionRow(name + more, file, line, own * wobble * shrink, total * wobble * shrink, states))
        return tuple(sorted(rows, key=lambda row: -row.self_share))

    def _threads(self, at: float, states: dict[str, float]) -> tuple[ThreadRow, ...]:
        rows = [ThreadRow(4121, 4121, "MainThread", "main", True, 3000, 60.0, 0.71, states, {})]
        for index in range(1, self.threads):
            name = f"pt_autograd_{index}" if index % 3 else "関" * 40 if self.hostile else f"ThreadPool-{index}"
            busy = 0.2 + 0.2 * math.sin(at / 30 + index)  # the mean of a minute changes slowly
            shares = {"native": busy, "lock": 0.5 - busy / 2, "idle": 0.5 - busy / 2}
            rows.append(ThreadRow(4121, 4121 + index, name, "pool", False, 300, 60.0, busy, shares, {}))
        return tuple(rows)

    def _host(self, at: float) -> HostBatch:
        ours = tuple(max(0.0, 0.6 * math.sin(at / 4 + index * 1.3) - 0.3) for index in range(self.cores))
        cores = tuple(min(1.0, own + 0.04 + 0.1 * (index % 5 == 0)) for index, own in enumerate(ours))
        threads = tuple(ThreadReading(4121 + index, "x", 0.1, 0.0, "S", 0) for index in range(self.threads))
        process = ProcessReading(4121, sum(ours), 3e9, threads)
        return HostBatch(at, 0.5, cores, ours, 18.2 * 2**30, 128 * 2.0**30, (1.0, 0.9, 0.8), (process,))

    def _gpu(self, index: int, at: float) -> GpuReading:
        metrics: dict[str, Value] = {
            "utilization": _busy(at + index),
            "memory_used_bytes": 12.4 * 2**30,
            "memory_total_bytes": 140.4 * 2**30,
            "power_w": 180 + 200 * _busy(at + index),
            "power_limit_w": 700.0,
            "temperature_c": 54.0,
            "clock_sm_mhz": 1980.0,
            "gpm.sm_active": 0.8 * _busy(at + index),
            "gpm.sm_occupancy": 0.06,
            "gpm.tensor": 0.12,
            "gpm.dram": 0.09,
            "pcie_rx_bps": 232e6,
            "pcie_tx_bps": 18e6,
        }
        if index % 4 == 3:
            metrics |= {"power_w": NA("not supported on this GPU"), "utilization": NA("MIG is on")}
        error = "GPU is lost: reset it or reboot" if self.gpus > 4 and index == 5 else ""
        return GpuReading(
            index, f"GPU-{index}", "NVIDIA H200", metrics, GpuUse(0.26, 0.1, 11.9 * 2**30, index < 2), 0.0, (), error
        )


def _line(row: FunctionRow) -> LineRow:
    return LineRow(row.file, row.line, row.name, row.self_share, row.total_share, row.states, row.states)


def _busy_of(index: int, at: float) -> float:
    return _busy(at + index)


def _busy(at: float) -> float:
    return 0.08 + 0.85 * max(0.0, math.sin(at / 4.7)) ** 9 + 0.04 * math.sin(at) ** 2


def _mean(shares: list[Mapping[str, float]]) -> dict[str, float]:
    seen = [share for share in shares if share]
    names = dict.fromkeys(name for share in seen for name in share)
    return {name: sum(share.get(name, 0.0) for share in seen) / len(seen) for name in names}


NO_DRIVER = Note(
    0, "gpu", "driver", "no NVIDIA driver: GPU rows stay empty", "install the driver, or run on a machine with a GPU"
)
NO_PTRACE = Note(
    0, "peek", "ptrace", "no right to look into pid 4121: native states are missing",
    "run as the target's user or with sudo; in a container add --cap-add=SYS_PTRACE",
)  # fmt: skip

#: Sources by name, for pictures and tests.
SCENES: dict[str, Callable[[], FakeSource]] = {
    "starved": FakeSource,
    "bound": lambda: FakeSource(verdict=BOUND, gpus=2),
    "launched": lambda: FakeSource(launched=True, output=Path("/home/ada/.local/state/gputop/train-4121.log")),
    "bare": lambda: FakeSource(gpus=0, notes=(NO_DRIVER, NO_PTRACE)),
    "exotic": lambda: FakeSource(gpus=16, cores=64, threads=1000, functions=5000, hostile=True, notes=(NO_DRIVER,) * 5),
}
