"""The short reading of a trace: known answers."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.errors import SnapshotError
from gputop.snapshot import sampled, write
from gputop.snapshot.kineto import apart, spans
from gputop.snapshot.kineto.events import events
from gputop.snapshot.kineto.reading import read
from gputop.snapshot.kineto.spans import Intervals
from gputop.snapshot.track_ids import STACKS_TID
from tests.fakes import shots

LLM = Path(__file__).parents[1] / "data" / "traces" / "llm.pt.trace.json.gz"

Event = dict[str, Any]


def event(cat: str, name: str, ts: float, dur: float, tid: int = 1, **arguments: object) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": arguments}


def saved(path: Path, of: list[Event]) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": of}))
    return path


def test_llm_decode_on_an_h200_is_launch_bound() -> None:
    """60 ms of a real trace; counts as `grep` finds them in the file, shares as other tools computed them."""
    reading = apart.read_apart(LLM)
    assert reading.verdict == "launch-bound"
    assert reading.devices == 1
    assert reading.seconds == pytest.approx(0.060, abs=0.001)
    assert reading.gpu_busy == pytest.approx(0.098, abs=0.005)
    assert reading.operators[0].name == "cudaLaunchKernel"
    assert reading.operators[0].calls == 2102
    assert reading.kernel_us == pytest.approx(1.8, abs=0.1)
    assert reading.waiting < 0.01
    assert reading == read(LLM), "the same in a process of its own"
    first, second, *_ = apart.sentences(reading)
    assert first.startswith("launch-bound")
    assert "GPU busy 10%" in second


def test_known_story(tmp_path: Path) -> None:
    """10 ms: two kernels of 2 ms, a copy of 2 ms half under the first, then 4 ms idle while the CPU decodes."""
    reading = read(
        saved(
            tmp_path / "a.json",
            [
                event("cpu_op", "aten::conv", 0, 1000),
                event("cuda_runtime", "cudaLaunchKernel", 400, 100, correlation=7),
                event("kernel", "gemm", 1000, 2000, device=0, correlation=7),
                event("gpu_memcpy", "Memcpy HtoD", 2000, 2000, device=0),
                event("cpu_op", "decode", 4000, 3000),
                event("cuda_runtime", "cudaStreamSynchronize", 8000, 2000),
                event("kernel", "gemm", 8000, 2000, device=0),
                {"ph": "B", "name": "main", "pid": 1, "tid": 1_000_000_001, "ts": 0, "cat": "stack"},
            ],
        )
    )
    assert reading.seconds == pytest.approx(0.010)
    assert reading.gpu_busy == pytest.approx(0.5)
    assert [(row.name, row.calls, row.seconds, row.share) for row in reading.kernels] == [("gemm", 2, 0.004, 1.0)]
    assert {row.name: round(row.seconds, 6) for row in reading.operators} == {
        "aten::conv": 0.0009,
        "cudaLaunchKernel": 0.0001,
        "decode": 0.003,
        "cudaStreamSynchronize": 0.002,
    }
    assert reading.launch_us == 600
    assert reading.waiting == pytest.approx(0.2)
    assert reading.copy_seconds == pytest.approx(0.002)
    assert reading.copy_alone == pytest.approx(0.5)
    longest = reading.gaps[0]
    assert longest.start_s == pytest.approx(0.004)
    assert longest.seconds == pytest.approx(0.004)
    assert [(name, round(seconds, 6)) for name, seconds in longest.doing] == [("decode", 0.003)]


@pytest.mark.parametrize(
    ("busy_us", "kernels", "verdict"),
    [(900, 100, "gpu-bound"), (600, 100, "mixed"), (10, 100, "launch-bound"), (4000, 2, "cpu-bound")],
)
def test_verdicts(tmp_path: Path, busy_us: float, kernels: int, verdict: str) -> None:
    step = 1000 if kernels > 2 else 50_000
    work: list[Event] = []
    for i in range(kernels):
        work.append(event("cuda_runtime", "cudaLaunchKernel", i * step, 2, correlation=i))
        work.append(event("kernel", "k", i * step + 5, busy_us, device=0, correlation=i))
    work.append(event("cpu_op", "end", kernels * step, 1))
    assert read(saved(tmp_path / "a.json", work)).verdict == verdict


def stack(phase: str, ts: float, name: str = "", at: str = "") -> Event:
    return {"ph": phase, "name": name, "pid": 1, "tid": STACKS_TID + 1, "ts": ts, "cat": "stack", "args": {"at": at}}


def test_gap_tells_what_the_launching_thread_did_in_it_innermost_and_in_python(tmp_path: Path) -> None:
    """The GPU idles from 1000 to 9000 us; a loader call began before that, and holds what is inside it."""
    reading = read(
        saved(
            tmp_path / "a.json",
            [
                stack("B", 0, "main", "/app/train.py:9"),
                event("cuda_runtime", "cudaLaunchKernel", 0, 10, correlation=7),
                event("kernel", "gemm", 10, 990, device=0, correlation=7),
                event("user_annotation", "next batch", 500, 6500),
                event("cpu_op", "aten::copy_", 2000, 1000),
                stack("B", 1000, "decode", "/app/data.py:31"),
                stack("E", 7000, "decode"),
                event("cuda_runtime", "cudaLaunchKernel", 8990, 10, correlation=8),
                event("kernel", "gemm", 9000, 1000, device=0, correlation=8),
                stack("E", 10_000, "main"),
            ],
        )
    )
    gap = reading.gaps[0]
    assert {name: round(seconds * 1e6) for name, seconds in gap.doing} == {
        "next batch": 5000,
        "aten::copy_": 1000,
        "cudaLaunchKernel": 10,
    }
    assert {name: round(seconds * 1e6) for name, seconds in gap.python} == {
        "decode (data.py:31)": 6000,
        "main (train.py:9)": 2000,
    }
    told = next(sentence for sentence in apart.sentences(reading) if sentence.startswith("GPU idle"))
    assert told.endswith("in Python decode (data.py:31) 6.0 ms, main (train.py:9) 2.0 ms")


def test_our_own_sampled_trace_is_read_by_its_verdict(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    write.write(path, sampled.document(shots.shot()))
    reading = apart.read_apart(path)
    assert reading.ours["kind"] == "sampled"
    first, *_ = apart.sentences(reading)
    assert first.startswith("gputop saw: GPU bound: ")
    assert next(apart.sentences(replace(reading, ours={}))).startswith("torch recorded nothing")


@pytest.mark.parametrize("ours", ['"gputop": 3', '"gputop": {"verdict": 7}', '"gputop": {"verdict": {"evidence": 1}}'])
def test_what_others_wrote_in_our_name_is_no_crash(tmp_path: Path, ours: str) -> None:
    path = tmp_path / "a.json"
    path.write_text("{" + ours + ', "traceEvents": []}')
    assert list(apart.sentences(apart.read_apart(path)))


def test_a_trace_that_cannot_be_read_is_told_in_a_sentence(tmp_path: Path) -> None:
    (sentence,) = apart.told(tmp_path / "gone.json")
    assert sentence.startswith("no reading: cannot read")


def test_trace_without_gpu(tmp_path: Path) -> None:
    reading = read(saved(tmp_path / "a.json", [event("cpu_op", "aten::mm", 0, 10)]))
    assert reading.verdict == "no-gpu"
    assert list(apart.sentences(reading)) == ["no GPU work in this trace", "CPU 100%: aten::mm (1 times, 10 µs)"]


def test_nothing_of_torchs_is_no_crash(tmp_path: Path) -> None:
    assert read(saved(tmp_path / "a.json", [])).seconds == 0.0


HALF = json.dumps({"traceEvents": [event("cpu_op", "a", 0, 1)] * 50})[:-30]


@pytest.mark.parametrize(
    "text", ["", "{}", "no json", "[1, 2", '{"traceEvents": [', HALF, '{"traceEvents": [{"ph": "X"']
)
def test_damaged_files_are_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(SnapshotError, match=r"a\.json"):
        apart.read_apart(tmp_path / "a.json")


def test_truncated_gzip_and_missing_file_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(LLM.read_bytes()[:100_000])
    for name in ("a.json.gz", "missing.json"):
        with pytest.raises(SnapshotError, match="cannot read"):
            apart.read_apart(tmp_path / name)


def test_events_with_wrong_types_are_passed_over(tmp_path: Path) -> None:
    bad = [{"ph": "X", "cat": "kernel", "name": 5, "ts": "x", "dur": None}, 7, None, [], {"ph": "X", "cat": "kernel"}]
    good = event("kernel", "\x1b[31mk", 0, 10, device=0)
    reading = read(saved(tmp_path / "a.json", [*bad, good, {**good, "args": "none"}]))  # type: ignore[list-item]
    assert "\x1b" not in reading.kernels[0].name


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write('{"traceEvents": [')
        file.write(",".join([json.dumps(event("cpu_op", "a" * 500, 0, 1))] * 40_000))
        file.write("]}")
    tracemalloc.start()
    count = sum(1 for _ in events(path))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 40_000
    assert most < 12e6, "25 MB of text"


SPANS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 50)).map(lambda pair: (pair[0], pair[0] + pair[1])))


def covered(of: list[tuple[float, float]], length: int = 260) -> list[bool]:
    return [any(start <= t < end for start, end in of) for t in range(length)]


@given(SPANS, SPANS)
def test_spans_against_counting(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> None:
    first, second = spans.union(sorted(one)), spans.union(sorted(other))
    assert spans.total(first) == sum(covered(one))
    assert spans.overlap(first, second) == sum(map(bool.__and__, covered(one), covered(other)))
    assert spans.total(spans.gaps(first, (0, 260))) == 260 - sum(covered(one))


def test_innermost_stretches_cover_each_moment_once() -> None:
    calls = Intervals()
    for start, duration, number in ((0, 10, 0), (2, 3, 1), (3, 1, 2), (12, 2, 3)):
        calls.add(start, duration, number)
    stretches = list(spans.innermost(calls))
    assert stretches == [(0, 0, 2), (1, 2, 3), (2, 3, 4), (1, 4, 5), (0, 5, 10), (3, 12, 14)]
    assert spans.within(stretches, (2.5, 12.5)) == {1: 1.5, 2: 1.0, 0: 5.0, 3: 0.5}
    assert spans.within(stretches, (20.0, 30.0)) == {}


def test_self_times_of_nested_calls() -> None:
    calls = Intervals()
    for start, duration, number in ((0, 100, 0), (10, 50, 1), (20, 10, 2), (70, 10, 1), (100, 5, 3)):
        calls.add(start, duration, number)
    assert sorted(spans.self_times(calls)) == [(0, 0, 40), (1, 10, 40), (1, 70, 10), (2, 20, 10), (3, 100, 5)]
