"""Two real GPUs: whose is whose, bytes between them, energy, and the screens. Needs torch; `pyte` for the screens.

    python -m tests.gpu.pair_check [FOLDER [STEP …]]  about 110 s; prints one line a comparison; recordings go to FOLDER

Loads run in children that measure what they do themselves; gputop runs as its user runs it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from gputop.model import known
from tests.gpu.nvml_check import Report, Watch
from tests.tui.terminal import Terminal

_GPUTOP = (sys.executable, "-m", "gputop")

_PROLOGUE = """
import sys, threading, time, torch
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
def repeat(step, devices, each=0):
    step()
    for d in devices: torch.cuda.synchronize(d)
    print("ready", flush=True)
    steps, began = 0, time.monotonic()
    while not stop.is_set():
        step(); steps += 1
        for d in devices: torch.cuda.synchronize(d)
    print(steps * each / (time.monotonic() - began), flush=True)
def products(d):
    a, b = torch.randn(2, 8192, 8192, device=d, dtype=torch.bfloat16)
    return lambda: torch.mm(a, b)
"""
_MATMUL = _PROLOGUE + "repeat(products(sys.argv[1]), [sys.argv[1]])"
_PEERS = (
    _PROLOGUE
    + """
there = torch.empty(1 << 30, dtype=torch.uint8, device="cuda:0"); here = torch.empty_like(there, device="cuda:1")
repeat(lambda: here.copy_(there, non_blocking=True), ["cuda:0", "cuda:1"], 1 << 30)
"""
)
_RANKS = """
import os, subprocess, sys
def rank(number):
    environ = {**os.environ, "LOCAL_RANK": str(number), "RANK": str(number), "CUDA_VISIBLE_DEVICES": str(number)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", sys.argv[1], "cuda:0"], env=environ, **pipes)
ranks = [rank(number) for number in range(2)]
for one in ranks: one.stdout.readline()
print("ready", flush=True); sys.stdin.read()
for one in ranks: one.communicate()
print(0)
"""


@contextmanager
def running(code: str, *arguments: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """Run a load until the block ends; it has begun when the block does."""
    command = [sys.executable, "-c", code, *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env={**os.environ, **environ}, **pipes) as child:  # type: ignore[call-overload]
        assert child.stdout.readline().strip() == "ready"
        yield child
        if child.poll() is None and not child.stdin.closed:
            child.communicate(timeout=60)


def rate(child: subprocess.Popen[str]) -> float:
    """End a load and return the bytes a second that it moved."""
    out, _ = child.communicate(timeout=60)
    return float(out or "nan")


def gputop(*words: object) -> str:
    """Run gputop and return what it prints."""
    done = subprocess.run([*_GPUTOP, *map(str, words)], capture_output=True, text=True, timeout=90, check=False)
    if done.returncode:
        print(f"     gputop {words}: {done.returncode} {done.stderr[-800:]}")
    return done.stdout


def reported(pid: int, seconds: float) -> list[dict[str, Any]]:
    """Return the GPUs of a report in JSON."""
    gpus: list[dict[str, Any]] = json.loads(gputop("report", "--pid", pid, "--duration", seconds, "--json"))["gpus"]
    return gpus


def held(pid: int) -> str:
    """Return which NVIDIA devices a process has mapped, and which it has open."""
    mapped = re.findall(r"(/dev/nvidia\S+)", Path(f"/proc/{pid}/maps").read_text(encoding="utf-8"))
    opened = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()]
    count = {name: mapped.count(name) for name in sorted(set(mapped))}
    return f"mapped {count}, open {sorted({name for name in opened if '/dev/nvidia' in name})}"


def one_of_two(report: Report, folder: Path) -> None:
    """A job that sees GPU 1 only, and one that sees both and uses one."""
    with running(_MATMUL, "cuda:0", CUDA_VISIBLE_DEVICES="1") as job:
        first, second = reported(job.pid, 5)
        report.check("GPU 1 is the program's", (second["process"]["sm"] or 0) > 0.8, second["process"])
        report.check("GPU 0 is not", first["process"]["sm"] is None, first["process"], first["na"].get("process.sm"))
        report.check("GPU 0 idles, GPU 1 works", (first["utilization"], second["utilization"]) < (0.1, 0.9),
                     (first["utilization"], second["utilization"]))  # fmt: skip
        text = gputop("report", "--pid", job.pid, "--duration", 3)
        rows = [line for line in text.splitlines() if line.startswith("gpu ")]
        report.check("GPU 1 is the report's first", bool(rows) and rows[0].startswith("gpu 1"), rows[:1])
        print(text)
        gputop("record", "--pid", job.pid, "--duration", 8, "-o", folder / "one-of-two.gputop")
        screens(job.pid, folder)
        print(f"     a job on GPU 1 only: {held(job.pid)}")
    with running(_MATMUL, "cuda:1") as job:
        first, second = reported(job.pid, 3)
        report.check("both seen, one used: GPU 1", (second["process"]["sm"] or 0) > 0.8, second["process"])
        print(f"     GPU 0 for it: {first['process']} {first['na'].get('process.sm')}; {held(job.pid)}")


def one_each(report: Report, folder: Path) -> None:
    """Two processes, a GPU each."""
    with running(_RANKS, _MATMUL) as job:
        gpus = reported(job.pid, 6)
        for gpu in gpus:
            own = gpu["process"]
            report.check(f"rank's own GPU {gpu['index']}", (own["sm"] or 0) > 0.8 and bool(own["memory_bytes"]), own)
        gputop("record", "--pid", job.pid, "--duration", 6, "-o", folder / "one-each.gputop")
        print(gputop("report", "--pid", job.pid, "--duration", 3))
        print(f"     throttle: {[gpu['throttle'] for gpu in gpus]}")


def between(report: Report, watch: Watch) -> None:
    """Copies from GPU 0 to GPU 1: NVLink's counters, or PCIe's where there is no NVLink."""
    for command in (["nvidia-smi", "topo", "-m"], ["nvidia-smi", "nvlink", "--status"]):
        print(subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout[:1500])
    with running(_PEERS) as job:
        sender, receiver = watch.run(7.0, job.pid)[-1]
        moved = rate(job)
    for bus in ("nvlink", "pcie"):
        sent, received = sender.metric(f"{bus}_tx_bps"), receiver.metric(f"{bus}_rx_bps")
        print(f"     {bus}: GPU 0 sends {sent}, GPU 1 receives {received}; the job moved {moved:.4g} B/s")
        print(f"     {bus} the other way: {sender.metric(f'{bus}_rx_bps')}, {receiver.metric(f'{bus}_tx_bps')}")
    through = [known(sender.metric(f"{bus}_tx_bps")) or 0.0 for bus in ("nvlink", "pcie")]
    report.check("bytes between the GPUs are seen", 0.8 * moved <= max(through) <= 1.35 * moved, max(through), moved)


def energy(report: Report, watch: Watch) -> None:
    """The energy counter beside the integral of power, over the same reads."""
    with running(_MATMUL, "cuda:0") as job:
        watch.run(5.5, job.pid)
        counted, integral, before = [], 0.0, time.monotonic()
        began = before
        for _ in range(24):
            gpu = watch.run(0.4, job.pid)[-1][0]
            now = time.monotonic()
            integral += (known(gpu.metric("power_w")) or 0) * (now - before)
            before = now
            counted.append((now, known(gpu.metric("energy_j")) or 0.0))
    steps = [row for row, older in zip(counted[1:], counted, strict=False) if row[1] != older[1]]
    watts = (steps[-1][1] - steps[0][1]) / (steps[-1][0] - steps[0][0])
    power = integral / (before - began)
    report.check("energy counter / power, W", abs(watts / power - 1) < 0.15, watts, power)


def screens(pid: int, folder: Path) -> None:
    """Draw the overview and the GPU screen on a terminal of two sizes, as text."""
    try:
        import pyte
    except ImportError:
        print("     no pyte, no screens")
        return
    for columns, rows in ((160, 48), (80, 24)):
        screen = pyte.Screen(columns, rows)
        stream = pyte.ByteStream(screen)
        with Terminal([*_GPUTOP, "--pid", str(pid)], columns, rows) as terminal:
            for name, keys in (("overview", ""), ("gpus", "d")):
                terminal.press(keys)
                until = time.monotonic() + 5
                while time.monotonic() < until:
                    stream.feed(terminal.read(0.2))
                shown = "\n".join(screen.display)
                (folder / f"{name}-{columns}x{rows}.txt").write_text(shown, encoding="utf-8")
                print(f"--- {name} {columns}x{rows}\n{shown}")
            terminal.press("q")
            terminal.read(2)


def cost(watch: Watch) -> None:
    """Print what a look at both costs."""
    began, used = time.perf_counter(), time.process_time()
    looks = watch.run(5.0)
    cpu = time.process_time() - used
    seconds = time.perf_counter() - began
    print(f"     {len(looks)} looks at {watch.count} GPUs in {seconds:.1f} s: {1e3 * cpu / len(looks):.2f} ms CPU each")
    print(f"     a process that only asks NVML (this one): {held(os.getpid())}")
    print(f"     ring ends, s before it was read: {[round(age, 2) for age in watch.ages]}, mean {mean(watch.ages):.2f}")


def namespace(report: Report, folder: Path) -> None:
    """A job and gputop in a PID namespace of their own, as in a container; needs the right to make one."""
    inside = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        sys.executable,
        "-m",
        "tests.gpu.pair_check",
        str(folder),
        "inside",
    ]
    done = subprocess.run(inside, timeout=90, check=False)
    report.check("in a PID namespace of its own", done.returncode == 0, done.returncode)


def inside(report: Report, _folder: Path) -> None:
    """What `namespace` runs: the job has one GPU for itself, both ways of telling it apart."""
    for devices, place in (("1", "cuda:0"), ("0,1", "cuda:1")):
        with running(_MATMUL, place, CUDA_VISIBLE_DEVICES=devices) as job:
            first, second = reported(job.pid, 6)
            print(f"     sees {devices}: {held(job.pid)}; GPU 0 {first['process']} {first['na'].get('process.sm')}")
            report.check(f"sees {devices}: GPU 1 is the program's", second["process"]["present"], second["process"])
            report.check(
                f"sees {devices}: its SMs", (second["process"]["sm"] or 0) > 0.8, second["na"].get("process.sm")
            )
            report.check(f"sees {devices}: GPU 0 is not", not first["process"]["present"], first["process"])


def main() -> int:
    """Run everything, or the steps named, and return the exit code."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    report, watch = Report(), Watch()
    if watch.count < 2:
        print("needs two GPUs")
        return 1
    steps: dict[str, Callable[[], None]] = {
        "one_of_two": partial(one_of_two, report, folder),
        "one_each": partial(one_each, report, folder),
        "namespace": partial(namespace, report, folder),
        "inside": partial(inside, report, folder),
        "between": partial(between, report, watch),
        "energy": partial(energy, report, watch),
        "cost": partial(cost, watch),
    }
    for name in sys.argv[2:] or [name for name in steps if name != "inside"]:
        print(f"--- {name}")
        steps[name]()
    watch.backend.close()
    print(f"{report.failed} failed")
    return int(report.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
