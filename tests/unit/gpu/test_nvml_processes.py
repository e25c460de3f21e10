"""Whose part of the GPU is whose, through real pynvml: faults T1 to T14, T18 and T23 of other monitors."""

from __future__ import annotations

import os

import pytest

from gputop.model import NA, GpuReading, known
from tests.fakes.nvml import Nvml

ME = os.getpid()
PARENT = os.getppid()

#: No kernel gives out a pid this high.
GHOST = 2**30

LISTED = f"process 0 C {ME} 1000000000"


def reason(value: object) -> str:
    """Return why a value is missing; fails when it is there."""
    assert isinstance(value, NA), value
    return value.reason


def test_target_gets_its_own_numbers(nvml: Nvml) -> None:
    backend = nvml.started(LISTED, f"process 0 C {PARENT} 5", f"use 0 {ME} 42 17", f"use 0 {PARENT} 50 1")
    (gpu,) = nvml.looks(backend, ME, until=1.0)
    assert gpu.target.sm == 0.42
    assert gpu.target.memory_bandwidth == 0.17
    assert gpu.target.memory_bytes == 1e9
    assert gpu.target.present
    assert gpu.others == 1.0


def test_processes_of_the_target_are_summed(nvml: Nvml) -> None:
    backend = nvml.started(LISTED, f"process 0 C {PARENT} 5", f"use 0 {ME} 42 17", f"use 0 {PARENT} 50 1")
    (gpu,) = nvml.looks(backend, ME, PARENT, until=1.0)
    assert (gpu.target.sm, gpu.target.memory_bytes, gpu.others) == (0.92, 1e9 + 5, 0.0)
    assert dict(gpu.target.by_process) == {ME: 1e9, PARENT: 5.0}


def test_which_gpus_the_target_uses(nvml: Nvml) -> None:
    backend = nvml.started("gpus 3", f"process 1 C {ME} 7")
    gpus = nvml.looks(backend, ME, until=1.0)
    assert [gpu.target.present for gpu in gpus] == [False, True, False]


def test_a_process_in_several_lists_counts_once(nvml: Nvml) -> None:
    backend = nvml.started(LISTED, f"process 0 G {ME} 3000", f"process 0 M {ME} -")
    (gpu,) = nvml.looks(backend, ME, until=1.0)
    assert gpu.target.memory_bytes == 1e9
    assert gpu.others == 0.0


def test_t1_t7_idle_process_is_zero_and_does_not_flicker(nvml: Nvml) -> None:
    backend = nvml.started("set 0 util 0", LISTED)
    seen = [nvml.look(backend, ME, at=tick / 2)[0].target.sm for tick in range(12)]
    assert seen == [0.0] * 12
    assert nvml.calls("nvmlDeviceGetProcessesUtilizationInfo") >= 6


def test_t2_idle_gpu_is_no_trouble(nvml: Nvml) -> None:
    backend = nvml.started("set 0 util 0", "set 0 ring 0", LISTED)
    (gpu,) = nvml.looks(backend, ME, until=3.0)
    assert not gpu.error
    assert backend.remarks() == {}
    assert nvml.calls("nvmlDeviceGetProcessesUtilizationInfo") > 0, "the driver said that it found nothing"


def test_t4_garbage_rows_are_dropped(nvml: Nvml) -> None:
    garbage = [f"use 0 {ME} 4200 10", f"use 0 {PARENT} 30 200", "use 0 0 50 50", "use 0 4294967295 50 50"]
    backend = nvml.started(LISTED, *garbage)
    (gpu,) = nvml.looks(backend, ME, PARENT, until=2.0)
    assert gpu.target.sm == 0.0


def test_t4_old_rows_are_not_taken_for_now(nvml: Nvml) -> None:
    nvml.set_clock(100.0)
    backend = nvml.started(LISTED, f"use 0 {ME} 90 10 0 50")
    (gpu,) = nvml.looks(backend, ME, until=102.0)
    assert gpu.target.sm == 0.0


