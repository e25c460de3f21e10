"""What a thread is for, told by its names: one ordered table."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Role:
    """A thread whose kernel name, or Python name, matches (a regular expression from the start) has this role.

    A process's main thread has it only where `main` says so: its kernel name is that of the program.
    """

    role: str
    pattern: str
    main: bool = False


#: The CUDA driver's own threads, there once a process has a context.
_CUDA = r"(cuda-EvtHandlr|cuda[0-9a-f]{11}$)"

#: First match wins. The kernel keeps 15 characters of a name. Names as PyTorch 2.11, NCCL 2.30, the CUDA driver 580,
#: JAX 0.11, ZeroMQ 4.3 and CPython 3.14 give them.
ROLES: tuple[Role, ...] = (
    Role("dataloader", r"pt_data_worker", main=True),
    Role("autograd", r"pt_autograd_\d"),
    Role("nccl", r"(pt_nccl_|NCCL |pt_gloo_|pt_tcpstore|pt_dist_engine)"),
    Role("dataloader", r"(pt_data_pin|Thread-\d+ \(_pin_memory_loop\)|QueueFeederThread)"),
    Role("cuda", _CUDA),
    Role("pool", r"(tf_|ThreadPoolExecutor|asyncio_\d|pt_thread_pool|pool|OpenBLAS|omp|Eigen|openmp|async-)"),
    Role("native", r"(jemalloc_bg_thd|ZMQbg|iou-|gmain|gdbus)"),
)

_MATCHERS = tuple((entry, re.compile(entry.pattern).match) for entry in ROLES)


def is_cuda(comm: str) -> bool:
    """Tell whether a thread of this kernel name belongs to the CUDA driver."""
    return re.match(_CUDA, comm) is not None


def role(comm: str, python_name: str, is_main: bool, has_python_stack: bool) -> str:
    """Return "main", "autograd", "nccl", "dataloader", "cuda", "pool", "python" or "native".

    Arguments:
        comm: the kernel's name for the thread; by default that of the program.
        python_name: Python's name for it ("MainThread"), empty when it has none.
        is_main: it is the process's first thread.
        has_python_stack: Python code was seen on it.
    """
    for entry, matches in _MATCHERS:
        if (entry.main or not is_main) and (matches(comm) or matches(python_name)):
            return entry.role
    if is_main:
        return "main"
    return "python" if has_python_stack or python_name else "native"
