"""Every rule of the tables is shown to be right by an example that was recorded."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gputop.analysis import rules_frames, rules_python
from gputop.analysis.rules import Classified, classify, match, refine
from gputop.analysis.rules_table import RULES
from gputop.analysis.states import BY_ID
from gputop.model import Frame, NativeFrame, Observation
from tests.recorded_peeks import PEEKS, main_thread

EXAMPLES = Path(__file__).parent.parent / "data" / "rules"


def read(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((EXAMPLES / f"{name}.json").read_text())
    return found


def observation(fields: dict[str, Any]) -> Observation:
    chain = tuple(NativeFrame(*frame) for frame in fields.get("chain", ()))
    return Observation(**{**fields, "chain": chain})


NATIVE = [example for name in ("h200", "here", "stand_in", "documented") for example in read(name)]
FRAMES = read("frames")


def label(example: dict[str, Any]) -> str:
    return f"{example['rule']}: {example['origin']}"


@pytest.mark.parametrize("example", NATIVE, ids=label)
def test_example_matches_its_rule_first(example: dict[str, Any]) -> None:
    seen = observation(example["observation"])
    assert match(seen).id == example["rule"]
    rule = next(rule for rule in RULES if rule.id == example["rule"])
    assert classify(seen) == Classified(rule.state, rule.kind)


def test_every_rule_has_an_example_that_was_seen() -> None:
    """Documentation alone is not enough; the stand-in libraries at least run."""
    seen = [example for example in NATIVE if not example["origin"].startswith("documentation")]
    assert {rule.id for rule in RULES} == {example["rule"] for example in seen}


def test_every_frame_rule_and_cuda_call_is_used_by_an_example() -> None:
    frames = {frame for example in NATIVE for frame in observation(example["observation"]).chain}
    for rule in rules_frames.FRAME_RULES:
        assert any(rules_frames.matches(rule, frame) for frame in frames), rule
    seen = {tag for frame in frames for tag in rules_frames.tags(frame)}
    assert {f"cuda:{name}" for name, _ in rules_frames.CUDA_CALLS} <= seen


@pytest.mark.parametrize("example", FRAMES, ids=label)
def test_python_example_matches_its_rule_first(example: dict[str, Any]) -> None:
    stack = tuple(Frame(*frame) for frame in example["stack"])
    rule = rules_python.find(example["state"], stack)
    assert rule is not None
    assert rule.id == example["rule"]
    assert refine(Classified(example["state"]), stack) == Classified(rule.state, rule.kind)


def test_every_python_rule_has_an_example() -> None:
    assert {rule.id for rule in rules_python.FRAME_RULES} == {example["rule"] for example in FRAMES}


@pytest.mark.parametrize("example", FRAMES, ids=label)
def test_the_users_own_code_below_is_no_such_wait(example: dict[str, Any]) -> None:
    """A worker that waits inside the function it was given is not an idle worker."""
    stack = (*(Frame(*frame) for frame in example["stack"]), Frame("load_image", "/app/train.py", 12))
    assert refine(Classified("io", "disk"), stack) == Classified("io", "disk")


def test_a_loader_in_the_main_process_is_not_waiting_for_data() -> None:
    loader = "/app/site-packages/torch/utils/data/dataloader.py"
    fetch = "/app/site-packages/torch/utils/data/_utils/fetch.py"
    stack = (
        Frame("_BaseDataLoaderIter.__next__", loader, 741),
        Frame("_SingleProcessDataLoaderIter._next_data", loader, 801),
        Frame("_MapDatasetFetcher.fetch", fetch, 54),
        Frame("Images.__getitem__", "/app/data.py", 31),
    )
    assert refine(Classified("io", "disk"), stack) == Classified("io", "disk")


def test_threads_at_work_stay_at_work() -> None:
    stack = tuple(Frame(*frame) for frame in next(e for e in FRAMES if e["rule"] == "torch-loader")["stack"])
    for state in ("python", "native", "gpu_api", "gil", "starved"):
        assert refine(Classified(state), stack) == Classified(state)


def test_tables_name_known_states_and_no_rule_twice() -> None:
    for table in (RULES, rules_python.FRAME_RULES):
        assert all(count == 1 for count in Counter(rule.id for rule in table).values())
        assert {rule.state for rule in table} <= BY_ID.keys()


def test_anything_at_all_has_a_state() -> None:
    for odd in (
        Observation(),
        Observation(running=True),
        Observation(syscall="syscall 999", stopped="D"),
        Observation(running=True, unreadable="refused"),
        Observation(chain=(NativeFrame("", ""),)),
        Observation(running=True, chain=(NativeFrame("(?bad[", "\\"),)),
    ):
        assert classify(odd).state in BY_ID


def test_stale_words_on_a_scanned_stack_do_not_count() -> None:
    """`cudaGetDevice` is often left over on the stack of a thread that computes (measured on an H200)."""
    chain = (
        NativeFrame("libtorch_cpu.so", "_ZN2at4_ops2mm4callERKNS_6TensorES4_"),
        NativeFrame("libcudart.so.13", "cudaGetDevice"),
        NativeFrame("python3.12", "_PyEval_EvalFrameDefault"),
    )
    scanned = Observation(running=True, chain=chain, complete=False)
    assert classify(scanned).state == "native"
    assert classify(replace(scanned, complete=True)) == Classified("gpu_api", "query")


def test_callers_above_the_python_function_do_not_count() -> None:
    """A call into CUDA that runs Python (a callback) is not what that Python waits for."""
    chain = (
        NativeFrame("libc.so.6", "clock_nanosleep"),
        NativeFrame("libpython3.12.so.1.0", "time_sleep"),
        NativeFrame("libpython3.12.so.1.0", "_PyEval_EvalFrameDefault"),
        NativeFrame("libcuda.so.1", "cuStreamSynchronize"),
    )
    assert classify(Observation(syscall="clock_nanosleep", waits_on="timer", chain=chain)).detail == "idle.sleep"


@pytest.mark.parametrize(
    ("symbol", "detail"),
    [
        ("cuStreamSynchronize_ptsz", "gpu_wait.sync"),
        ("cudaDeviceSynchronize", "gpu_wait.sync"),
        ("cuMemcpy2DAsync_v2", "gpu_wait.copy"),
        ("cuMemcpyPeerAsync", "gpu_api.copy_async"),
        ("cudaMemcpyFromSymbol", "gpu_wait.copy_to_host"),
        ("cuLaunchCooperativeKernel", "gpu_api.launch"),
        ("cudaGraphLaunch", "gpu_api.graph"),
        ("cudaStreamBeginCapture", "gpu_api.graph"),
        ("cudaFreeAsync", "gpu_api.alloc"),
        ("cudaHostAlloc", "gpu_api.alloc"),
        ("cuMemFreeAsync", "gpu_api.alloc"),
        ("cuModuleGetFunction", "gpu_api.module_load"),
        ("cuLibraryLoadData", "gpu_api.module_load"),
        ("cudaGetLastError", "gpu_api.query"),
        ("cuStreamIsCapturing", "gpu_api.query"),
        ("cudaSetDevice", "gpu_api.init"),
        ("cudaStreamWaitEvent", "gpu_api.other"),
    ],
)
def test_cuda_calls_by_their_names(symbol: str, detail: str) -> None:
    chain = (NativeFrame("libcuda.so.580.159.04", ""), NativeFrame("libcudart.so.13", symbol))
    assert classify(Observation(running=True, chain=chain)).detail == detail


def test_xla_waits_for_its_own_threads_where_there_is_no_gpu() -> None:
    seen = observation(next(example for example in NATIVE if example["rule"] == "xla-await")["observation"])
    assert classify(seen) == Classified("gpu_wait", "await")
    assert classify(seen, gpu=False) == Classified("lock", "pool")


#: Truth as timed inside the job (its parts), and the details that stand for them.
TRUTH = (
    ("gpubound", "item", ("gpu_wait.sync",)),
    ("gpubound", "fwdbwd", ("native", "native.kernel", "python", "gpu_api", "lock.autograd")),
    ("copies", "d2h nonzero", ("gpu_wait.copy_to_host",)),
    ("copies", "h2d", ("gpu_wait.copy_to_device",)),
    ("copies", "pinned_event", ("gpu_wait.event",)),
    ("copies", "numpy", ("native", "native.kernel")),
    ("graphs", "sync tolist", ("gpu_wait",)),
    ("cxx", "decode_image", ("native",)),
    ("cxx", "sync", ("gpu_wait.sync",)),
    ("cxx", "sleep", ("idle.sleep",)),
    ("cxx", "launch", ("gpu_api.launch",)),
    ("llm", "generate", ("native", "native.kernel", "python", "gpu_api")),
    ("backpressure", "mm", ("gpu_wait.queue_full", "native", "gpu_api")),
)


@pytest.mark.parametrize(("job", "parts", "details"), TRUTH)
def test_shares_are_within_five_points_of_the_truth(job: str, parts: str, details: tuple[str, ...]) -> None:
    truth, looks = main_thread(job)
    counts = Counter(classify(look) for look in looks)
    found = sum(count for seen, count in counts.items() if seen.detail in details or seen.state in details)
    assert found / len(looks) == pytest.approx(sum(truth[part] for part in parts.split()), abs=0.05)


def test_all_recordings_are_compared() -> None:
    assert {job for job, _, _ in TRUTH} == {path.name.split(".")[0] for path in PEEKS.glob("*.json.gz")}


def test_a_full_launch_queue_is_waiting() -> None:
    _, looks = main_thread("backpressure")
    share = sum(classify(look).detail == "gpu_wait.queue_full" for look in looks) / len(looks)
    assert share > 0.8
