"""Work for `kineto_check`: `traced_job.py train|decode|sleep`, with torch on a GPU.

Every half second it prints how many steps it has done and when (monotonic seconds). Each step is marked with a
`record_function` that is named after the Unix time in ns. A line on standard input: "profile N" runs torch.profiler
over N steps and prints the kernels' microseconds a step, "end" ends it.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile, record_function

Step = Callable[[], object]

#: Without a GPU only the script itself can be tried out.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def train() -> Step:
    """Return a training step that keeps the GPU busy, with one `.item()`."""
    blocks = [torch.nn.Sequential(torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.ReLU()) for _ in range(12)]
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3, padding=1), *blocks).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images = torch.randn(64, 3, 96, 96, device=DEVICE)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(images).square().mean()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def decode() -> Step:
    """Return the decoding of one token: thousands of kernels of a few microseconds."""
    layers = [torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True) for _ in range(24)]
    model = torch.nn.Sequential(*layers).to(DEVICE).bfloat16().eval()
    token = torch.randn(1, 1, 512, device=DEVICE, dtype=torch.bfloat16)

    def step() -> object:
        with torch.no_grad():
            return model(token)

    return step


def sleep() -> Step:
    """Return nothing to do, on a GPU that is held."""
    torch.zeros(1, device=DEVICE)
    return lambda: time.sleep(0.1)


def profiled(step: Step, count: int) -> dict[str, float]:
    """Return the kernels' microseconds a step and the numbers of rows, by torch.profiler in this process."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(count):
            step()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
    rows = profiler.key_averages()
    on_gpu = [row for row in rows if row.device_type.name == "CUDA"]
    kernel_us = float(sum(row.self_device_time_total for row in on_gpu)) / count
    return {"kernel_us": kernel_us, "gpu_rows": len(on_gpu), "cpu_rows": len(rows) - len(on_gpu)}


def main() -> None:
    step = {"train": train, "decode": decode, "sleep": sleep}[sys.argv[1]]()
    for _ in range(10):
        step()
    print("ready", flush=True)
    steps, told = 0, time.monotonic()
    while True:
        if select.select([sys.stdin], [], [], 0)[0]:
            order = sys.stdin.readline().split() or ["end"]
            if order[0] == "end":
                break
            print(json.dumps(profiled(step, int(order[1]))), flush=True)
        with record_function(f"step {time.time_ns()}"):
            step()
        steps += 1
        if time.monotonic() - told > 0.5:
            told = time.monotonic()
            print(json.dumps({"steps": steps, "at": told}), flush=True)


if __name__ == "__main__":
    main()
