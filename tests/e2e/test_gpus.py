"""GPUs end to end, by a stand-in for the driver: their numbers, and drivers that are broken or hang."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import GPUTOP, document, ended, noted, start
from tests.e2e.tmux import Tmux
from tests.fakes.build import compile_shared, compiler
from tests.fixtures_targets import start_target


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the stand-in, under the real one's name, into a folder of its own."""
    if compiler() is None:
        pytest.skip("the stand-in for NVML needs a C compiler")
    return compile_shared("nvml.c", "libnvidia-ml.so.1", tmp_path_factory.mktemp("driver")).parent


def environ(driver: Path, folder: Path, *orders: str) -> dict[str, str]:
    """Return the environment in which the stand-in is found and does this."""
    script = folder / "script"
    script.write_text("".join(f"{order}\n" for order in orders))
    return {"LD_LIBRARY_PATH": str(driver), "GPUTOP_NVML_SCRIPT": str(script)}


def reported(driver: Path, folder: Path, *orders: str, pid: int, seconds: float = 1.5) -> dict[str, Any]:
    words = ("report", "--pid", pid, "--duration", seconds, "--json")
    return document(ended(start(*words, **environ(driver, folder, *orders))))


def test_numbers_of_each_gpu_and_the_programs_part(driver: Path, tmp_path: Path) -> None:
    with start_target("waits.py", "sleep") as target:
        orders = (
            "gpus 2",
            "set 0 util 37",
            "set 0 mem_total 80000000000",
            "set 0 mem_used 20000000000",
            f"process 0 C {target.pid} 5000000000",
        )
        seen = reported(driver, tmp_path, *orders, pid=target.pid)
    first, second = seen["gpus"]
    assert (first["utilization"], first["memory_total_bytes"]) == (0.37, 80e9)
    assert first["process"]["memory_bytes"] == 5e9
    assert not second["process"]["memory_bytes"]
    assert (first["process"]["present"], second["process"]["present"]) == (True, False)
    assert (first["more"]["encoder"], first["more"]["ecc_uncorrected"], first["more"]["nvlink_rx_bps"]) == (0, 0, None)
    assert first["na"]["nvlink_rx_bps"] == first["na"]["mig_mode"] == "not supported by this GPU or driver"
    assert first["efficiency"]["evidence"].startswith("busy 37 %")
    assert all(first["na"][field] for field in ("power_w", "temperature_c") if first[field] is None)


def test_a_driver_that_does_not_load_is_named(driver: Path, tmp_path: Path) -> None:
    with start_target("waits.py", "sleep") as target:
        seen = reported(driver, tmp_path, "error nvmlInit 18", pid=target.pid, seconds=1)
    assert seen["gpus"] == []
    assert "different versions" in noted(seen, "gpu")
    assert "reboot" in noted(seen, "gpu")


def test_a_driver_that_hangs_holds_nobody(driver: Path, tmp_path: Path) -> None:
    (tmp_path / "hang").touch()
    with start_target("waits.py", "sleep") as target:
        began = time.monotonic()
        seen = reported(driver, tmp_path, "gpus 2", f"hang * {tmp_path / 'hang'}", pid=target.pid, seconds=1)
        took = time.monotonic() - began
        broken = environ(driver, tmp_path, "gpus 2", f"hang nvmlDeviceGetName {tmp_path / 'hang'}")
        words = [f"{name}={value}" for name, value in broken.items()]
        with Tmux(tmp_path, ["env", *words, *GPUTOP, "--pid", str(target.pid)]) as tmux:
            tmux.expect("IDLE", "GPU 1")
            tmux.press("q")
            tmux.expect("code=0")
    assert seen["verdict"]["id"] == "idle"
    assert took < 4