def test_t5_bursts_show_as_bursts(nvml: Nvml) -> None:
    bursts = [f"use 0 {ME} 100 0 {start} {start + 2}" for start in (3, 15, 27)]
    backend = nvml.started(LISTED, *bursts)
    seen = [known(nvml.look(backend, ME, at=tick / 2)[0].target.sm) for tick in range(80)]
    assert set(seen) == {0.0, 1.0}, "no average in between"
    busy = sum(value or 0 for value in seen) / 2
    assert 6 <= busy <= 3 * (3 + 1.5), "three bursts of three samples, the last held for a period of the driver"


def test_t6_each_sample_is_asked_for_once(nvml: Nvml) -> None:
    backend = nvml.started("gpus 2", f"process * C {ME} 1000", f"use * {ME} 42 17 0 2")
    nvml.looks(backend, ME, until=8.0)
    stamps = [gpu.processes.usage.seen for gpu in backend._gpus]
    assert stamps[0] == stamps[1] == pytest.approx((1_800_000_000 + 2) * 1e6)
    (first, _) = nvml.look(backend, ME)
    assert first.target.sm == 0.0, "the value of second 2 did not climb down slowly"


def test_t8_list_that_grows_is_asked_for_again(nvml: Nvml) -> None:
    grows = ["grow nvmlDeviceGetProcessesUtilizationInfo 2", "grow nvmlDeviceGetComputeRunningProcesses_v3 2"]
    backend = nvml.started(LISTED, f"use 0 {ME} 42 17", *grows)
    (gpu,) = nvml.looks(backend, ME, until=1.0)
    assert (gpu.target.sm, gpu.target.memory_bytes) == (0.42, 1e9)


def test_t8_list_that_grows_for_ever_is_given_up(nvml: Nvml) -> None:
    backend = nvml.started(LISTED, f"use 0 {ME} 42 17", "grow nvmlDeviceGetProcessesUtilizationInfo 1000")
    (gpu,) = nvml.look(backend, ME)
    assert reason(gpu.target.sm)
    assert nvml.calls("nvmlDeviceGetProcessesUtilizationInfo") == 6, "three tries of two calls"


def test_t9_samples_under_other_pids_are_not_taken_for_idleness(nvml: Nvml) -> None:
    backend = nvml.started(f"process 0 C {ME} 0", f"use 0 {GHOST} 87 10")
    (gpu,) = nvml.looks(backend, ME, until=2.0)
    assert "PID namespace" in reason(gpu.target.sm)
    assert reason(gpu.target.memory_bytes)
    assert gpu.target.present


def test_t9_target_is_found_under_each_of_its_names(nvml: Nvml) -> None:
    backend = nvml.started(f"process 0 C {GHOST} 4096", f"use 0 {GHOST} 87 10")
    (gpu,) = nvml.looks(backend, ME, GHOST, until=1.0)
    assert (gpu.target.sm, gpu.target.memory_bytes) == (0.87, 4096.0)


def test_t10_other_pid_namespace_is_told_with_the_remedy(nvml: Nvml) -> None:
    backend = nvml.started(f"process 0 C {GHOST} 4096", f"process 0 C {GHOST + 1} 4096", f"use 0 {GHOST} 87 10")
    (gpu,) = nvml.looks(backend, ME, until=2.0)
    assert "PID namespace" in reason(gpu.target.sm)
    assert "PID namespace" in reason(gpu.others)
    assert gpu.metric("utilization") == 0.3, "the GPU's own numbers are still there"
    assert "--pid=host" in backend.remarks()["pid-namespace"].remedy


def test_t10_process_that_just_ended_is_no_namespace(nvml: Nvml) -> None:
    backend = nvml.started(f"process 0 C {GHOST} 4096 0 0.9", f"process 0 C {GHOST + 1} 4096 0.9 1.9")
    for tick in range(6):
        nvml.look(backend, ME, at=tick / 2)
        assert backend.remarks() == {}


@pytest.mark.parametrize("amount", ["0", "-"])
def test_t11_t12_no_memory_with_a_live_context_is_unknown(nvml: Nvml, amount: str) -> None:
    backend = nvml.started(f"process 0 C {ME} {amount}", f"use 0 {ME} 42 17")
    (gpu,) = nvml.looks(backend, ME, until=1.0)
    assert "memory" in reason(gpu.target.memory_bytes)
    assert gpu.target.sm == 0.42


