"""What NVML says of a whole GPU, through real pynvml: faults T3, T15, T21, T22, T25 to T29, T37 of other monitors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputop.collectors.gpu import nvml_library
from gputop.collectors.gpu.metrics import DEVICE_METRICS
from gputop.model import NA, GpuReading, known
from tests.fakes.nvml import Nvml
from tests.unit.gpu.test_nvml_processes import reason

ALL_FIELDS = [f"set 0 field.{number} 0+1000" for number in (74, 75, 76, 77, 79, 269, 270, 271, 197, 198, 138, 139)]
ALL_GPM = [f"set 0 gpm.{number} 50" for number in (1, 2, 3, 5, 10, 12, 20, 21, 60, 61)]


def settled(nvml: Nvml, *orders: str, until: float = 6.0) -> GpuReading:
    """Return the reading of one GPU once everything was asked for twice."""
    return nvml.looks(nvml.started(*orders), until=until)[0]


def test_every_metric_has_a_value_where_the_driver_has_all(nvml: Nvml) -> None:
    gpu = settled(nvml, "set 0 mig 0", *ALL_FIELDS, *ALL_GPM)
    missing = {name: value for name, value in gpu.metrics.items() if isinstance(value, NA)}
    assert missing == {}
    assert set(gpu.metrics) == set(DEVICE_METRICS)


def test_units(nvml: Nvml) -> None:
    gpu = settled(
        nvml, "set 0 util 85", "set 0 mem_util 25", "set 0 power 431500", "set 0 limit 700000", "set 0 temp 63",
        "set 0 slowdown 92", "set 0 clock1 1755", "set 0 clock2 3201", "set 0 fan 30", "set 0 enc 7", "set 0 dec 9",
        "set 0 ecc 2",
    )  # fmt: skip
    expected = {
        "utilization": 0.85, "memory_bandwidth": 0.25, "power_w": 431.5, "power_limit_w": 700.0,
        "temperature_c": 63.0, "temperature_slowdown_c": 92.0, "clock_sm_mhz": 1755.0, "clock_memory_mhz": 3201.0,
        "fan": 0.3, "encoder": 0.07, "decoder": 0.09, "ecc_uncorrected": 2.0,
    }  # fmt: skip
    assert {name: gpu.metric(name) for name in expected} == pytest.approx(expected)


def test_t3_idle_ring_falls_back_to_utilisation(nvml: Nvml) -> None:
    backend = nvml.started("set 0 ring 0", "set 0 util 12")
    curves = [nvml.see(backend, at=tick / 2)[0].curve for tick in range(4)]
    assert curves == [((tick / 2, 0.12),) for tick in range(4)]


def test_ring_gives_a_curve_of_5_hz(nvml: Nvml) -> None:
    backend = nvml.started("set 0 util 0:10 2:90")
    points = [point for tick in range(11) for point in nvml.see(backend, at=tick / 2)[0].curve]
    times = [time for time, _ in points]
    assert times == pytest.approx([k * 0.2 for k in range(26)], abs=1e-5)
    assert all(share == pytest.approx(0.1 if time < 1.99 else 0.9) for time, share in points)
    assert nvml.calls("nvmlDeviceGetSamples") == 2 * 6, "once a second, two calls of the driver each"


def test_ring_with_stamps_since_boot_ends_now(nvml: Nvml) -> None:
    backend = nvml.started("set 0 util 50", "set 0 boot_stamps 1")
    nvml.looks(backend, until=5.0)
    ((_, points),) = nvml.see(backend, at=6.0)
    assert [time for time, _ in points] == pytest.approx([5.2, 5.4, 5.6, 5.8, 6.0], abs=1e-5)


def test_curve_never_goes_back_in_time(nvml: Nvml) -> None:
    backend = nvml.started("set 0 util 50", "set 0 ring 1 2:0 4:1")
    times = [time for tick in range(16) for time, _ in nvml.see(backend, at=tick / 2)[0].curve]
    assert times == sorted(set(times))
    assert times[-1] >= 7.0


def test_t15_reserved_memory_is_not_counted_as_used(nvml: Nvml) -> None:
    gpu = settled(nvml, "set 0 mem_used 1000", "set 0 mem_reserved 500", "set 0 mem_total 10000")
    names = ("memory_used_bytes", "memory_reserved_bytes", "memory_total_bytes", "memory_shared")
    assert [gpu.metric(name) for name in names] == [1000.0, 500.0, 10000.0, 0.0]


def test_t15_older_driver_says_that_reserved_is_included(nvml: Nvml) -> None:
    gpu = settled(nvml, "set 0 mem_used 1000", "set 0 mem_reserved 500", "error nvmlDeviceGetMemoryInfo_v2 13")
    assert gpu.metric("memory_used_bytes") == 1500.0
    assert "counted as used" in reason(gpu.metric("memory_reserved_bytes"))


@pytest.mark.parametrize("key", ["power", "temp", "clock1"])
def test_t21_the_sentinel_for_no_value_is_no_value(nvml: Nvml, key: str) -> None:
    gpu = settled(nvml, f"set 0 {key} 4294967295")
    name = {"power": "power_w", "temp": "temperature_c", "clock1": "clock_sm_mhz"}[key]
    assert reason(gpu.metric(name)) == "the driver has no value"


def test_t21_sentinel_in_memory_and_shares(nvml: Nvml) -> None:
    gpu = settled(nvml, "set 0 mem_used 18446744073709549568", "set 0 util 4200")
    assert reason(gpu.metric("memory_used_bytes"))
    assert reason(gpu.metric("utilization")) == "the driver reported 4200 %"


@pytest.fixture
def wsl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to run under WSL."""
    monkeypatch.setattr(nvml_library, "WSL_DEVICE", "/dev/null")


