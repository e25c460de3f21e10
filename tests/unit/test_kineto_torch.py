"""The whole route with a real torch (its CPU build will do): ask, record, merge, read."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from gputop.errors import SnapshotError
from gputop.model import Frame, ProcessBatch, ProcessInfo, Session, StackBatch, StackSegment
from gputop.snapshot.camera import Camera
from gputop.snapshot.kineto import apart, detect, directory, enable, route
from gputop.snapshot.kineto.request import Options
from gputop.snapshot.kineto.route import GDB, READY, SAMPLED, Policy
from gputop.snapshot.track_ids import STACKS_TID
from gputop.store import Store

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

MAIN, MARKED = Frame("main", "torch_marks.py", 30), Frame("marked", "torch_marks.py", 17)

#: How far torch's clock and ours may be apart for the same moment, seconds (issue: 1 ms). Seen: 0.03 to 0.2 ms.
CLOCK_BOUND_S = 1e-3


class Program:
    """A program that works with torch, watched by a store that knows its own times."""

    def __init__(self, environ: Mapping[str, str], store: Store) -> None:
        script = Path(__file__).parents[1] / "targets" / "torch_marks.py"
        self.process = subprocess.Popen(
            [sys.executable, str(script)],
            # torch without numpy says so; that is not about us
            env={**os.environ, "PYTHONWARNINGS": "ignore:Failed to initialize NumPy", **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.store = store
        self.marks: dict[str, tuple[float, float]] = {}
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        pid = self.process.pid
        self.info = ProcessInfo(pid, os.getpid(), time.time(), ("python", "torch_marks.py"), python="3.11")
        store.add(Session(self.info, time.time() - time.monotonic(), "node", 2, "0"))
        store.add(ProcessBatch(time.monotonic(), (self.info,)))
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        """Put each mark that the program printed into the store, as a stack that it was in."""
        pid = self.process.pid
        assert self.process.stdout is not None
        before = time.monotonic()
        for line in self.process.stdout:
            name, _, times = line.rstrip("\n").partition("\t")
            if times:
                start, end = map(float, times.split("\t"))
                self.marks[name] = start, end
                segments = StackSegment(pid, before, start, 0), StackSegment(pid, start, end, 1)
                stacks = (MAIN,), (MAIN, MARKED)
                self.store.add(StackBatch(pid, before, end, {pid: "MainThread"}, stacks, segments, 1, 0, 100.0))
                before = end

    def end(self) -> tuple[int, str]:
        """Let it end as it wants; return its exit code and what it printed as errors."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
        self._reader.join()
        assert self.process.stderr is not None
        with self.process.stderr, self.process:
            return self.process.wait(30), self.process.stderr.read()


def wait(until: float) -> bool:
    time.sleep(max(0.0, until - time.monotonic()))
    return True


@pytest.fixture
def camera() -> Iterator[Camera]:
    made = Camera(Store(), Policy())
    yield made
    made.close()


