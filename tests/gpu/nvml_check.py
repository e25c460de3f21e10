"""Our GPU numbers beside nvidia-smi's and beside known loads, on a machine with an NVIDIA GPU. Needs torch, no pytest.

    python -m tests.gpu.nvml_check            about 40 s; prints one line a comparison; exit code 1 when one fails

Loads run in a child, so that the target's part is another process's, as it is for gputop: first matrix products
in bf16, then copies from pinned host memory at a rate that the child measures itself.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from gputop.analysis.efficiency import assess
from gputop.collectors.gpu.collector import GpuCollector
from gputop.collectors.gpu.nvml import NvmlBackend
from gputop.collectors.gpu.nvml_counters import COUNTERS
from gputop.model import NA, Batch, GpuBatch, GpuReading, Value, known

_LOAD = """
import sys, threading, time, torch
kind, devices = sys.argv[1], range(torch.cuda.device_count())
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
if kind == "matmul":
    pairs = [torch.randn(2, 8192, 8192, device=f"cuda:{d}", dtype=torch.bfloat16) for d in devices]
    step = lambda: [torch.mm(pair[0], pair[1]) for pair in pairs]
else:
    host = torch.empty(256 << 20, dtype=torch.uint8, pin_memory=True)
    there = torch.empty_like(host, device="cuda:0")
    step = lambda: there.copy_(host, non_blocking=True)
step(); torch.cuda.synchronize(); print("ready", flush=True)
steps, began = 0, time.monotonic()
while not stop.is_set():
    step(); steps += 1
    for d in devices: torch.cuda.synchronize(d)
print(steps * (256 << 20) / (time.monotonic() - began), flush=True)
"""

_QUERY = (
    "index,uuid,name,utilization.gpu,memory.used,memory.reserved,memory.total,power.draw,enforced.power.limit,"
    "temperature.gpu,clocks.sm,clocks.mem,fan.speed,ecc.errors.uncorrected.volatile.total,mig.mode.current"
)
_MIB = 1 << 20


class Report:
    """Comparisons so far."""

    def __init__(self) -> None:
        self.failed = 0

    def check(self, what: str, ok: bool, ours: object, theirs: object = "") -> None:
        """Print one comparison."""
        self.failed += not ok
        expected = f"expected {_short(theirs)}" if theirs != "" else ""
        print(f"{'ok  ' if ok else 'FAIL'} {what:<38} ours {_short(ours):<28} {expected}", flush=True)

    def near(self, what: str, ours: Value, theirs: str, scale: float, tolerance: float) -> None:
        """Compare with a number of nvidia-smi; what it does not have, we must not have either."""
        try:
            expected = float(theirs) * scale
        except ValueError:
            self.check(what, isinstance(ours, NA), ours, theirs)
            return
        number = known(ours)
        self.check(what, number is not None and abs(number - expected) <= tolerance, ours, expected)


def _short(value: object) -> str:
    return (
        f"n/a ({value.reason})" if isinstance(value, NA) else f"{value:.6g}" if isinstance(value, float) else str(value)
    )


class Load:
    """A child that loads the GPUs until it is stopped."""

    def __init__(self, kind: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", _LOAD, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._child.pid
        assert self._child.stdout
        self.ready = self._child.stdout.readline().strip() == "ready"

    def stop(self) -> float:
        """End it and return the bytes a second that it moved."""
        out, _ = self._child.communicate(timeout=60)
        return float(out or "nan")


class Watch:
    """Reads all GPUs twice a second."""

    def __init__(self) -> None:
        self.backend = NvmlBackend(threading.Event())
        self.count = self.backend.probe()
        self.curve: list[tuple[float, float]] = []
        #: How old the first GPU's newest point was whenever there were new ones, seconds.
        self.ages: list[float] = []

    def run(self, seconds: float, *pids: int) -> list[list[GpuReading]]:
        """Return the readings of all GPUs at each look."""
        looks, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            asked = time.monotonic()
            seen = list(self.backend.read(frozenset(pids)))
            self.curve += seen[0].curve
            self.ages += [asked - moment for moment, _ in seen[0].curve[-1:]]
            looks.append([gpu.reading for gpu in seen])
            time.sleep(0.5)
        return looks


def smi(query: str) -> list[list[str]]:
    """Return nvidia-smi's answer, a list of fields for each row."""
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    rows = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()
    return [[field.strip() for field in row.split(",")] for row in rows if row.strip()]


