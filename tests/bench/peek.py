"""What the peek costs: python -m tests.bench.peek [SECONDS]. Prints a table; not part of the test suite.

Stops are timed in a process of their own, as the worker has them; own CPU is the worker's, over SECONDS each.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from gputop.collectors.native import PeekCollector
from gputop.model import Batch, PeekBatch, ProcessInfo

ROOT = Path(__file__).parents[2]

_BUSY = "while True: sum(range(1000))\n"
_PARKED = (
    "import threading\nthreading.stack_size(65536)\nwait = threading.Event().wait\n"
    "for _ in range({count}): threading.Thread(target=wait, daemon=True).start()\n"
)
_READY = "print('ready', flush=True)\n"
_TORCH = (
    "import torch\nmodel = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8)))\n"
    "data = torch.randn(64, 64)\n" + _READY + "while True: model(data).sum().backward()\n"
)
_STOPS = """
import signal, sys, time
from gputop.collectors.native.arch import here
from gputop.collectors.native.memory import FIRST_COPY, StackCopy
from gputop.collectors.native.modules import ModuleTable
from gputop.collectors.native.process import Process, Tools
from gputop.collectors.native.ptrace import Outcome, Tracer
from gputop.collectors.native.unwind import Unwinder
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
arch, stack, pid, held = here(), StackCopy(), int(sys.argv[1]), ([], [])
tracer = Tracer(arch, stack)
process = Process(pid, 0.0, Tools(arch, ModuleTable(arch.elf_machine), stack, tracer, Unwinder(arch)))
(task,) = process.discover(time.monotonic(), 10)
for number in range(2000):
    if tracer.take(pid, pid, FIRST_COPY, task.glance if number % 2 else None) is Outcome.TAKEN:
        held[number % 2].append(tracer.asked_s * 1e6)
    while tracer.pending:
        signal.sigtimedwait({signal.SIGCHLD}, 0.01)
        list(tracer.late(0))
    time.sleep(0.003)
for times in held:
    times.sort()
    print(*(round(times[int(len(times) * share)]) for share in (0, 0.5, 0.9, 0.99)))
"""


@contextmanager
def program(source: str) -> Iterator[int]:
    """Run Python source that says "ready"."""
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def stops() -> Iterator[str]:
    """Yield the time that a running thread is held up by one look: without its Python frame, and with it."""
    with program(_READY + _BUSY) as pid:
        command = [sys.executable, "-c", _STOPS, str(pid)]
        output = subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout
    for line in output.splitlines():
        least, median, most, worst = line.split()
        yield f"min {least} µs, median {median} µs, p90 {most} µs, p99 {worst} µs"


def cost(source: str, seconds: float) -> str:
    """Return the worker's share of a core, the looks that it had, and the longest time without one."""
    batches: list[Batch] = []
    collector = PeekCollector(batches.append)
    with program(source) as pid:
        collector.follow((ProcessInfo(pid, 0, 0.0, ()),))
        collector.start()
        time.sleep(2)
        worker = psutil.Process(collector.own_pids()[0])
        before, started = worker.cpu_times(), time.monotonic()
        time.sleep(seconds)
        after, took = worker.cpu_times(), time.monotonic() - started
        memory = worker.memory_info().rss >> 20
        collector.stop()
    peeks = [batch for batch in batches if isinstance(batch, PeekBatch)]
    main = [sample for batch in peeks for sample in batch.samples if sample.tid == pid]
    looks = sum(len(batch.samples) for batch in peeks if batch.start > started) / took
    held = sum(batch.stopped_s for batch in peeks) / max(sum(batch.stops for batch in peeks), 1)
    cpu = (after.user + after.system - before.user - before.system) / took
    return (
        f"own CPU {100 * cpu:4.1f} %  {looks:5.0f} looks/s  main thread {len(main) / (took + 2):3.0f}/s  longest gap "
        f"{1e3 * max(sample.seconds for sample in main):4.0f} ms  held {1e6 * held:4.0f} µs a stop  {memory} MiB"
    )


def bench(seconds: float) -> None:
    """Print the table."""
    for name, times in zip(("one stop, native stack only", "one stop"), stops(), strict=True):
        print(f"{name:28}{times}", flush=True)
    rows = {"one busy, 40 parked": _PARKED.format(count=40) + _READY + _BUSY}
    rows["one busy, 1000 parked"] = _PARKED.format(count=1000) + _READY + _BUSY
    if importlib.util.find_spec("torch"):
        rows["torch on the CPU"] = _TORCH
    for name, source in rows.items():
        print(f"{name:28}{cost(source, seconds)}", flush=True)


if __name__ == "__main__":
    bench(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
