"""Efficiency of a GPU: known answers."""

from __future__ import annotations

import pytest

from gputop.analysis.efficiency import BUSY_DRAM, BUSY_TENSOR, EFFECTIVE_SM, RULES, THROTTLED, assess
from tests.fakes.gpus import reading

BUSY = {"utilization": 1.0, "gpm.graphics": 1.0, "gpm.fp32": 0.0}

#: Each rule's name, and a reading that it is made for.
EXAMPLES = {
    "idle": {"utilization": 0.01, "gpm.graphics": 0.01, "gpm.sm_active": 0.01},
    "power-limited": BUSY | {"gpm.sm_active": 0.9, "gpm.tensor": 0.8, "throttled": 0.4, "throttle.power_cap": 0.4},
    "throttled": BUSY | {"gpm.sm_active": 0.9, "throttled": 0.3, "throttle.thermal": 0.3, "throttle.power_cap": 0.2},
    "memory-bound": BUSY | {"gpm.sm_active": 0.95, "gpm.tensor": 0.0, "gpm.dram": 0.78},
    "compute-bound": BUSY | {"gpm.sm_active": 0.95, "gpm.tensor": 0.7, "gpm.dram": 0.2},
    "ineffective": BUSY | {"gpm.sm_active": 0.12, "gpm.tensor": 0.0, "gpm.dram": 0.02},
    "mixed": BUSY | {"gpm.sm_active": 0.9, "gpm.tensor": 0.2, "gpm.dram": 0.3},
}


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
def test_every_rule_has_its_example(rule: str) -> None:
    assert assess(reading(0, EXAMPLES[rule])).id == rule


def test_evidence_holds_the_numbers() -> None:
    said = {name: assess(reading(0, metrics)).evidence for name, metrics in EXAMPLES.items()}
    assert said["ineffective"] == (
        "busy 100 % of the time, then with work for 12 % of its SMs, and its tensor cores are not used"
    )
    assert said["power-limited"] == (
        "clocks held down 40 % of the time: power cap 40 %; "
        "busy 100 % of the time, then tensor cores 80 %, FP32 0 %, SMs 90 %"
    )
    assert said["throttled"].startswith("clocks held down 30 % of the time: thermal 30 %, power cap 20 %; busy 100 %")
    assert "78 % of the peak memory bandwidth" in said["memory-bound"]
    assert "tensor cores 70 %" in said["compute-bound"]


def test_bursts_are_judged_by_what_happens_in_them() -> None:
    """Measured on an H200 under a mix of bf16 matrix products: busy half of the time, tensor cores in most of it."""
    mix = reading(
        0, {"gpm.graphics": 0.51, "gpm.sm_active": 0.42, "gpm.tensor": 0.40, "gpm.dram": 0.09, "gpm.fp32": 0.01}
    )
    found = assess(mix)
    assert found.id == "compute-bound"
    assert "tensor cores 78 %" in found.evidence


@pytest.mark.parametrize(
    ("metric", "threshold", "below", "at"),
    [
        ("gpm.dram", BUSY_DRAM, "mixed", "memory-bound"),
        ("gpm.tensor", BUSY_TENSOR, "mixed", "compute-bound"),
        ("gpm.sm_active", EFFECTIVE_SM, "ineffective", "mixed"),
        ("throttled", THROTTLED, "mixed", "throttled"),
    ],
)
def test_thresholds(metric: str, threshold: float, below: str, at: str) -> None:
    base = BUSY | {"gpm.sm_active": 0.9, "gpm.tensor": 0.0, "gpm.dram": 0.0, "throttled": 0.0}
    assert assess(reading(0, base | {metric: threshold - 0.001})).id == below
    assert assess(reading(0, base | {metric: threshold})).id == at


def test_without_gpm_it_says_why() -> None:
    found = assess(reading(0, {"utilization": 0.9}))
    assert (found.id, "not in this test" in found.evidence) == ("unknown", True)


def test_throttling_is_seen_without_gpm() -> None:
    assert assess(reading(0, {"utilization": 0.9, "throttled": 0.5, "throttle.hw_thermal": 0.5})).id == "throttled"


def test_lost_gpu() -> None:
    assert assess(reading(0, {}, error="GPU is lost")).evidence == "GPU is lost"