def saved(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return document


def check_trace(document: dict[str, Any], program: Program) -> None:
    """See that torch's operators and our stacks are there, under the same process, on the same clock."""
    events = document["traceEvents"]
    assert any(event.get("name") == "aten::mm" for event in events)
    own = [event for event in events if event["ph"] in "BE" and event["tid"] == STACKS_TID + program.process.pid]
    assert {event["pid"] for event in own} == {program.process.pid}
    begins = sorted(event["ts"] for event in own if event.get("name") == "marked")
    starts = {mark: event["ts"] for event in events if (mark := str(event.get("name"))).startswith("mark ")}
    assert len(starts) >= 3
    offset = time.time() - time.monotonic() - document["baseTimeNanoseconds"] / 1e9
    off = [abs(ts / 1e6 - offset - program.marks[mark][0]) for mark, ts in starts.items() if mark in program.marks]
    print(f"clocks apart: median {median(off) * 1e6:.0f} µs, most {max(off) * 1e6:.0f} µs over {len(off)} marks")
    assert median(off) < CLOCK_BOUND_S
    nearest = [min(abs(ts - begin) for begin in begins) for ts in starts.values()]
    assert median(nearest) < CLOCK_BOUND_S * 1e6, "the same moment in both kinds of track"


def test_launched_program_that_ends_while_it_is_recorded(camera: Camera, tmp_path: Path) -> None:
    """Without the exit guard torch crashes here (SIGSEGV), and the trace is lost."""
    program = Program(camera.launch_environment({}), camera.store)
    told: list[str] = []

    def progress(sentence: str) -> None:
        told.append(sentence)
        if sentence.startswith("recording"):
            time.sleep(0.5)
            assert program.process.stdin is not None
            program.process.stdin.close()

    try:
        assert camera.route(program.info).kind == READY
        path = tmp_path / "a.pt.trace.json.gz"
        (shot,) = camera.take((program.info,), Options(1.0), 1.0, path, wait, progress)
    finally:
        code, errors = program.end()
    assert (code, errors) == (0, "")
    assert shot.what == "torch trace"
    assert told[0] == "waiting for torch to ask for work"
    assert any(sentence.startswith("recording 1 s: don't stop the program") for sentence in told)
    assert path.stat().st_mode & 0o777 == 0o600
    check_trace(saved(path), program)
    assert any(row.name == "aten::mm" for row in apart.read_apart(path).operators)
    assert camera.own_pids() == ()


#: Takes a trace as gputop does, in a process of its own that can be killed; says when the recording has begun.
SHOOTING = """if True:
    import sys, time
    from pathlib import Path
    from gputop.snapshot.kineto import shoot
    from gputop.snapshot.kineto.request import Options
    from gputop.snapshot.kineto.route import Policy
    from gputop.model import ProcessInfo

    def wait(until):
        time.sleep(max(0.0, until - time.monotonic()))
        return True

    told = lambda sentence: print(sentence, flush=True)
    target = ProcessInfo(int(sys.argv[1]), 1, 0.0, ("python",))
    shoot.record((target,), Policy(), Options(1.0), wait, told, lambda question: False, set())
"""


def test_program_goes_on_when_gputop_is_killed_in_the_middle(camera: Camera) -> None:
    program = Program(camera.launch_environment({}), camera.store)
    try:
        with subprocess.Popen(
            [sys.executable, "-c", SHOOTING, str(program.process.pid)], stdout=subprocess.PIPE, text=True
        ) as gputop:
            assert gputop.stdout is not None
            assert any(line.startswith("recording") for line in gputop.stdout)
            gputop.kill()
        before = len(program.marks)
        deadline = time.monotonic() + 20
        while len(program.marks) < before + 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(program.marks) >= before + 3, "it works on"
        assert camera.route(program.info).kind == READY, "and can be traced again"
    finally:
        outcome = program.end()
    assert outcome == (0, "")


def test_program_prepared_for_traces_ends_as_usual(camera: Camera) -> None:
    """With the abstract name, or a stale socket, it would live on for some ten seconds."""
    environ = {**os.environ, **camera.launch_environment({}), "PYTHONWARNINGS": "ignore"}
    code = "import time, torch; torch.ones(2) + 1; print(time.monotonic(), flush=True)"
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - float(done.stdout) < 5.0


def may_trace() -> bool:
    try:
        return os.geteuid() == 0 or Path("/proc/sys/kernel/yama/ptrace_scope").read_text().strip() == "0"
    except OSError:
        return True


@pytest.mark.skipif(shutil.which("gdb") is None or not may_trace(), reason="needs gdb and the right to trace a process")
def test_running_program_is_switched_on_only_with_consent(camera: Camera, tmp_path: Path) -> None:
    program = Program({}, camera.store)
    asked: list[str] = []
    told: list[str] = []

    def consent(question: str) -> bool:
        asked.append(question)
        return len(asked) > 1

    try:
        assert camera.route(program.info).kind == GDB
        assert route.availability(program.info, Policy(inject=False)).kind == SAMPLED
        refused = tmp_path / "refused.json.gz"
        (shot,) = camera.take((program.info,), Options(0.1), 0.1, refused, wait, told.append, consent)
        assert shot.what == "sampled trace"
        assert "stays off" in told[0]
        assert camera.route(program.info).kind == GDB, "nothing was done to it"
        path = tmp_path / "a.json.gz"
        (shot,) = camera.take((program.info,), Options(1.0), 1.0, path, wait, told.append, consent)
        assert shot.what == "torch trace", told
        assert camera.route(program.info).kind == READY
    finally:
        code, errors = program.end()
    assert (code, errors) == (0, "")
    assert "gdb" in asked[1]
    check_trace(saved(path), program)


#: What `sys.remote_exec` does in the target: run a file in its main thread.
EXECUTING = """if True:
    import sys, torch
    for script in sys.stdin:
        exec(compile(open(script.strip()).read(), script, "exec"), {})
        print("done", "_gputop_enable" in globals(), flush=True)
"""


def test_script_for_newer_pythons_switches_polling_on_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The script alone: handing it over needs Python 3.14, so here the target runs it when told."""
    with subprocess.Popen(
        [sys.executable, "-c", EXECUTING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        shared = directory.make(program.pid)

        def hand_over(pid: int, command: list[str]) -> subprocess.CompletedProcess[str]:
            assert program.stdin is not None
            assert program.stdout is not None
            print(command[-1], file=program.stdin, flush=True)
            assert program.stdout.readline() == "done False\n", "leaves no name behind"
            return subprocess.CompletedProcess(command, 0, "", "")

        monkeypatch.setattr(enable, "_run_as_owner", hand_over)
        try:
            variables = directory.polling_variables(shared, {})
            enable.with_interpreter(program.pid, shared, variables, wait)
            deadline = time.monotonic() + 5
            while detect.polling(program.pid) is None and time.monotonic() < deadline:
                time.sleep(0.05)
            assert detect.polling(program.pid) == shared.inside
            shared.remove("status")
            with pytest.raises(SnapshotError, match=r"has used torch\.profiler before"):
                enable.with_interpreter(program.pid, shared, variables, wait)
            shared.write(f"tracing-{program.pid}", "99999999999 shot-1.json")
            assert program.stdin is not None
            program.stdin.close()
            with pytest.raises(subprocess.TimeoutExpired):  # it is being recorded
                program.wait(0.5)
            shared.write("shot-1.json", "{}")
            assert program.wait(20) == 0
        finally:
            program.kill()
            shared.close()