@pytest.mark.usefixtures("wsl")
def test_t22_wsl_zero_is_doubted_until_another_value_was_seen(nvml: Nvml) -> None:
    backend = nvml.started("set 0 util 0:0 2:40 3:0")
    seen = [nvml.look(backend, at=float(second))[0].metric("utilization") for second in range(5)]
    assert "WSL" in reason(seen[0])
    assert "WSL" in reason(seen[1])
    assert seen[2:] == [0.4, 0.0, 0.0]


@pytest.mark.usefixtures("wsl")
def test_t21_t22_wsl_says_so_where_the_driver_is_silent(nvml: Nvml) -> None:
    silent = ["error nvmlDeviceGetProcessesUtilizationInfo 3", "error nvmlDeviceGetProcessUtilization 3"]
    backend = nvml.started(f"process 0 C {os.getpid()} -", *silent)
    (gpu,) = nvml.looks(backend, os.getpid(), until=3.0)
    assert reason(gpu.metric("mig_mode")) == "not reported by the WSL driver"
    assert reason(gpu.target.sm) == "not reported by the WSL driver"
    assert "does not tell the memory" in reason(gpu.target.memory_bytes), "never 2^64-1 bytes"


MIG_ON = ["set 0 mig 1", "set 0 mig_count 2", "error nvmlDeviceGetUtilizationRates 3", "error nvmlDeviceGetSamples 3",
          "error nvmlDeviceGetProcessesUtilizationInfo 3", "error nvmlDeviceGetProcessUtilization 3"]  # fmt: skip


def test_t25_mig_says_why_and_shows_the_instances(nvml: Nvml) -> None:
    backend = nvml.started("gpus 2", *MIG_ON, "set 0 gpm.2 63", "set 1 mig 0", f"process 0 C {os.getpid()} 500")
    gpus = nvml.looks(backend, os.getpid(), until=3.0)
    whole, first, second, other = gpus
    assert [gpu.index for gpu in gpus] == [0, 2, 3, 1]
    assert reason(whole.metric("utilization")) == "not available while MIG is on"
    assert whole.metric("mig_mode") == 1.0
    assert first.name == "Stand-in (MIG instance 1 of GPU 0)"
    assert first.uuid.startswith("MIG-")
    assert first.uuid != second.uuid
    assert first.metric("gpm.sm_active") == 0.63
    assert first.target.memory_bytes == 500.0
    assert reason(first.target.sm)
    assert other.metric("mig_mode") == 0.0
    backend.close()
    assert nvml.calls("nvmlGpmSampleFree") == nvml.calls("nvmlGpmSampleAlloc") == 8


@pytest.mark.parametrize("function", ["MaxMigDeviceCount", "MigDeviceHandleByIndex", "GpuInstanceId"])
@pytest.mark.parametrize("code", [3, 15, 999])
def test_t25_instances_that_cannot_be_found_cost_nothing_else(nvml: Nvml, function: str, code: int) -> None:
    backend = nvml.started("gpus 2", *MIG_ON, f"error nvmlDeviceGet{function} {code}")
    whole, other = nvml.looks(backend, until=1.0)
    assert (whole.error, other.error) == ("", "")
    assert (whole.metric("mig_mode"), other.metric("power_w")) == (1.0, 200.0)


