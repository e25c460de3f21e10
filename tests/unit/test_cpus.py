"""Who has the CPUs: limits as the kernel tells them, and the facts that a verdict on a lack of CPUs rests on."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gputop import procfs
from gputop.analysis import cpus
from gputop.analysis.facts import CpuFacts
from gputop.collectors.host import limits
from gputop.collectors.host.limits import Limits
from gputop.model import NA, CpuLimits, HostBatch
from tests.unit.analysis_tools import host

V1 = "3:cpu:/job/step\n0::/\n"
V2 = "0::/job/step\n"


def group(folder: Path, quota: str, throttled: int, periods: int = 100) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.stat").write_text(f"nr_periods {periods}\nnr_throttled {throttled}\n")
    (folder / "cpu.max").write_text(f"{quota} 100000\n")
    (folder / "cpu.cfs_quota_us").write_text("-1\n" if quota == "max" else f"{quota}\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")


@pytest.mark.parametrize(("membership", "mount"), [(V1, "cpu"), (V2, "")])
def test_the_smallest_quota_above_the_target_counts(
    membership: str, mount: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group(tmp_path / mount / "job", "50000", 10)
    group(tmp_path / mount / "job/step", "400000", 0)
    real = procfs.read
    monkeypatch.setattr(limits, "CGROUPS", str(tmp_path))
    monkeypatch.setattr(procfs, "read", lambda path: membership.encode() if path == "/proc/7/cgroup" else real(path))
    reader = Limits()
    assert reader.read(7).quota == 0.5
    group(tmp_path / mount / "job", "50000", 25, periods=120)
    assert reader.read(7).throttled == pytest.approx(15 / 20)
    assert reader.read(7).throttled == 0.0


def test_a_group_that_vanished_is_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group(tmp_path / "job/step", "50000", 10)
    real = procfs.read
    monkeypatch.setattr(limits, "CGROUPS", str(tmp_path))
    monkeypatch.setattr(procfs, "read", lambda path: V2.encode() if path == "/proc/7/cgroup" else real(path))
    reader = Limits()
    reader.read(7)
    (tmp_path / "job/step/cpu.stat").unlink()
    assert isinstance(reader.read(7).throttled, NA)


def test_the_cores_that_a_process_may_run_on() -> None:
    mine = cpus.numbers(Limits().read(os.getpid()).allowed, os.cpu_count() or 1)
    assert set(mine) == os.sched_getaffinity(0)
    assert Limits().read(2**22 + 1).allowed == "", "no such process"


@pytest.mark.parametrize(
    ("listed", "cores"),
    [
        ("0-3", [0, 1, 2, 3]),
        ("1,3", [1, 3]),
        ("2", [2]),
        ("0-1,3-9", [0, 1, 3]),
        ("", [0, 1, 2, 3]),
        ("x", [0, 1, 2, 3]),
    ],
)
def test_a_list_of_cores(listed: str, cores: list[int]) -> None:
    assert cpus.numbers(listed, 4) == cores


def reading(allowed: str, throttled: float, quota: float | NA = 0.5) -> HostBatch:
    bounds = CpuLimits(allowed, quota, throttled)
    return replace(host(1.0, {}), cores=(0.9, 0.5, 1.0, 0.0), target_cores=(0.4, 0.5, 0.0, 0.0), limits=bounds)


def test_only_the_cores_that_it_may_use_count() -> None:
    assert cpus.facts([]) is None
    found = cpus.facts([reading("0,2", 0.9), reading("0,2", 0.7)])
    assert found is not None
    assert (found.machine, found.allowed, found.quota) == (4, 2, 0.5)
    assert (found.mine, found.others, found.elsewhere, found.throttled) == pytest.approx((1.0, 0.9, 1.5, 0.8))
    assert cpus.facts([host(1.0, {}, used=2.0)]) == CpuFacts(4, 4, 2.0, 0.0)
