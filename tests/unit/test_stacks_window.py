"""One py-spy: what it is given, that it dies with us, and what is known of it afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gputop.collectors.stacks.command import find_binary
from gputop.collectors.stacks.window import Outcome, Window
from tests.fakes.pyspy import GOOD, fake
from tests.unit.stacks_tools import running

#: Starts a window and says py-spy's pid once that one has attached.
OWNER = """
import pathlib, sys, time
from gputop.collectors.stacks.window import Window
window = Window(pathlib.Path(sys.argv[1]), int(sys.argv[2]), 100, 30, time.monotonic)
while window.ready is None:
    assert window.listen()
print(window.pid, flush=True)
time.sleep(30)
"""


def finished(window: Window) -> Outcome:
    while window.listen():
        pass
    return window.finish()


def test_what_py_spy_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No environment, terminal or descriptor of ours, a session of its own, and no option that stops the target."""
    monkeypatch.setenv("LD_PRELOAD_LIKE", "x")
    body = """
paths = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
links = sorted(os.readlink(path).split(":")[0] for path in paths if os.path.lexists(path))
told = dict(env=dict(os.environ), sid=os.getsid(0), argv=sys.argv[1:], cwd=os.getcwd(), links=links)
open(output, "w").write(json.dumps(told))
"""
    with open(__file__) as ours:
        os.set_inheritable(ours.fileno(), True)
        outcome = finished(Window(fake(tmp_path, body), 4711, 50, 3, time.monotonic))
    told = json.loads(outcome.trace)
    told["env"].pop("LC_CTYPE", None)  # Python's own, in the stand-in
    assert told["env"] == {"RUST_BACKTRACE": "0", "LANG": "C.UTF-8"}
    assert told["sid"] != os.getsid(0)
    assert told["cwd"] == "/"
    assert [link.partition(" ")[0] for link in told["links"]] == ["/dev/null", "/memfd", "pipe", "pipe", "pipe"]
    assert {"--nonblocking", "--idle", "--threads", "--pid", "4711", "--rate", "50"} <= set(told["argv"])
    assert not {"--native", "--subprocesses", "--gil"} & set(told["argv"])


def test_interrupted_window_brings_its_trace_and_cost(tmp_path: Path) -> None:
    window = Window(fake(tmp_path, GOOD), 4711, 100, 30, time.monotonic)
    while window.ready is None:
        assert window.listen()
    window.interrupt()
    outcome = finished(window)
    assert (outcome.status, outcome.cut_short, outcome.interrupted) == (0, "", True)
    assert len(json.loads(outcome.trace)) == 4
    assert outcome.counts() == (50, 0)
    assert 0.001 < outcome.cpu_seconds < 2
    assert outcome.spawned < outcome.ready <= outcome.ended  # type: ignore[operator]


def test_killed_window_is_reaped_with_its_children(tmp_path: Path) -> None:
    body = "import subprocess; print(subprocess.Popen(['sleep', '30']).pid, flush=True); time.sleep(30)"
    window = Window(fake(tmp_path, body), 4711, 100, 30, time.monotonic)
    window.listen()
    window.kill("a test")
    outcome = finished(window)
    assert (outcome.status, outcome.cut_short) == (-signal.SIGKILL, "a test")
    child = int(outcome.said)
    deadline = time.monotonic() + 5
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _alive(child)


def test_output_without_end_is_not_kept(tmp_path: Path) -> None:
    window = Window(fake(tmp_path, "say('x' * 1_000_000)\nsay('Samples: 3 Errors: 2')"), 4711, 100, 30, time.monotonic)
    outcome = finished(window)
    assert len(outcome.said) <= 1 << 16
    assert outcome.counts() == (3, 2)


def test_what_cannot_be_started_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Window(tmp_path / "missing", 4711, 100, 3, time.monotonic)


def test_origin_lies_between_start_and_writing() -> None:
    def outcome(spawned: float, ended: float) -> Outcome:
        return Outcome(1, 100, 0, "", b"", spawned, spawned + 0.01, ended, 0.0)

    assert outcome(100, 101.5).origin(1.0) == pytest.approx(100, abs=0.002)  # heard of late: the start counts
    assert outcome(100, 101.0001).origin(1.0) == pytest.approx(100.0001)  # cannot have begun after that


def test_no_py_spy_survives_kill_9_of_its_owner(tmp_path: Path) -> None:
    binary = find_binary()
    assert binary is not None
    with running("stacks_flip.py") as (pid, _):
        for _ in range(5):
            command = [sys.executable, "-c", OWNER, str(binary), str(pid)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=_importable()) as owner:
                assert owner.stdout is not None
                child = int(owner.stdout.readline())
                assert _alive(child)
                owner.kill()
            deadline = time.monotonic() + 1
            while _alive(child) and time.monotonic() < deadline:
                time.sleep(0.005)
            assert not _alive(child)


def _importable() -> dict[str, str]:
    return dict(os.environ, PYTHONPATH=str(Path(__file__).parents[2]))


def _alive(pid: int) -> bool:
    """Dead means gone or a zombie, which a container's first process may never reap."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