def test_t25_instances_without_an_id_are_told_apart(nvml: Nvml) -> None:
    backend = nvml.started(*MIG_ON, "error nvmlDeviceGetUUID 3")
    assert [gpu.index for gpu in nvml.looks(backend, until=1.0)] == [0, 1, 2]


@pytest.mark.parametrize(("order", "expected"), [("set 0 mig 0", 0.0), ("set 0 mig 1", 1.0), ("", None)])
def test_t26_mig_has_three_states(nvml: Nvml, order: str, expected: float | None) -> None:
    value = settled(nvml, order, f"process 0 C {os.getpid()} 500").metric("mig_mode")
    assert (value == expected) if expected is not None else reason(value)


def test_t26_mig_that_is_off_costs_no_process_numbers(nvml: Nvml) -> None:
    backend = nvml.started("set 0 mig 0", f"process 0 C {os.getpid()} 500", f"use 0 {os.getpid()} 42 1")
    assert nvml.looks(backend, os.getpid(), until=1.0)[0].target.sm == 0.42


def test_t27_no_permission_on_the_whole_gpu_leaves_the_instances(nvml: Nvml) -> None:
    backend = nvml.started(*MIG_ON, "error nvmlDeviceGetPowerUsage 4", "set 0 mem_used 77")
    whole, instance, _ = nvml.looks(backend, until=2.0)
    assert reason(whole.metric("power_w")) == "no permission"
    assert not whole.error
    assert instance.metric("memory_used_bytes") == 77.0


@pytest.mark.parametrize("order", ["error nvmlDeviceGetMemoryInfo_v2 3", "set 0 mem_total 0"])
def test_t28_unified_memory_is_the_machines_and_named_so(nvml: Nvml, order: str) -> None:
    backend = nvml.started(order, "error nvmlDeviceGetFanSpeed 3")
    (gpu,) = nvml.looks(backend, until=1.0)
    total_kib = int(Path("/proc/meminfo").read_text(encoding="ascii").split()[1])
    assert gpu.metric("memory_total_bytes") == total_kib * 1024
    assert 0 < (known(gpu.metric("memory_used_bytes")) or 0) < total_kib * 1024
    assert gpu.metric("memory_shared") == 1.0
    assert "whole machine" in backend.remarks()["shared-memory"].what
    assert reason(gpu.metric("fan"))
    assert reason(gpu.metric("pcie_rx_bps")), "no link speed is made up"


def test_t29_jetson_driver_without_use_and_memory(nvml: Nvml) -> None:
    gpu = settled(nvml, "error nvmlDeviceGetUtilizationRates 3", "error nvmlDeviceGetMemoryInfo_v2 3")
    assert reason(gpu.metric("utilization")) == "not supported by this GPU or driver"
    assert gpu.metric("memory_shared") == 1.0
    assert gpu.metric("power_w") == 200.0


def test_t37_directions_are_not_mixed_up(nvml: Nvml) -> None:
    counters = ["set 0 field.197 0+1000", "set 0 field.198 0+7000", "set 0 field.138 0+2", "set 0 field.139 0+3"]
    gpu = settled(nvml, *counters)
    names = ("pcie_tx_bps", "pcie_rx_bps", "nvlink_tx_bps", "nvlink_rx_bps")
    assert [gpu.metric(name) for name in names] == pytest.approx([1000, 7000, 2048, 3072])


def test_t37_directions_by_gpm(nvml: Nvml) -> None:
    gpu = settled(nvml, "set 0 gpm.20 1", "set 0 gpm.21 7", "set 0 gpm.60 3", "set 0 gpm.61 2", *ALL_FIELDS)
    names = ("pcie_tx_bps", "pcie_rx_bps", "nvlink_rx_bps", "nvlink_tx_bps")
    assert [gpu.metric(name) for name in names] == [2**20, 7 * 2**20, 3 * 2**20, 2 * 2**20]


def test_pcie_is_never_asked_for_by_the_call_that_sleeps(nvml: Nvml) -> None:
    settled(nvml, *ALL_FIELDS)
    assert nvml.calls("nvmlDeviceGetFieldValues") == 3
    assert nvml.calls("nvmlDeviceGetPcieThroughput") == 0


def test_throttle_is_time_from_the_drivers_counters(nvml: Nvml) -> None:
    gpu = settled(nvml, "set 0 field.74 5e9+4e8", "set 0 field.270 0+1e8", "set 0 field.75 0", "set 0 reasons 69")
    assert gpu.metric("throttle.power_cap") == pytest.approx(0.4)
    assert gpu.metric("throttle.hw_thermal") == pytest.approx(0.1)
    assert gpu.metric("throttle.thermal") == 0.0
    assert gpu.metric("throttled") == pytest.approx(0.4), "reasons overlap: the longest is what is sure"
    assert reason(gpu.metric("throttle.power_brake"))
    assert gpu.throttle == ("power cap", "thermal (hardware)"), "idle is no throttling"


