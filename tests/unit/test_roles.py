"""What threads are for, by the names that real programs gave them."""

from __future__ import annotations

import pytest

from gputop.analysis.roles import role


@pytest.mark.parametrize(
    ("comm", "python_name", "has_stack", "expected"),
    [
        ("pt_autograd_0", "", True, "autograd"),
        ("pt_nccl_watchdg", "", False, "nccl"),
        ("NCCL Progress 0", "", False, "nccl"),
        ("pt_gloo_runloop", "", False, "nccl"),
        ("pt_data_pin", "Thread-3 (_pin_memory_loop)", True, "dataloader"),
        ("python3", "QueueFeederThread", True, "dataloader"),
        ("cuda00001400006", "", False, "cuda"),
        ("cuda-EvtHandlr", "", False, "cuda"),
        ("tf_XLAEigen", "", False, "pool"),
        ("openmp_worker", "", False, "pool"),
        ("python3", "ThreadPoolExecutor-0_3", True, "pool"),
        ("jemalloc_bg_thd", "", False, "native"),
        ("ZMQbg/IO/0", "", False, "native"),
        ("python3", "Thread-1 (run)", True, "python"),
        ("python3", "", True, "python"),
        ("python3", "", False, "native"),
        ("cudaprogram", "", False, "native"),
    ],
)
def test_role(comm: str, python_name: str, has_stack: bool, expected: str) -> None:
    assert role(comm, python_name, is_main=False, has_python_stack=has_stack) == expected


def test_the_main_thread_is_main_whatever_it_is_called() -> None:
    assert role("pool", "MainThread", is_main=True, has_python_stack=True) == "main"


def test_the_main_thread_of_a_loader_worker_is_the_loaders() -> None:
    assert role("pt_data_worker", "MainThread", is_main=True, has_python_stack=True) == "dataloader"
