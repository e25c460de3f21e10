"""The GPU of a Jetson, from kernel files under tests/data/tegra."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest

from gputop.collectors.gpu.backend import Unavailable, Watched
from gputop.collectors.gpu.tegra import TegraBackend
from gputop.model import NA, GpuReading
from tests.unit.gpu.test_nvml_driver import card
from tests.unit.gpu.test_nvml_processes import reason

BOARDS = Path(__file__).parents[2] / "data" / "tegra"
KIB, MIB = 1024, 1024.0 * 1024


def look(root: Path, *pids: int) -> tuple[TegraBackend, GpuReading]:
    """Read a board once."""
    backend = TegraBackend(threading.Event(), time.monotonic, root=root)
    assert backend.probe() == 1
    ((reading, _),) = backend.read(Watched(pids))
    return backend, reading


@pytest.fixture
def orin(tmp_path: Path) -> Path:
    """Return a copy of a board that may be changed."""
    return shutil.copytree(BOARDS / "orin", tmp_path / "orin")


def test_orin() -> None:
    backend, gpu = look(BOARDS / "orin")
    expected = {
        "utilization": 0.12,
        "clock_sm_mhz": 1300.5,
        "power_w": 5.139,
        "temperature_c": 47.625,
        "memory_total_bytes": 62817 * MIB,
        "memory_used_bytes": 20642 * MIB,
        "memory_shared": 1.0,
    }
    assert {name: gpu.metric(name) for name in expected} == pytest.approx(expected, rel=1e-3)
    assert gpu.name == "NVIDIA Jetson AGX Orin Developer Kit"
    assert reason(gpu.metric("fan")) == "not reported by the Tegra driver"
    assert "VDD_GPU_SOC" in backend.remarks()["power-rail"].what
    assert "whole machine" in backend.remarks()["shared-memory"].what


def test_orin_nano_whose_rail_feeds_the_cpu_too() -> None:
    backend, gpu = look(BOARDS / "orin-nano")
    expected = {"utilization": 0.5, "clock_sm_mhz": 306.0, "power_w": 4.976 * 0.12, "temperature_c": 50.218}
    assert {name: gpu.metric(name) for name in expected} == pytest.approx(expected)
    assert "VDD_CPU_GPU_CV" in backend.remarks()["power-rail"].what


def test_xavier_idle_with_a_rail_of_its_own() -> None:
    backend, gpu = look(BOARDS / "xavier")
    expected = {"utilization": 0.0, "power_w": 0.463, "temperature_c": 30.5, "memory_used_bytes": 14700 * MIB}
    assert {name: gpu.metric(name) for name in expected} == pytest.approx(expected)
    assert backend.remarks().keys() == {"shared-memory"}
    assert gpu.name == "Jetson-AGX"


def test_nano_with_the_older_power_monitor() -> None:
    _, gpu = look(BOARDS / "nano")
    assert gpu.metric("utilization") == 1.0
    assert gpu.metric("power_w") == pytest.approx(1.89)


def test_memory_of_the_target_where_root_may_see_it() -> None:
    _, gpu = look(BOARDS / "orin", 4121, 9120)
    assert gpu.target.memory_bytes == (2097152 + 512) * KIB
    assert gpu.others == 1.0
    assert gpu.target.present
    assert reason(gpu.target.sm)


def test_memory_of_the_target_without_debugfs() -> None:
    _, gpu = look(BOARDS / "nano", 4121)
    assert "root" in reason(gpu.target.memory_bytes)
    assert "root" in reason(gpu.others)


@pytest.mark.parametrize(
    ("path", "content", "metric"),
    [
        ("sys/class/devfreq/17000000.gpu/device/load", "", "utilization"),
        ("sys/class/devfreq/17000000.gpu/cur_freq", "busy", "clock_sm_mhz"),
        ("sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon3/curr1_input", None, "power_w"),
        ("sys/class/thermal/thermal_zone1/temp", None, "temperature_c"),
        ("proc/meminfo", "MemTotal: none", "memory_used_bytes"),
    ],
)
def test_what_cannot_be_read_is_missing_alone(orin: Path, path: str, content: str | None, metric: str) -> None:
    if content is None:
        (orin / path).unlink()
    else:
        (orin / path).write_text(content)
    _, gpu = look(orin)
    assert "read" in reason(gpu.metric(metric))
    known = [value for value in gpu.metrics.values() if not isinstance(value, NA)]
    assert len(known) >= 5


def test_board_without_rail_and_zone(orin: Path) -> None:
    shutil.rmtree(orin / "sys/bus")
    shutil.rmtree(orin / "sys/class/thermal")
    _, gpu = look(orin)
    assert reason(gpu.metric("power_w"))
    assert reason(gpu.metric("temperature_c"))


@pytest.mark.parametrize(
    "name", ["17000000.ga10b", "17000000.gv11b", "17000000.gp10b", "57000000.gpu", "57000000.gm20b"]
)
def test_each_chip_is_found_by_the_name_of_its_device(orin: Path, name: str) -> None:
    devices = orin / "sys/class/devfreq"
    (devices / "17000000.gpu").rename(devices / name)
    assert look(orin)[1].uuid == name


def test_no_jetson(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no Tegra GPU"):
        TegraBackend(threading.Event(), time.monotonic, root=tmp_path).probe()


def test_board_with_a_pci_gpu_is_left_to_nvml(orin: Path) -> None:
    card(orin / "sys/bus/pci/devices", 1, "active")
    with pytest.raises(Unavailable, match="NVML"):
        TegraBackend(threading.Event(), time.monotonic, root=orin).probe()