def test_counter_that_starts_again_gives_no_negative_rate(nvml: Nvml) -> None:
    backend = nvml.started("set 0 field.198 0:90000+1000 3:0+500")
    seen = [nvml.look(backend, at=tick / 2)[0].metric("pcie_rx_bps") for tick in range(15)]
    numbers = {round(value) for value in seen if not isinstance(value, NA)}
    assert numbers == {1000, 500}
    assert NA("the driver's counter started again") in seen


def test_byte_counter_of_32_bits_is_not_trusted(nvml: Nvml) -> None:
    gpu = settled(nvml, "set 0 field.198 0+1000", "set 0 narrow.198 1")
    assert "32 bits" in reason(gpu.metric("pcie_rx_bps"))


def test_energy_counts_from_attach_and_survives_a_reload(nvml: Nvml) -> None:
    backend = nvml.started("set 0 energy 0:9000000+200000 10:0+200000")
    assert reason(nvml.looks(backend, until=0.5)[0].metric("energy_j")) == "needs two readings"
    soon = nvml.looks(backend, until=1.5)[0].metric("energy_j")
    before = nvml.looks(backend, until=9.5)[0].metric("energy_j")
    after = nvml.looks(backend, until=20.5)[0].metric("energy_j")
    assert (soon, before) == pytest.approx((200 * 1, 200 * 6), rel=0.01)
    assert after == pytest.approx(200 * (6 + 5), rel=0.01), "only the interval of the reload is lost"


def test_gpm_samples_are_never_less_than_100_ms_apart(nvml: Nvml) -> None:
    backend = nvml.started("set 0 gpm.2 42")
    seen = {nvml.look(backend, at=tick * 0.03)[0].metric("gpm.sm_active") for tick in range(100)}
    assert seen == {NA("needs two samples"), 0.42}, "too close together they would read 0"


def test_gpm_is_absent_before_hopper(nvml: Nvml) -> None:
    gpu = settled(nvml, "set 0 gpm 0")
    assert reason(gpu.metric("gpm.tensor")) == "not supported by this GPU or driver"
    assert nvml.calls("nvmlGpmSampleGet") == 0


def test_each_gpm_metric_may_be_missing_for_itself(nvml: Nvml) -> None:
    gpu = settled(nvml, "set 0 gpm.2 42")
    assert gpu.metric("gpm.sm_active") == 0.42
    assert reason(gpu.metric("gpm.tensor"))


def test_what_the_driver_lacks_is_asked_for_rarely(nvml: Nvml) -> None:
    settled(nvml, "error nvmlDeviceGetFanSpeed 3", until=29.0)
    assert nvml.calls("nvmlDeviceGetFanSpeed") == 1
    assert nvml.calls("nvmlDeviceGetPowerUsage") == 59


def test_gpu_that_nobody_uses_is_spared_and_read_in_full_at_once_when_it_is_used(nvml: Nvml) -> None:
    expensive = ("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetSamples", "nvmlGpmSampleGet")
    job = (f"process 0 C {os.getpid()} 1000 60 90", f"use 0 {os.getpid()} 80 10 60 90")
    backend = nvml.started("set 0 util 0:0 60:80 90:0", "set 0 gpm.2 40", *job)
    nvml.looks(backend, os.getpid(), until=10.0)
    before = {name: nvml.calls(name) for name in expensive}
    nvml.looks(backend, os.getpid(), until=50.0)
    asked = {name: nvml.calls(name) - before[name] for name in expensive}
    assert asked["nvmlDeviceGetTotalEnergyConsumption"] == 2
    assert asked["nvmlGpmSampleGet"] <= 11
    assert asked["nvmlDeviceGetSamples"] == 0
    assert nvml.calls("nvmlDeviceGetProcessesUtilizationInfo") == 0, "nobody is listed: there is nothing to sample"
    seen = [nvml.look(backend, os.getpid(), at=50 + tick / 2)[0] for tick in range(30)]
    assert [gpu.target.sm for gpu in seen[24:]] == [0.8] * 6, "two seconds after it began"
    assert nvml.calls("nvmlDeviceGetSamples") > before["nvmlDeviceGetSamples"]
    ((_, points),) = nvml.see(backend, os.getpid(), at=66.0)
    assert len(points) > 3, "the driver's ring again"
