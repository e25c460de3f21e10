"""Whose GPU it is where the driver lists none of our pids, as in a container: faults T9 and T10, by memory maps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputop.collectors.gpu.holders import Maps
from gputop.collectors.gpu.nvml import NvmlBackend
from gputop.model import GpuReading
from tests.fakes.nvml import Nvml
from tests.unit.gpu.test_nvml_processes import GHOST, LISTED, ME, reason

OTHER = GHOST + 1


def process(proc: Path, pid: int, *contexts: int, names: str = "", sees: tuple[int, ...] = (0, 1)) -> None:
    """Make a process with contexts on these GPUs; `names` are its numbers in PID namespaces of its own.

    As on H200s with driver 580, it maps what it sees twice, and once more for a context.
    """
    folder = proc / str(pid)
    folder.mkdir()
    rows = [f"20{k}000-20{k}400 rw-s 00000000 00:06 77           /dev/nvidia{k}" for k in (*sees, *sees, *contexts)]
    rows += ["400000-410000 r-xp 00000000 08:01 9  /usr/bin/python", "500000-600000 rw-s 0 00:06 78  /dev/nvidiactl"]
    (folder / "maps").write_text("\n".join(rows) + "\n")
    (folder / "status").write_text(f"Name:\tpython\nNSpid:\t{pid} {names}\n")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return an empty stand-in for /proc."""
    (tmp_path / "proc").mkdir()
    return tmp_path / "proc"


def seen(nvml: Nvml, proc: Path, *orders: str, until: float = 4.0) -> tuple[NvmlBackend, list[GpuReading]]:
    """Return two GPUs as they are seen after a while."""
    backend = nvml.started("gpus 2", *orders, proc=proc)
    return backend, nvml.looks(backend, ME, until=until)


def test_the_only_process_of_a_gpu_that_the_target_has_mapped_is_the_target(nvml: Nvml, proc: Path) -> None:
    process(proc, ME, 1)
    orders = (f"process 1 C {GHOST} 4096", f"use 1 {GHOST} 87 10", f"process 0 C {OTHER} 77")
    backend, (first, second) = seen(nvml, proc, *orders)
    assert (first.used, second.used) == (False, True)
    assert (second.target.sm, second.target.memory_bytes, second.others) == (0.87, 4096.0, 0.0)
    assert second.target.by_process == ((ME, 4096.0),)
    assert "PID namespace" in reason(first.target.sm)
    remark = backend.remarks()["pid-namespace"]
    assert "has mapped" in remark.what
    assert "--pid=host" in remark.remedy


def test_of_two_processes_neither_is_taken_for_the_target(nvml: Nvml, proc: Path) -> None:
    process(proc, ME, 1)
    orders = (f"process 1 C {GHOST} 4096", f"process 1 C {OTHER} 77", f"use 1 {GHOST} 87 10")
    _, (_, second) = seen(nvml, proc, *orders)
    assert second.used
    assert "run gputop on the host" in reason(second.target.sm)
    assert "run gputop on the host" in reason(second.target.memory_bytes)
    assert second.others == 1.0
    assert second.metric("utilization") == 0.3


def test_two_of_the_targets_processes_on_one_gpu_are_summed(nvml: Nvml, proc: Path) -> None:
    process(proc, ME, 0)
    process(proc, os.getppid(), 0)
    orders = (f"process 0 C {GHOST} 4096", f"process 0 C {OTHER} 4", f"use 0 {GHOST} 50 1", f"use 0 {OTHER} 20 1")
    backend = nvml.started("gpus 2", *orders, proc=proc)
    first, _ = nvml.looks(backend, ME, os.getppid(), until=4.0)
    assert (first.target.sm, first.target.memory_bytes) == (0.7, 4100.0)
    assert first.target.by_process == (), "which of the two is which is not known"


def test_a_driver_that_lists_nothing_does_not_hide_whose_gpu_it_is(nvml: Nvml, proc: Path) -> None:
    process(proc, ME, 0)
    _, (first, second) = seen(nvml, proc)
    assert (first.used, second.used) == (True, False)
    assert "lists no process" in reason(first.target.sm)
    assert reason(second.target.sm) == "the target does not use this GPU"


def test_a_list_that_is_late_is_not_taken_for_another_namespace(nvml: Nvml, proc: Path) -> None:
    process(proc, ME, 0)
    backend = nvml.started("gpus 2", f"process 0 C {ME} 4096 1.9", proc=proc)
    for tick in range(20):
        gpus = nvml.look(backend, ME, at=tick / 2)
        assert backend.remarks() == {}
    assert gpus[0].target.memory_bytes == 4096.0


def test_maps_are_left_alone_where_the_driver_knows_the_pids(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Maps, "holders", None)
    _, (first, second) = seen(nvml, Path("/nowhere"), LISTED, f"use 0 {ME} 42 17")
    assert (first.target.sm, second.used) == (0.42, False)


def test_a_number_in_the_targets_own_namespace_is_another_process_here(proc: Path) -> None:
    process(proc, 100, 0, names="7")
    process(proc, 7, 1)
    assert Maps(lambda: 0.0, proc).holders(frozenset({100, 7, 9999})) == {0: {100}}


def test_maps_are_looked_at_rarely(proc: Path) -> None:
    now = 0.0
    maps = Maps(lambda: now, proc)
    process(proc, 100, 0)
    assert maps.holders(frozenset({100})) == {0: {100}}
    (proc / "100" / "maps").write_text("")
    now = 4.0
    assert maps.holders(frozenset({100})) == {0: {100}}
    now = 6.0
    assert maps.holders(frozenset({100})) == {}


def test_driver_that_tells_no_minor_number(nvml: Nvml, proc: Path) -> None:
    process(proc, ME, 1)
    _, (_, second) = seen(nvml, proc, "error nvmlDeviceGetMinorNumber 3", f"process 1 C {GHOST} 4096")
    assert not second.used
    assert "PID namespace" in reason(second.target.sm)
