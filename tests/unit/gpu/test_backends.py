"""What every backend of the list has to keep to."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from gputop.collectors.gpu.backend import BACKENDS, GpuBackend, make
from gputop.collectors.gpu.metrics import BY_NAME, DEVICE_METRICS, METRICS, PROCESS, SHARE
from gputop.collectors.gpu.nvml_counters import COUNTERS
from gputop.collectors.gpu.nvml_gpm import GPM_METRICS
from gputop.collectors.gpu.nvml_reads import READS
from gputop.collectors.gpu.tegra import TegraBackend
from gputop.model import NA, GpuUse
from tests.fakes.nvml import Nvml
from tests.unit.gpu.test_tegra import BOARDS


@pytest.fixture(params=["nvml", "orin", "orin-nano", "xavier", "nano"])
def backend(request: pytest.FixtureRequest) -> GpuBackend:
    """Return each backend, over GPUs of its kind."""
    if request.param == "nvml":
        nvml: Nvml = request.getfixturevalue("nvml")
        nvml.script("gpus 3", "set * mig 0", "set * gpm.2 40")
        return nvml.backend()
    root: Path = BOARDS / request.param
    return TegraBackend(threading.Event(), time.monotonic, root=root)


def test_backend_keeps_to_the_contract(backend: GpuBackend) -> None:
    count = backend.probe()
    for _ in range(3):
        seen = list(backend.read(frozenset({1, 2})))
        assert [gpu.reading.index for gpu in seen] == list(range(count))
        for gpu, curve in seen:
            assert set(gpu.metrics) == set(DEVICE_METRICS)
            assert all(isinstance(value, float | NA) for value in gpu.metrics.values())
            shares = [value for name, value in gpu.metrics.items() if BY_NAME[name].unit == SHARE]
            assert all(0 <= value <= 1 for value in shares if not isinstance(value, NA))
            assert all(isinstance(value, float | NA) for value in (gpu.target.sm, gpu.target.memory_bytes, gpu.others))
            assert gpu.name
            assert all(0 <= share <= 1 for _, share in curve)
    assert all(remark.what and key for key, remark in backend.remarks().items())
    backend.close()
    backend.close()


def test_list_of_backends_can_be_made() -> None:
    made = [make(path, threading.Event(), time.monotonic) for path in BACKENDS]
    assert [backend.name for backend in made] == ["tegra", "nvml"]


def test_metrics_table() -> None:
    assert len(BY_NAME) == len(METRICS)
    for metric in METRICS:
        assert not metric.full or BY_NAME[metric.full].unit == metric.unit
        assert metric.meaning
    own = {metric.name.removeprefix("process.") for metric in METRICS if metric.scope == PROCESS}
    assert own == set(GpuUse.__dataclass_fields__) - {"present", "by_process"}


def test_what_nvml_reads_is_in_the_table() -> None:
    read = [name for part in READS for name in part.names]
    read += [counter.metric for counter in COUNTERS] + [metric.metric for metric in GPM_METRICS]
    assert set(read) | {"energy_j", "throttled"} == set(DEVICE_METRICS)
    assert len(read) == len(set(read))
