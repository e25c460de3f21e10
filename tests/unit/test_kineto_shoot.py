"""Recording a polling process as another user, in another network, in another file system: with a client that is
not torch."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.errors import SnapshotError
from gputop.snapshot.kineto import detect, directory, route, shoot
from gputop.snapshot.kineto.detect import Library, Torch
from gputop.snapshot.kineto.request import Options
from gputop.snapshot.kineto.route import GDB, READY, SAMPLED, Policy, Route
from gputop.snapshot.kineto.shoot import Trace
from tests.fakes import shots

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user or enter namespaces")
CLIENT = Path(__file__).parents[1] / "fakes" / "kineto_client.py"
NOBODY = 65534


def wait(until: float) -> bool:
    time.sleep(max(0.0, until - time.monotonic()))
    return True


class Client:
    """The process, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def says(self, line: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == line + "\n"

    def poll_in(self, where: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(where + "\n")
        self.process.stdin.flush()
        self.says("bound")


@contextmanager
def client(uid: int = 0, around: Sequence[str] = ()) -> Iterator[Client]:
    command = [*around, sys.executable, str(CLIENT), str(uid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            made = Client(process)
            made.says("ready")
            yield made
        finally:
            process.kill()


def record(polling: Client, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """Record it as if torch were mapped in it; return its trace, closed."""
    where = detect.polling(polling.pid)
    torch = Torch("2.13.0", Library(0, ""), None, None, where, False)
    monkeypatch.setattr(route, "torch_in", lambda pid: torch)
    helpers: set[int] = set()
    process = shots.process(polling.pid)
    (trace,) = shoot.record(
        (process,), Policy(), Options(0.1), wait, lambda sentence: None, lambda question: False, helpers
    )
    assert helpers == set()
    assert trace.file is not None
    with trace.file:
        assert b"aten::mm" in trace.file.read()
    polling.says("done")
    return trace


@pytest.mark.parametrize("uid", [0, pytest.param(NOBODY, marks=ROOT)])
def test_in_a_directory_of_ours(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    with client(uid) as polling:
        shared = directory.make(polling.pid)
        try:
            assert os.stat(shared.inside).st_uid == (uid or os.geteuid())
            polling.poll_in(shared.inside)
            record(polling, monkeypatch)
            assert [name for name in os.listdir(shared.inside) if not name.startswith("dynoconfigclient")] == []
        finally:
            shared.close()


def test_by_the_abstract_name(monkeypatch: pytest.MonkeyPatch) -> None:
    if "@dynolog" in Path("/proc/net/unix").read_text():
        pytest.skip("a real dynolog runs here")
    with client() as polling:
        polling.poll_in("")
        record(polling, monkeypatch)


def namespaces(*options: str) -> list[str]:
    """Return the command that runs another in new namespaces; skip where that is not possible."""
    if subprocess.run(["unshare", *options, "true"], capture_output=True).returncode != 0:
        pytest.skip("namespaces cannot be made here")
    return ["unshare", *options]


@ROOT
def test_in_another_network_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    with client(NOBODY, namespaces("--net")) as polling:
        assert not detect.same_namespace(polling.pid, "net")
        polling.poll_in("")
        record(polling, monkeypatch)


@ROOT
@pytest.mark.skipif(sys.prefix.startswith("/tmp/"), reason="the test hides /tmp, and with it this Python")
def test_in_another_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    around = [*namespaces("--mount"), "sh", "-c", 'mount -t tmpfs none /tmp && chmod 1777 /tmp && exec "$@"', "sh"]
    with client(NOBODY, around) as polling:
        shared = directory.make(polling.pid)
        try:
            assert not os.path.exists(shared.inside), "it is in the target's /tmp, not in ours"
            polling.poll_in(shared.inside)
            record(polling, monkeypatch)
        finally:
            shared.close()
        assert os.listdir(f"/proc/{polling.pid}/root/tmp") == []


def trace(pid: int, data: bytes | None, failure: str = "") -> Trace:
    return Trace(shots.process(pid), pid, io.BytesIO(data) if data is not None else None, failure)


def test_ranks_are_switched_on_but_neither_launchers_nor_loader_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    root = replace(shots.process(1), cmdline=("python", "-m", "torch.distributed.run"))
    ranks = [replace(shots.process(pid), ppid=1) for pid in (2, 3)]
    worker = replace(shots.process(4), ppid=2)
    kinds = dict.fromkeys((1, 2, 3, 4), GDB)
    monkeypatch.setattr(
        route, "availability", lambda process, _: Route(kinds[process.pid], "", kinds[process.pid] == GDB)
    )
    processes = (root, *ranks, worker)
    assert [process.pid for process, _ in route.alike(processes, GDB, Policy())] == [2, 3]
    assert route.best(processes, Policy())[0].pid == 2, "the launcher comes last"
    kinds[3] = READY
    assert route.best(processes, Policy())[0].pid == 3
    kinds.update(dict.fromkeys((1, 2, 3, 4), SAMPLED))
    assert route.best((shots.process(2), worker), Policy())[0].pid == 2, "the target where nothing can be done"


WORKED, IDLE = b'{"traceEvents": [{"cat": "cpu_op"}]}', b'{"traceEvents": []}'


def test_launcher_that_does_nothing_with_torch_is_left_out() -> None:
    found = shoot._useful([trace(1, IDLE), trace(2, WORKED), trace(3, None, "the program ended")])
    assert [one.process.pid for one in found] == [2, 3]
    assert found[0].file is not None
    assert found[0].file.read() == WORKED, "read from its start"


def test_an_idle_process_alone_keeps_its_trace() -> None:
    assert len(shoot._useful([trace(1, IDLE)])) == 1


def test_no_trace_at_all_is_an_error() -> None:
    with pytest.raises(SnapshotError, match="the program ended"):
        shoot._useful([trace(1, None, "the program ended")])
