"""Memory: copies between host and GPU, and getting and giving back GPU memory."""

from __future__ import annotations

import numpy
import torch
from torch import Tensor

from tests.gpu.jobs.base import DISPATCH, Ledger, python_work, run


def copies(device: str) -> None:
    """Copy pageable memory both ways, pinned memory with events that spin and that block, and sort with numpy."""
    size = (32 if device == "cuda" else 4) << 20
    host, gpu = torch.ones(size, dtype=torch.uint8), torch.ones(size, dtype=torch.uint8, device=device)
    numbers = numpy.random.default_rng(7).random(100_000)
    pinned = PinnedCopies(gpu) if device == "cuda" else None

    def step(ledger: Ledger) -> None:
        with ledger.timed("gpu_wait.copy_to_device" if pinned else "native"):
            gpu.copy_(host)
        with ledger.timed("gpu_wait.copy_to_host" if pinned else "native"):
            host.copy_(gpu)
        if pinned:
            pinned.step(ledger)
        with ledger.timed("native"):
            numpy.sort(numbers)

    run(step)


class PinnedCopies:
    """Asynchronous copies to pinned memory, awaited by events."""

    def __init__(self, gpu: Tensor) -> None:
        self._gpu = gpu.repeat(16)
        self._host = torch.empty(self._gpu.shape, dtype=torch.uint8, pin_memory=True)
        self._events = [torch.cuda.Event(blocking=blocking) for blocking in (False, True)]  # type: ignore[no-untyped-call]

    def step(self, ledger: Ledger) -> None:
        """Copy once for each event."""
        for event in self._events:
            with ledger.timed(DISPATCH):
                self._host.copy_(self._gpu, non_blocking=True)
                event.record()
            with ledger.timed("gpu_wait.event"):
                event.synchronize()


def thrash(device: str) -> None:
    """Get memory from the driver and give it back at once, as a job near its memory's end does."""
    blocks = [(64 << place) << 20 for place in range(4)] if device == "cuda" else [1 << 20] * 4
    state = "gpu_api+gpu_wait" if device == "cuda" else "python+native"

    def step(ledger: Ledger) -> None:
        with ledger.timed(state):
            held = [torch.empty(size, dtype=torch.uint8, device=device) for size in blocks]
            held.clear()
            if device == "cuda":
                torch.cuda.empty_cache()
        with ledger.timed("python"):
            python_work(5)

    run(step)