def compare(report: Report, gpu: GpuReading, row: list[str], phase: str) -> None:
    """Set one GPU's reading beside nvidia-smi's row."""
    report.check(f"{phase} index, uuid, name", [str(gpu.index), gpu.uuid, gpu.name] == row[:3], gpu.uuid, row[1])
    columns: tuple[tuple[str, float, float], ...] = (
        ("utilization", 0.01, 0.15),
        ("memory_used_bytes", _MIB, 64 * _MIB),
        ("memory_reserved_bytes", _MIB, 2 * _MIB),
        ("memory_total_bytes", _MIB, 2 * _MIB),
        ("power_w", 1, 80),
        ("power_limit_w", 1, 1),
        ("temperature_c", 1, 4),
        ("clock_sm_mhz", 1, 200 if phase == "load" else 2000),  # an idle GPU changes it when it is asked
        ("clock_memory_mhz", 1, 50),
        ("fan", 0.01, 0.1),
        ("ecc_uncorrected", 1, 0),
    )
    for (name, scale, tolerance), theirs in zip(columns, row[3:], strict=False):
        report.near(f"{phase} {name}", gpu.metric(name), theirs, scale, tolerance)
    mode = {"Enabled": 1.0, "Disabled": 0.0}.get(row[14])
    report.check(f"{phase} mig_mode", known(gpu.metric("mig_mode")) == mode, gpu.metric("mig_mode"), row[14])


def idle(report: Report, watch: Watch) -> None:
    """Nothing of ours runs."""
    gpus = watch.run(5.0)[-1]
    for gpu, row in zip(gpus, smi(f"--query-gpu={_QUERY}"), strict=False):
        compare(report, gpu, row, "idle")
        report.check("idle: not the target's", not gpu.target.present, gpu.target.sm)


def matmul(report: Report, watch: Watch) -> None:
    """All GPUs multiply matrices."""
    load = Load("matmul")
    report.check("load started", load.ready, load.ready)
    watch.run(2.0, load.pid)
    began, before = time.monotonic(), watch.run(5.5, load.pid)[-1]
    looks = watch.run(6.0, load.pid)
    seconds, gpus = time.monotonic() - began, looks[-1]
    rows, apps = smi(f"--query-gpu={_QUERY}"), smi("--query-compute-apps=gpu_uuid,pid,used_memory")
    load.stop()
    for gpu, row in zip(gpus, rows, strict=False):
        compare(report, gpu, row, "load")
        loaded(report, gpu)
        used = [app[2] for app in apps if app[0] == gpu.uuid and app[1] == str(load.pid)]
        report.near("load target memory", gpu.target.memory_bytes, used[0] if used else "nothing", _MIB, 64 * _MIB)
    energy(report, before[0], gpus[0], looks)
    print(f"     {seconds:.1f} s of load; efficiency: {assess(gpus[0])}")


def loaded(report: Report, gpu: GpuReading) -> None:
    """What a GPU that multiplies matrices all the time must show."""
    bounds: tuple[tuple[str, Value, float], ...] = (
        ("utilization", gpu.metric("utilization"), 0.9),
        ("gpm.sm_active", gpu.metric("gpm.sm_active"), 0.7),
        ("gpm.tensor", gpu.metric("gpm.tensor"), 0.4),
        ("target SM", gpu.target.sm, 0.8),
    )
    for what, value, least in bounds:
        report.check(f"load {what}", (known(value) or 0) >= least, value, f">= {least}")
    found = assess(gpu).id
    report.check(
        "load efficiency", found in ("compute-bound", "power-limited"), found, "compute-bound or power-limited"
    )


def energy(report: Report, before: GpuReading, after: GpuReading, looks: list[list[GpuReading]]) -> None:
    """Energy between two readings (each up to 5 s old) is about power times time."""
    joules = (known(after.metric("energy_j")) or 0) - (known(before.metric("energy_j")) or 0)
    watts = [known(look[0].metric("power_w")) or 0 for look in looks]
    seconds = joules / (sum(watts) / len(watts))
    report.check("load energy / power, s", 4.0 <= seconds <= 11.0, seconds, "one or two steps of 5 s")


