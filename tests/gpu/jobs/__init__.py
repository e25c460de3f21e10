"""Jobs that know the truth about themselves: python -m tests.gpu.jobs NAME [--cpu].

They speak the language of `tests/targets` ("ready", work until standard input is closed, the truth as JSON), with
`marks` (when each step ended) and `ledgers` (what each thread's time went into, by and by), so that a bench can tell
the truth about any window. A step is a fixed amount of work, so that a slow-down shows in the rate of the steps.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """A job: where its function is, and whether it only makes sense with a GPU (`--cpu` then just tries it out)."""

    module: str
    function: str
    about: str
    gpu: bool = True


JOBS: dict[str, Job] = {
    "train": Job("training", "gpu_bound", "ResNet-50 training, batch resident on the GPU, one .item() a step"),
    "loader": Job("training", "loader_bound", "training that waits for two slow DataLoader workers", gpu=False),
    "decode": Job("decoding", "decode", "LLM decoding token by token: launch-bound"),
    "copies": Job("transfers", "copies", "pageable copies both ways, pinned ones with events, numpy"),
    "thrash": Job("transfers", "thrash", "cudaMalloc and cudaFree over and over, and Python"),
    "queue": Job("launches", "queue_full", "matrix products without end: the launch queue is full"),
    "mixed": Job("launches", "mixed", "Python, native work, launches, sync, .item(), .cpu(), sleep"),
    "cxx": Job("program", "exec_program", "a C++ program without Python: decode_image, sync, sleep", gpu=False),
    "pool": Job("threads", "pool", "a thread pool whose four workers share a lock", gpu=False),
    "loop": Job("threads", "loop", "Python alone, one thread", gpu=False),
    "parked": Job("threads", "parked", "Python beside 300 threads that wait", gpu=False),
}