def test_t12_absent_from_the_list_is_not_zero_bytes(nvml: Nvml) -> None:
    backend = nvml.started(f"process 0 C {PARENT} 10")
    (gpu,) = nvml.looks(backend, ME, until=1.0)
    use = gpu.target
    assert {reason(use.sm), reason(use.memory_bytes)} == {"the target does not use this GPU"}
    assert not use.present
    assert nvml.calls("nvmlDeviceGetProcessesUtilizationInfo") == 0, "others' samples are of no use"


def test_t14_garbage_of_version_3_is_replaced_by_version_2(nvml: Nvml) -> None:
    swapped = ["process 0 C3 0 0", "process 0 C3 4294967295 1000"]
    backend = nvml.started(*swapped, f"process 0 C3 {ME} 5", f"process 0 C2 {ME} 6000")
    (gpu,) = nvml.looks(backend, ME, until=1.0)
    assert gpu.target.memory_bytes == 6000.0
    assert gpu.others == 0.0


def test_t18_process_that_goes_away_costs_nothing_else(nvml: Nvml) -> None:
    backend = nvml.started(LISTED, f"process 0 C {GHOST} 4096", f"use 0 {ME} 42 17")
    (gpu,) = nvml.looks(backend, ME, until=2.0)
    assert (gpu.target.sm, gpu.others) == (0.42, 1.0)


def test_t23_unknown_process_beside_known_ones_is_only_counted(nvml: Nvml) -> None:
    backend = nvml.started(f"process 0 G {GHOST} -", LISTED)
    (gpu,) = nvml.looks(backend, ME, until=3.0)
    assert gpu.others == 1.0
    assert backend.remarks() == {}


def test_older_driver_without_the_newer_calls(nvml: Nvml) -> None:
    missing = [f"error nvmlDeviceGet{kind}RunningProcesses_v3 13" for kind in ("Compute", "Graphics", "MPSCompute")]
    backend = nvml.started(LISTED, f"use 0 {ME} 42 17", *missing, "error nvmlDeviceGetProcessesUtilizationInfo 13")
    (gpu,) = nvml.looks(backend, ME, until=4.0)
    assert (gpu.target.sm, gpu.target.memory_bytes) == (0.42, 1e9)
    assert nvml.calls("nvmlDeviceGetProcessesUtilizationInfo") == 1, "what is missing is asked for once"


def test_success_as_an_exception_means_no_rows(nvml: Nvml) -> None:
    backend = nvml.started(LISTED, "set 0 empty_is_ok 1")
    (gpu,) = nvml.looks(backend, ME, until=1.0)
    assert gpu.target.sm == 0.0


def test_stamps_since_boot_work_as_well(nvml: Nvml) -> None:
    backend = nvml.started(LISTED, f"use 0 {ME} 42 17", "set 0 boot_stamps 1")
    assert nvml.look(backend, ME)[0].target.sm == 0.0, "samples of unknown age are not shown"
    (gpu,) = nvml.looks(backend, ME, until=2.0)
    assert gpu.target.sm == 0.42


def test_wall_clock_step_does_not_stop_the_samples(nvml: Nvml) -> None:
    backend = nvml.started(LISTED, f"use 0 {ME} 42 17")
    nvml.looks(backend, ME, until=2.0)
    for tick in range(5, 10):
        nvml.set_clock(tick / 2, wall=1.0)
        gpu: GpuReading = nvml.look(backend, ME)[0]
        assert gpu.target.sm == 0.42


def test_no_list_of_processes_says_why(nvml: Nvml) -> None:
    backend = nvml.started("error nvmlDeviceGetComputeRunningProcesses_v3 4", f"use 0 {ME} 42 17")
    (gpu,) = nvml.looks(backend, ME, until=1.0)
    assert reason(gpu.target.memory_bytes) == reason(gpu.others) == "no permission"
    assert gpu.target.sm == 0.42, "the samples do not need the list"