def ring(report: Report, watch: Watch) -> None:
    """The curve is the driver's 5 Hz ring, in our time; its newest point is a sample or two old when it is read."""
    watch.ages.clear()
    watch.run(5.0)
    times = [moment for moment, _ in watch.curve]
    report.check("curve goes forward", times == sorted(set(times)), len(times))
    oldest = max(watch.ages)
    report.check("curve's age when it is read, s", min(watch.ages) >= -0.1 and oldest <= 0.5, oldest, "0 to 0.5")
    last = [moment for moment in times if moment > times[-1] - 5]
    report.check("curve points in 5 s", 15 <= len(last) <= 35, len(last), "about 25")


def copies(report: Report, watch: Watch) -> None:
    """The first GPU gets data from the host."""
    load = Load("copy")
    gpu = watch.run(7.0, load.pid)[-1][0]
    by_counters = {name: watch.backend._gpus[0].metrics[name] for name in ("pcie_rx_bps", "pcie_tx_bps")}
    rate = load.stop()
    for name, value in (("best", gpu.metric("pcie_rx_bps")), ("counters", by_counters["pcie_rx_bps"])):
        number = known(value)
        fits = number is not None and 0.8 * rate <= number <= 1.35 * rate
        report.check(f"copy PCIe received, {name}", fits or (name == "counters" and number is None), value, rate)
    sent = known(gpu.metric("pcie_tx_bps"))
    report.check("copy PCIe sent", sent is not None and sent < 0.3 * rate, gpu.metric("pcie_tx_bps"), "little")


def fields(watch: Watch) -> None:
    """Print what the driver says to each counter; nothing is judged."""
    library, handle = watch.backend._library, watch.backend._gpus[0].handle
    assert library
    values = library.call("nvmlDeviceGetFieldValues", handle, [(c.field, c.scope) for c in COUNTERS])
    said = [
        f"{c.field} {c.metric}: code {v.nvmlReturn} type {v.valueType}" for c, v in zip(COUNTERS, values, strict=True)
    ]
    print("     fields: " + "; ".join(said))


def costs(watch: Watch) -> None:
    """Print what each kind of ask costs; nothing is judged."""
    library, gpu = watch.backend._library, watch.backend._gpus[0]
    assert library
    asks: dict[str, Callable[[], Any]] = {
        part.names[0]: partial(part.ask, library, gpu.handle, 0.0) for part in gpu._parts
    }
    asks["processes"] = partial(gpu.processes.ask, library, gpu.handle, 0.0, time.time())
    for name, ask in asks.items():
        began = time.perf_counter()
        try:
            for _ in range(5):
                ask()
        except Exception as error:
            print(f"     cost {name}: {type(error).__name__} {error}")
            continue
        print(f"     cost {name}: {1e3 * (time.perf_counter() - began) / 5:.3f} ms")


def collector(report: Report) -> None:
    """The thread as gputop runs it."""
    batches: list[Batch] = []
    running, began, used = GpuCollector(batches.append), time.monotonic(), time.process_time()
    running.start()
    time.sleep(10.0)
    cpu = (time.process_time() - used) / (time.monotonic() - began)
    stopping = time.monotonic()
    running.stop()
    took = time.monotonic() - stopping
    looks = sum(isinstance(batch, GpuBatch) for batch in batches)
    report.check("collector looks in 10 s", 18 <= looks <= 22, looks, 20)
    report.check("collector stops, s", took < 0.3, took, "< 0.3")
    report.check("collector CPU, share of a core", cpu < 0.03, cpu, "< 0.03")
    print(f"     notes: {[batch for batch in batches if not isinstance(batch, GpuBatch)]}")


def main() -> int:
    """Run everything and return the exit code."""
    report, watch = Report(), Watch()
    print(f"{watch.count} GPUs")
    for step in (idle, matmul, ring, copies):
        print(f"--- {step.__name__}")
        step(report, watch)
    fields(watch)
    costs(watch)
    print(f"     remarks: {dict(watch.backend.remarks())}")
    watch.backend.close()
    collector(report)
    print(f"{report.failed} failed")
    return int(report.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
