"""Torch's trace with ours in it, and what the camera makes of it."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gputop.errors import SnapshotError
from gputop.model import ProcessBatch, ProcessInfo, Window
from gputop.snapshot import camera as camera_module
from gputop.snapshot import flight, sampled
from gputop.snapshot.camera import Camera
from gputop.snapshot.kineto import directory, merge, shoot
from gputop.snapshot.kineto.request import Options
from gputop.snapshot.kineto.route import READY, SAMPLED, Policy, Route
from gputop.snapshot.kineto.shoot import Trace
from gputop.snapshot.track_ids import STACKS_TID
from gputop.store import Store
from tests.fakes import shots
from tests.fakes.shots import EPOCH, PID, START

BASE = sampled.base_ns(EPOCH)


def kineto(pid: int = PID, events: bool = True, base: int | None = BASE) -> bytes:
    """Return a file as libkineto writes it."""
    origin = f'"baseTimeNanoseconds": {base},\n    ' if base is not None else ""
    ts = ((START + 1.0 + EPOCH) * 1e9 - (base or 0)) / 1e3
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": pid, "tid": pid, "ts": ts, "dur": 5.0, "args": {}}
    text = json.dumps(event).replace('"cat":"cpu_op"', '"cat": "cpu_op"') if events else ""
    return (
        f' {{\n    "schemaVersion": 1,\n    "deviceProperties": [],\n    "displayTimeUnit": "ms",\n    {origin}'
        f'"traceEvents": [\n    {text}\n  ],"traceName": "/tmp/x.json" }}'
    ).encode()


def merged(data: bytes, process: ProcessInfo | None = None, own_pid: int = PID, world: int = 1) -> dict[str, Any]:
    parts = merge.document(io.BytesIO(data), shots.shot(), process or shots.process(), own_pid, world)
    text = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    document: dict[str, Any] = json.loads(text)
    return document


@pytest.mark.parametrize("base", [BASE, None, 0])
def test_both_are_on_one_clock(base: int | None) -> None:
    events = merged(kineto(base=base))["traceEvents"]
    (operator,) = [event for event in events if event.get("name") == "aten::mm"]
    stacks = [event for event in events if event["ph"] == "B" and event["tid"] == STACKS_TID + PID]
    assert operator["ts"] - stacks[0]["ts"] == pytest.approx(1e6, abs=1.0), "microseconds apart as in the story"


def test_nothing_of_torchs_is_lost() -> None:
    document = merged(kineto())
    assert document["traceName"] == "/tmp/x.json"
    assert document["schemaVersion"] == 1
    assert document["gputop"]["kind"] == "torch"
    assert document["distributedInfo"] == {"rank": 0, "world_size": 1}


def test_rank_is_the_jobs() -> None:
    process = replace(shots.process(), rank=3)
    assert merged(kineto(), process, world=4)["distributedInfo"] == {"rank": 3, "world_size": 4}
    own = kineto().replace(b'"schemaVersion"', b'"distributedInfo": {"rank": 7}, "schemaVersion"')
    assert merged(own, process)["distributedInfo"] == {"rank": 7}, "torch knows better"


def test_empty_trace_of_torch_leaves_ours() -> None:
    events = merged(kineto(events=False))["traceEvents"]
    assert any(event["ph"] == "B" for event in events)


def test_tracks_carry_the_number_that_the_process_gives_itself() -> None:
    events = merged(kineto(pid=17), own_pid=17)["traceEvents"]
    pids = {event["pid"] for event in events if event["ph"] == "B" and event["cat"] == "stack"}
    assert pids == {17}


LONG_HEAD = b"{" + b" " * (2 << 20) + b'"traceEvents": []}'


@pytest.mark.parametrize("data", [b"", b"not a trace", b'[{"traceEvents": 1}', LONG_HEAD])
def test_what_is_no_trace_is_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError, match="no trace"):
        merged(data)


# ----------------------------------------------------------------------------------------------------- camera


class Live:
    """A store whose story ends now, and a wait that does not take its time."""

    def __init__(self) -> None:
        self.store = shots.story()
        self.told: list[str] = []
        self.processes: Sequence[ProcessInfo] = (replace(shots.process(), pid=os.getpid()),)

    def take(self, camera: Camera, path: Path | None, seconds: float = 0.1) -> list[Path]:
        saved = camera.take(self.processes, Options(seconds), 1.0, path, lambda until: True, self.told.append)
        return [one.path for one in saved]


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Live:
    monkeypatch.setattr(flight, "await_window", lambda *rest: Window(START, START + 2.0))
    return Live()


def traces(*files: tuple[int, int | None, bytes | None]) -> tuple[Trace, ...]:
    return tuple(
        Trace(
            replace(shots.process(pid), rank=rank),
            pid,
            io.BytesIO(data) if data is not None else None,
            "" if data is not None else "the program ended",
        )
        for pid, rank, data in files
    )


def record(monkeypatch: pytest.MonkeyPatch, outcome: tuple[Trace, ...] | Exception) -> None:
    def recorded(*rest: object) -> tuple[Trace, ...]:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(shoot, "record", recorded)


def test_torchs_trace_is_taken_where_there_is_one(live: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    record(monkeypatch, traces((PID, None, kineto())))
    (path,) = live.take(Camera(live.store, Policy()), None)
    assert path.name.startswith(f"node-7_{PID}.")
    assert path.name.endswith(".pt.trace.json.gz"), "the name that HTA and TensorBoard look for"
    assert json.loads(gzip.decompress(path.read_bytes()))["gputop"]["kind"] == "torch"


@pytest.mark.parametrize("error", [SnapshotError("torch is busy", "wait"), ProcessLookupError(3, "No such process")])
def test_sampled_trace_is_saved_when_torchs_fails(
    live: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    record(monkeypatch, error)
    (path,) = live.take(Camera(live.store, Policy()), tmp_path / "a.json")
    assert json.loads(path.read_text())["gputop"]["kind"] == "sampled", "never called torch's when it is not"
    assert live.told[0] in ("no torch trace: torch is busy; wait", "no torch trace: No such process")


def test_process_without_torch_says_so_and_is_sampled(live: Live, tmp_path: Path) -> None:
    camera = Camera(live.store, Policy())
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as program:
        live.processes = (replace(shots.process(), pid=program.pid),)
        assert "no torch is loaded" in camera.route(live.processes[0]).sentence
        (path,) = live.take(camera, tmp_path / "a.json")
    assert path.exists()
    assert "no torch is loaded" in live.told[0]


def test_other_formats_and_long_ones_are_sampled(live: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record(monkeypatch, AssertionError("torch is not asked"))
    camera = Camera(live.store, Policy())
    assert live.take(camera, tmp_path / "a.svg")[0].read_text().startswith("<?xml")
    monkeypatch.setattr(camera_module, "LONGEST_S", 0.05)
    live.take(camera, tmp_path / "a.json")
    assert "at most" in live.told[-2]


def test_all_ranks_get_a_file_and_an_index(live: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store = live.store
    shots.add_stacks(store, 4133, [(0.2, 0.4, (shots.MAIN,))], name="other")
    record(monkeypatch, traces((PID, 0, kineto()), (5000, 1, kineto(5000)), (5001, 2, None)))
    paths = live.take(Camera(store, Policy()), tmp_path / "job.json.gz")
    assert [path.name for path in paths] == ["job.rank0.json.gz", "job.rank1.json.gz", "job.index.json"]
    second = json.loads(gzip.decompress(paths[1].read_bytes()))
    assert second["distributedInfo"] == {"rank": 1, "world_size": 3}
    assert not any(event["ph"] == "B" and event["pid"] == PID for event in second["traceEvents"]), "own samples only"
    rows = json.loads(paths[2].read_text())["traces"]
    assert [(row["pid"], row["rank"], row.get("path"), row["failure"]) for row in rows] == [
        (PID, 0, "job.rank0.json.gz", ""),
        (5000, 1, "job.rank1.json.gz", ""),
        (5001, 2, None, "the program ended"),
    ]


def test_second_press_is_refused_while_one_runs(live: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    running, end = threading.Event(), threading.Event()

    def recorded(*rest: object) -> tuple[Trace, ...]:
        running.set()
        assert end.wait(10)
        raise SnapshotError("no torch")

    monkeypatch.setattr(shoot, "record", recorded)
    camera = Camera(live.store, Policy())
    first = threading.Thread(target=live.take, args=(camera, tmp_path / "a.json"))
    first.start()
    assert running.wait(10)
    with pytest.raises(SnapshotError, match="being taken already"):
        live.take(camera, tmp_path / "b.json")
    end.set()
    first.join(10)
    assert os.listdir(tmp_path) == ["a.json"]
    live.take(camera, tmp_path / "b.json")


@pytest.mark.parametrize("given", [True, False])
def test_a_program_that_profiles_itself_is_recorded_only_with_consent(
    live: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: bool
) -> None:
    record(monkeypatch, traces((PID, None, kineto())))
    monkeypatch.setattr(camera_module, "profiles_itself", lambda *rest: True)
    asked: list[str] = []

    def consent(question: str) -> bool:
        asked.append(question)
        return given

    camera = Camera(live.store, Policy())
    path = tmp_path / "a.json"
    (saved,) = camera.take(live.processes, Options(0.1), 1.0, path, lambda until: True, live.told.append, consent)
    assert saved.what == ("torch trace" if given else "sampled trace")
    assert "uses torch.profiler itself" in (asked[0] if given else saved.why)


def test_existing_file_is_refused_first(live: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record(monkeypatch, AssertionError("torch is not asked"))
    (tmp_path / "a.json").write_text("old")
    with pytest.raises(SnapshotError, match="exists"):
        live.take(Camera(live.store, Policy()), tmp_path / "a.json")


def test_nothing_sampled_is_told(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="nothing has been sampled"):
        Camera(Store(), Policy()).take([], Options(), 1.0, tmp_path / "a.json", lambda until: True)


def test_launched_program_gets_time_to_import_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [SAMPLED, SAMPLED, READY]
    monkeypatch.setattr(
        camera_module, "availability", lambda *rest: Route(kinds[0] if len(kinds) == 1 else kinds.pop(0), "")
    )
    told: list[str] = []
    camera = Camera(shots.story(), Policy())
    assert camera.await_torch(shots.process(), 60.0, lambda until: True, told.append).kind == SAMPLED, (
        "not launched by us"
    )
    assert told == []
    camera.launch_environment({})
    assert camera.await_torch(shots.process(), 60.0, lambda until: True, told.append).kind == READY
    kinds[:] = [SAMPLED]
    assert camera.await_torch(shots.process(), 60.0, lambda until: False, told.append).kind == SAMPLED, "stopped"
    assert camera.await_torch(shots.process(), 0.0, lambda until: True, told.append).kind == SAMPLED, "time is over"
    assert told[0] == "waiting for the program to import torch: 60 s left"
    camera.close()


@pytest.mark.parametrize("ranks", [(), (4133,), (4133, 4134)])
def test_a_launcher_gets_time_to_start_its_ranks(monkeypatch: pytest.MonkeyPatch, ranks: tuple[int, ...]) -> None:
    """torchrun polls itself, before there are ranks, and never works with torch."""
    root = replace(shots.process(), cmdline=("python", "-m", "torch.distributed.run", "train.py"))
    polling = {root.pid, 4133}
    monkeypatch.setattr(
        camera_module, "availability", lambda process, _: Route(READY if process.pid in polling else SAMPLED, "")
    )
    camera = Camera(shots.story(), Policy())
    camera.launch_environment({})
    started = tuple(replace(root, pid=pid, ppid=root.pid, cmdline=("python", "train.py")) for pid in ranks)
    camera.store.add(ProcessBatch(time.monotonic(), (root, *started)))
    told: list[str] = []
    camera.await_torch(root, 60.0, lambda until: len(told) < 3, told.append)
    assert len(told) == (0 if ranks == (4133,) else 3), "no rank yet, or one of them still imports"
    camera.close()


def test_launch_environment_is_removed_when_nobody_used_it() -> None:
    camera = Camera(shots.story(), Policy())
    variables = camera.launch_environment({})
    assert os.path.isdir(variables["GPUTOP_AGENT_DIRECTORY"])
    camera.close()
    assert not os.path.exists(variables["GPUTOP_AGENT_DIRECTORY"])
    assert Camera(shots.story(), Policy("off")).launch_environment({}) == {}


def test_room_for_the_trace_is_looked_for_first() -> None:
    shared = directory.make(os.getpid())
    try:
        with pytest.raises(SnapshotError, match="/tmp has") as caught:
            shoot._check_room(shared, Options(1e9))
        shoot._check_room(shared, Options(1e-9))
    finally:
        shared.close()
    assert "free some space" in caught.value.remedy
