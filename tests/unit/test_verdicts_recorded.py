"""Verdicts on what real jobs did on an H200, with the GPU as busy as it was then."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from gputop.analysis.diagnose import verdict
from gputop.analysis.facts import Facts, GpuFacts
from gputop.analysis.results import Headline, ThreadRow
from gputop.analysis.rules import classify
from gputop.analysis.states import groups
from gputop.model import NA, Value, Window
from tests.recorded_peeks import main_thread

NO = NA("not measured")


def gpu(busy: float, sm_active: Value = NO) -> GpuFacts:
    return GpuFacts(0, "H200", busy, NO, 8e9, 80e9, NO, True, sm_active)


def facts(job: str, busy: float) -> Facts:
    """Return the facts of a recorded main thread, whose looks each stand for the same time."""
    _, looks = main_thread(job)
    seen = Counter(map(classify, looks))
    states: dict[str, float] = {}
    for what, count in seen.items():
        states[what.state] = states.get(what.state, 0.0) + count / len(looks)
    detail = {what.detail: count / len(looks) for what, count in seen.items() if what.kind}
    group = groups(states)
    shares = group["compute"], group["gpu_wait"], group["other_wait"], group["idle"]
    headline = Headline(1, 1, "MainThread", *shares, states, detail)
    row = ThreadRow(1, 1, "MainThread", "main", True, len(looks), 5.0, 1.0, states, detail)
    return Facts(Window(0.0, 5.0), headline, (row,), gpus=(gpu(busy),), cores_used=1.0, cores=16)


@pytest.mark.parametrize(
    ("job", "busy", "id", "likely"),
    [
        ("llm", 0.10, "launch-bound", True),  # a Llama decoding token by token: 42 000 kernels a second, 9 % busy
        ("gpubound", 0.98, "gpu-bound", False),  # ResNet-50, batch 256
        ("backpressure", 1.0, "gpu-bound", False),  # asynchronous torch.mm: the launch queue is full
        ("graphs", 0.9, "gpu-bound", False),  # CUDA graph replays
        ("copies", 0.6, "copy-bound", True),
        ("cxx", 0.38, "gpu-starved", True),  # a C++ program that decodes pictures for its GPU
    ],
)
def test_verdict(job: str, busy: float, id: str, likely: bool) -> None:  # noqa: A002 - as the verdict calls it
    found = verdict(facts(job, busy))
    assert (found.id, found.likely) == (id, likely)


def test_launching_is_told_with_its_share() -> None:
    found = verdict(facts("llm", 0.1))
    assert found.sentence.startswith("GPU idle 90 %: MainThread spends 66 % launching its work (30 % in GPU calls)")
    assert "CUDA graphs" in found.advice[0]


def test_a_gpu_that_only_spins_in_a_collective_waits_for_peers() -> None:
    """The CPU waits for NCCL's kernel as for any other; that the GPU is busy with next to no work tells them apart."""
    alone = facts("gpubound", 0.99)
    watchdog = replace(alone.threads[0], tid=2, name="pt_nccl_watchdg", role="nccl", states={"idle": 1.0}, detail={})
    spinning = replace(alone, threads=(*alone.threads, watchdog), gpus=(gpu(0.99, 0.02),))
    found = verdict(spinning)
    assert (found.id, found.title, found.likely) == ("comm-bound", "Waiting for peers", True)
    assert found.sentence == "GPU busy 99 % with 2 % of its SMs: MainThread waits 74 %"
    for other in (
        replace(spinning, gpus=(gpu(0.99, 0.6),)),
        replace(spinning, gpus=(gpu(0.6, 0.02),)),
        replace(spinning, gpus=(gpu(0.99),)),
        replace(spinning, threads=spinning.threads[:1]),
    ):
        assert verdict(other).id == "gpu-bound"


def test_a_gpu_whose_utilisation_is_not_known_makes_a_guess() -> None:
    found = verdict(replace(facts("gpubound", 0.98), gpus=()))
    assert (found.id, found.likely) == ("gpu-bound", True)


def test_a_late_rank_is_told_by_the_gpus_that_spin_for_it() -> None:
    """Two H200s, `all_reduce` and `.item()`: rank 0 waited in `cudaStreamSynchronize`, rank 1 computed in Python."""
    late = facts("cxx", 0.03)
    assert late.headline is not None
    early = replace(facts("gpubound", 0.98).threads[0], pid=2, tid=2)
    watchdog = replace(early, tid=3, name="pt_nccl_watchdg", role="nccl", main=False, states={"idle": 1.0}, detail={})
    spinning, idle = replace(gpu(0.98, 0.19), pids=(2,)), replace(gpu(0.03, 0.02), index=1, pids=(1,))
    job = replace(late, threads=(*late.threads, early, watchdog), gpus=(spinning, idle))
    found = verdict(job)
    assert (found.id, found.likely) == ("straggler", True)
    assert found.sentence == "others wait up to 74 % for pid 1: native 47 %"
    assert "other processes likely in collectives meanwhile: 1, up to 74 % of their time" in found.evidence
    assert verdict(replace(job, gpus=(replace(spinning, sm_active=0.9), idle))).id == "gpu-starved"
