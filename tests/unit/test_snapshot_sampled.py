"""The sampled trace: valid, nested, named, and on one clock."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gputop.analysis.summary import summarise
from gputop.model import Frame, NativeFrame, Observation, Stack, Window
from gputop.snapshot import sampled
from gputop.snapshot.shot import Shot, steps
from gputop.snapshot.track_ids import STACKS_TID, STATES_TID
from gputop.snapshot.tracks import Axis
from gputop.store import Segment
from tests.fakes import shots
from tests.fakes.shots import EPOCH, HOSTILE, MAIN, PID, START

SCHEMA = json.loads((Path(__file__).parents[1] / "data" / "chrome_trace.schema.json").read_text())
BASE_NS = sampled.base_ns(START + EPOCH)

Event = dict[str, Any]


def parsed(shot: Shot) -> dict[str, Any]:
    document: dict[str, Any] = json.loads("".join(sampled.document(shot)))
    jsonschema.validate(document, SCHEMA)
    return document


def tracks_of(events: Iterable[Event]) -> dict[tuple[int, int], list[Event]]:
    found: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] in "BE":
            found[event["pid"], event["tid"]].append(event)
    return found


def slices(events: Iterable[Event]) -> Iterator[tuple[float, float, int, str, Event]]:
    """Yield (start, end, depth, name, begin) in monotonic seconds since START, and insist on balance and order."""
    opened: list[Event] = []
    last = 0.0
    for event in events:
        assert event["ts"] >= last, "a track's events are in order"
        last = event["ts"]
        if event["ph"] == "B":
            opened.append(event)
        else:
            begin = opened.pop()
            yield since(begin["ts"]), since(last), len(opened), begin["name"], begin
    assert not opened, "every slice is closed"


def since(ts: float) -> float:
    return round(ts / 1e6 + BASE_NS / 1e9 - EPOCH - START, 5)


def names(document: dict[str, Any], kind: str) -> dict[tuple[int, int], str]:
    return {
        (event["pid"], event["tid"] if kind == "thread_name" else 0): event["args"]["name"]
        for event in document["traceEvents"]
        if event["ph"] == "M" and event["name"] == kind
    }


def test_stacks_are_nested_slices_with_nothing_drawn_over_the_gap() -> None:
    document = parsed(shots.shot())
    found = sorted(slices(tracks_of(document["traceEvents"])[PID, STACKS_TID + PID]))
    assert [(a, b, depth, name) for a, b, depth, name, _ in found] == [
        (0.0, 0.6, 2, "decode_image"),
        (0.0, 0.95, 0, "main"),
        (0.0, 0.95, 1, "train_step"),
        (1.05, 1.5, 1, "train_step"),
        (1.05, 1.5, 2, "synchronize"),
        (1.05, 2.0, 0, "main"),
        (1.5, 2.0, 1, "synchronize"),
    ]
    assert found[0][4]["args"] == {"at": "/app/data.py:31"}


def test_states_are_slices_with_kind_and_native_chain() -> None:
    document = parsed(shots.shot())
    found = sorted(slices(tracks_of(document["traceEvents"])[PID, STATES_TID + PID]))
    assert [(a, b, name) for a, b, _, name, _ in found] == [
        (0.0, 0.2, "python"),
        (0.2, 0.205, "starved"),
        (0.205, 1.0, "python"),
        (1.0, 2.0, "gpu_wait"),
    ]
    assert found[-1][4]["args"] == {
        "kind": "sync",
        "native": "clock_gettime ← cuStreamSynchronize ← cudaStreamSynchronize",
    }


@pytest.mark.parametrize(("module", "state"), [("libmath.so", "lock"), ("libcuda.so.1", "gpu_wait")])
def test_xla_on_the_cpu_waits_for_no_gpu(module: str, state: str) -> None:
    """The wait looks the same; a thread in the CUDA driver tells that it is for the GPU."""
    frames = NativeFrame("libjax_common.so", ""), NativeFrame("libpython3.12.so.1.0", "_PyEval_EvalFrameDefault")
    other = Observation(syscall="poll", chain=(NativeFrame(module, ""),))
    store = shots.store()
    shots.add_peeks(store, PID, [(0.1 * i, Observation(syscall="futex", chain=frames)) for i in range(1, 11)], 0.1)
    shots.add_peeks(store, 4133, [(0.1 * i, other) for i in range(1, 11)], 0.1)
    summarise(store, Window(START, START + 2))
    found = slices(tracks_of(parsed(shots.shot(store))["traceEvents"])[PID, STATES_TID + PID])
    assert {name for *_, name, _ in found} == {state}


def test_looks_that_stand_for_more_time_than_has_passed_stay_in_order() -> None:
    store = shots.store()
    looks = [(0.1 * i, shots.COMPUTING if i % 2 else shots.WAITING) for i in range(1, 11)]
    shots.add_peeks(store, PID, looks, 0.15, dict.fromkeys(range(3, 10), 0.04))
    document = parsed(shots.shot(store))
    found = list(slices(tracks_of(document["traceEvents"])[PID, STATES_TID + PID]))
    assert sum(end - start for start, end, *_ in found) == pytest.approx(1.0, abs=1e-3)
    assert {name for _, _, _, name, _ in found} == {"python", "gpu_wait"}


def test_names_and_order_of_tracks() -> None:
    store = shots.story()
    shots.add_stacks(store, 4133, [(0.2, 0.4, (MAIN,))], name="loader")
    document = parsed(shots.shot(store))
    threads = names(document, "thread_name")
    assert threads[PID, STACKS_TID + PID] == "MainThread (4121) stacks"
    assert threads[PID, STATES_TID + PID] == "MainThread (4121) states"
    assert threads[PID, STACKS_TID + 4133] == "loader (4133) stacks"
    assert (PID, STATES_TID + 4133) not in threads, "no empty tracks"
    assert set(names(document, "process_name").values()) == {
        "gputop",
        "train.py",
        "node-7 (cores)",
        "GPU 0 H200 (sampled)",
    }
    order = {
        event["tid"]: event["args"]["sort_index"]
        for event in document["traceEvents"]
        if event["name" if event["ph"] == "M" else "ph"] == "thread_sort_index"
    }
    wanted = [STACKS_TID + PID, STATES_TID + PID, STACKS_TID + 4133]
    assert sorted(order, key=lambda tid: order[tid]) == wanted


def test_counters_start_with_the_time_they_were_averaged_over() -> None:
    counters: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for event in parsed(shots.shot())["traceEvents"]:
        if event["ph"] == "C":
            ((unit, value),) = event["args"].items()
            counters[f"{event['name']} {unit}"].append((since(event["ts"]), value))
    assert counters["core 0 %"] == [(0.0, 90.0), (0.5, 90.0), (1.0, 90.0), (1.5, 90.0)]
    assert counters["all cores cores"][0] == (0.0, 1.2)
    assert counters["CPU cores"][0] == (0.0, 1.1)
    assert counters["GPU utilization %"][:3] == [(0.1, 20.0), (0.3, 40.0), (0.6, 20.0)]
    assert counters["GPU memory MiB"][0] == (0.5, 12288.0)
    assert counters["SM active %"][0] == (0.5, 22.0)
    assert "power W" not in counters, "what is not available has no value"


def test_file_says_what_it_is() -> None:
    about = parsed(shots.shot())["gputop"]
    assert about["kind"] == "sampled"
    assert about["command"] == ["python", "train.py", "--epochs", "90"]
    assert about["start_unix"] == START + EPOCH
    assert about["verdict"]["title"] == "GPU bound"
    assert about["notes"] == ["GPM is not supported; use a newer GPU"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_names(name: str) -> None:
    store = shots.store(name=name)
    shots.add_stacks(store, PID, [(0.0, 0.5, (Frame(name, name, 1),))], name=name)
    document = parsed(shots.shot(store))
    (found,) = slices(tracks_of(document["traceEvents"])[PID, STACKS_TID + PID])
    assert found[3] == name
    assert names(document, "process_name")[PID, 0] == name


def test_clock_is_kinetos() -> None:
    assert BASE_NS == 1_790_857_026_000_000_000, "the base that libkineto wrote in Nov 2026"
    axis = Axis(EPOCH, BASE_NS)
    unix_us = BASE_NS / 1e3 + axis.us(START)
    assert unix_us == pytest.approx((START + EPOCH) * 1e6, abs=1.0)


def random_walk(count: int) -> Iterator[Segment]:
    """Yield stacks that share prefixes, some with a gap before them, some empty, some overlapping by rounding."""
    frames = [Frame(f"f{i}", "a.py", i) for i in range(7)]
    at = START
    for i in range(count):
        depth = (i * 7919) % 6
        stack: Stack = tuple(frames[(i * j + j * j) % 7] for j in range(depth))
        at += 0.01 * (i % 5 == 0)
        yield Segment(at - 1e-7, at + 0.01, stack)
        at += 0.01


def test_any_walk_of_stacks_is_balanced_and_keeps_each_stack() -> None:
    open_frames: list[Frame] = []
    walk = list(random_walk(500))
    changes = {}
    for step in steps(walk):
        del open_frames[len(open_frames) - step.closed :]
        open_frames += step.opened
        changes[step.time] = [frame.name for frame in open_frames]
    assert open_frames == []
    for segment in walk:
        middle = (segment.start + segment.end) / 2
        newest = max((time for time in changes if time <= middle), default=None)
        assert (changes[newest] if newest is not None else []) == [frame.name for frame in segment.stack]


def test_a_minute_of_forty_threads_is_written_in_a_second() -> None:
    store = shots.store()
    deep = tuple(Frame(f"layer{i}", "/app/model.py", i) for i in range(20))
    for tid in range(PID, PID + 40):
        busy = tid < PID + 8
        for second in range(60):
            rows = 80 if busy else 1
            at = [second + i / rows for i in range(rows + 1)]
            stacks = [(at[i], at[i + 1], (*deep, Frame(f"op{i % 7}", "/app/ops.py", i))) for i in range(rows)]
            shots.add_stacks(store, tid, stacks, name=f"worker-{tid}")
            looks = 50 if busy else 5
            seen = [(second + (i + 1) / looks, Observation(running=True, syscall=str(i % 3))) for i in range(looks)]
            shots.add_peeks(store, tid, seen, 1 / looks)
    shot = shots.shot(store, 60.0)
    started = time.process_time()
    size = largest = 0
    for part in sampled.document(shot):
        size += len(part)
        largest = max(largest, len(part))
    took = time.process_time() - started
    print(f"{size / 1e6:.1f} MB in {took:.2f} s")
    assert size > 10e6
    assert largest < 1e5, "in small pieces: nothing is held"
    assert took < 3.0, "1 s on a quiet core; three times that on a loaded one"
