"""What one look at the GPUs costs gputop, nvitop and gpustat, over the stand-in for NVML and at the same rate.

    python -m venv peers && peers/bin/pip install nvitop gpustat
    python -m tests.bench.nvml --peers peers/bin/python [--gpus 1 8 16] [--seconds 10]
    python -m tests.bench.nvml --peers peers/bin/python --real         over the driver of this machine

Each tool runs in a process of its own, looks twice a second, and gathers what its screen shows, without drawing it. The
stand-in answers at once, so that what is counted is the tools' own work: CPU time of the whole process over the
looks after the first two seconds. gpustat sleeps 0.1 s for each GPU, which shows in the time of a look only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fakes.build import compile_shared

_LOOP = """
import json, sys, time
def repeat(look, seconds):
    looks, asking, end = 0, 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        look()
        took = time.monotonic() - began
        looks, asking = looks + 1, asking + took
        time.sleep(max(0.0, 0.5 - took))
    return looks, asking
def measure(look):
    repeat(look, 2.0)
    used = time.process_time()
    looks, asking = repeat(look, float(sys.argv[1]))
    print(json.dumps({"cpu_ms": 1e3 * (time.process_time() - used) / looks, "wall_ms": 1e3 * asking / looks}))
"""

PROGRAMS = {
    "gputop": """
import threading
from gputop.collectors.gpu.nvml import NvmlBackend
backend = NvmlBackend(threading.Event())
backend.probe()
watched = frozenset(map(int, sys.argv[2].split(",")))
measure(lambda: list(backend.read(watched)))
backend.close()
""",
    "nvitop": """
from nvitop.tui.library import Device, GpuProcess
devices = Device.all()
def look():
    for device in devices:
        device.as_snapshot()
    GpuProcess.take_snapshots([p for device in devices for p in device.processes().values()], failsafe=True)
measure(look)
""",
    "gpustat": """
import gpustat
measure(gpustat.new_query)
""",
}


def script(gpus: int, pids: list[int]) -> str:
    """Return a machine at work: every GPU runs some processes, and every counter moves."""
    orders = [f"gpus {gpus}", "set * util 0:40 3:90 6:10", "set * mig 0", "set * energy 0+500000"]
    orders += [f"set * gpm.{number} 40" for number in (1, 2, 3, 5, 10, 12, 20, 21)]
    orders += [f"set * field.{number} 0+1000000" for number in (74, 75, 269, 270, 271, 197, 198)]
    orders += [f"process * C {pid} 1000000000" for pid in pids] + [f"use * {pid} 20 5" for pid in pids]
    return "\n".join(orders) + "\n"


def run(tool: str, interpreter: str, folder: Path | None, pids: list[int], seconds: float) -> dict[str, float]:
    """Run one tool, over the stand-in in a folder or the real driver, and return its milliseconds for a look."""
    standin = {"LD_LIBRARY_PATH": str(folder), "GPUTOP_NVML_SCRIPT": f"{folder}/script"} if folder else {}
    environ = os.environ | standin
    command = [interpreter, "-c", _LOOP + PROGRAMS[tool], str(seconds), ",".join(map(str, pids))]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=seconds + 120, check=False)
    if done.returncode:
        raise SystemExit(f"{tool} failed:\n{done.stderr}")
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def over_standin(tools: dict[str, str], gpus: list[int], pids: list[int], seconds: float) -> None:
    """Measure each tool for each number of GPUs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compile_shared("nvml.c", "libnvidia-ml.so.1", folder)
        for count in gpus:
            (folder / "script").write_text(script(count, pids))
            for tool, interpreter in tools.items():
                row(str(count), tool, run(tool, interpreter, folder, pids, seconds))


def row(gpus: str, tool: str, found: dict[str, float]) -> None:
    """Print one row of the table."""
    cpu = found["cpu_ms"]
    print(f"| {gpus} | {tool} | {cpu:.2f} | {cpu / 5:.2f} | {found['wall_ms']:.1f} |", flush=True)


def main() -> None:
    """Measure each tool for each number of GPUs and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", metavar="PYTHON", help="interpreter that has nvitop and gpustat")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 8, 16])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--real", action="store_true", help="the driver of this machine and its GPUs")
    parser.add_argument("--pids", type=int, nargs="+", help="with --real: processes whose part of the GPUs is told")
    chosen = parser.parse_args()
    tools = {"gputop": sys.executable} | dict.fromkeys(("nvitop", "gpustat") if chosen.peers else (), chosen.peers)
    users = [subprocess.Popen(["sleep", "3600"]) for _ in range(4)]
    pids = [user.pid for user in users]
    print("| GPUs | tool | CPU ms a look | % of a core at 2 Hz | ms from begin to end of a look |")
    print("|---:|---|---:|---:|---:|")
    try:
        if chosen.real:
            for tool, interpreter in tools.items():
                row("real", tool, run(tool, interpreter, None, chosen.pids or pids, chosen.seconds))
        else:
            over_standin(tools, chosen.gpus, pids, chosen.seconds)
    finally:
        for user in users:
            user.kill()
            user.wait()


if __name__ == "__main__":
    main()
