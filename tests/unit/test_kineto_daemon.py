"""The daemon's side of Kineto's protocol, against a client that is not torch."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.errors import SnapshotError
from gputop.snapshot.kineto import client as client_module
from gputop.snapshot.kineto import daemon as protocol
from gputop.snapshot.kineto.client import DaemonProcess, Event
from gputop.snapshot.kineto.request import Options

ME = os.getpid()
FREE, BUSY = 3, 1


class Target:
    """Asks as torch does: a datagram socket bound beside the daemon's."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"{directory}/dynoconfigclient-{time.monotonic_ns()}")

    def ask(self, bits: int, kind: str = "req") -> None:
        body = struct.pack("=iiq2i", bits, 2, 0, 1, os.getppid())  # the pids it claims are not believed
        self.send(protocol.message(kind, body))

    def send(self, data: bytes) -> None:
        self.socket.sendto(data, f"{self.directory}/dynolog")

    def answer(self, timeout: float = 5.0) -> str | None:
        self.socket.settimeout(timeout)
        try:
            data, source = self.socket.recvfrom(65536)
        except TimeoutError:
            return None
        assert source == f"{self.directory}/dynolog", "another name would end torch"
        size, kind = protocol.HEADER.unpack_from(data)
        assert kind.rstrip(b"\0") == b"req"
        assert size == len(data) - protocol.HEADER.size
        return data[protocol.HEADER.size :].decode()


@pytest.fixture
def directory() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="gputop-test-", dir="/tmp") as path:
        yield path


@pytest.fixture
def daemon(directory: str) -> Iterator[DaemonProcess]:
    process = DaemonProcess(directory, os.geteuid(), os.getegid())
    yield process
    process.close()


@pytest.fixture
def target(directory: str) -> Iterator[Target]:
    asking = Target(directory)
    yield asking
    asking.socket.close()


def heard(daemon: DaemonProcess, enough: Callable[[list[Event]], bool]) -> list[Event]:
    """Collect events until there are enough."""
    events: list[Event] = []
    deadline = time.monotonic() + 10
    while not enough(events):
        assert time.monotonic() < deadline, events
        events += daemon.events(0.5)
    return events


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


def test_silent_without_a_request_then_one_answer(daemon: DaemonProcess, target: Target) -> None:
    target.ask(FREE)
    (asked,) = heard(daemon, lambda events: len(events) == 1)
    assert (asked.kind, asked.pid, asked.free) == ("asked", ME, True)
    daemon.request(ME, "ACTIVITIES_DURATION_MSECS=1000\n")
    ask_until_sent(daemon, target)
    assert target.answer() == "ACTIVITIES_DURATION_MSECS=1000\n"
    target.ask(FREE)
    heard(daemon, lambda events: kinds(events) == ["asked"])
    assert target.answer(0.01) is None, "an answer that nobody waits for shifts all later ones"


def ask_until_sent(daemon: DaemonProcess, target: Target) -> None:
    """Ask as often as it takes: the daemon learns of a request by another way than of a question."""
    events: list[Event] = []
    deadline = time.monotonic() + 10
    while "sent" not in kinds(events):
        assert time.monotonic() < deadline
        target.ask(FREE)
        events += heard(daemon, lambda events: bool(events))
        events += daemon.events(0.05)


def test_busy_target_gets_its_request_when_it_is_free(daemon: DaemonProcess, target: Target) -> None:
    daemon.request(ME, "X=1\n")
    for _ in range(3):
        target.ask(BUSY)
    events = heard(daemon, lambda events: len(events) == 3)
    assert [event.free for event in events] == [False] * 3
    ask_until_sent(daemon, target)
    assert target.answer() == "X=1\n"


def test_request_that_is_taken_back_is_not_given(daemon: DaemonProcess, target: Target) -> None:
    daemon.request(ME, "X=1\n")
    daemon.withdraw(ME)
    daemon.request(ME, "Y=1\n")  # orders are taken in turn: the answer shows that all three were
    ask_until_sent(daemon, target)
    assert target.answer() == "Y=1\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unbound:
        taking = protocol.Daemon(unbound, 0)
        taking.order(ME, "X=1\n")
        taking.order(ME, None)
        assert taking.pending == {}


def test_request_is_for_one_process_only(daemon: DaemonProcess, target: Target) -> None:
    daemon.request(ME + 1, "X=1\n")
    for _ in range(3):
        target.ask(FREE)
    assert kinds(heard(daemon, lambda events: len(events) == 3)) == ["asked"] * 3


def test_question_that_waited_too_long_is_not_answered(daemon: DaemonProcess, target: Target) -> None:
    daemon.request(ME, "X=1\n")
    os.kill(daemon.pid, signal.SIGSTOP)
    target.ask(FREE)
    time.sleep(2 * protocol.STALE_S)
    os.kill(daemon.pid, signal.SIGCONT)
    assert kinds(heard(daemon, lambda events: len(events) == 1)) == ["asked"]
    ask_until_sent(daemon, target)
    assert target.answer() == "X=1\n", "the request is kept for the next question"


@pytest.mark.parametrize(
    "data", [b"", b"x", b"\xff" * 39, b"\xff" * 40, protocol.message("req", b"short"), b"\0" * 60_000]
)
def test_nonsense_changes_nothing(daemon: DaemonProcess, target: Target, data: bytes) -> None:
    target.send(data)
    target.ask(FREE)
    assert kinds(heard(daemon, lambda events: len(events) == 1)) == ["asked"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as somebody else")
def test_other_users_are_not_served(daemon: DaemonProcess, directory: str) -> None:
    os.chmod(directory, 0o777)
    os.chmod(f"{directory}/dynolog", 0o777)
    script = (
        "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); "
        "s.bind(sys.argv[1] + '/dynoconfigclient-other'); "
        "s.sendto(bytes.fromhex(sys.argv[2]), sys.argv[1] + '/dynolog'); s.settimeout(0.3);\n"
        "try: s.recv(10); print('answered')\nexcept TimeoutError: print('silent')"
    )
    asking = protocol.message("req", struct.pack("=iiqi", FREE, 1, 0, ME)).hex()
    with subprocess.Popen(
        [sys.executable, "-c", script, directory, asking], stdout=subprocess.PIPE, text=True
    ) as other:
        daemon.request(other.pid, "X=1\n")
        (event,) = heard(daemon, lambda events: len(events) == 1)
        assert (event.kind, event.pid) == ("refused", other.pid)
        assert other.communicate()[0] == "silent\n"


def test_context_question_is_answered_with_a_count(daemon: DaemonProcess, target: Target) -> None:
    target.ask(0, "ctxt")
    target.socket.settimeout(5)
    data = target.socket.recv(100)
    assert data == protocol.message("ctxt", protocol.COUNT.pack(1))


def test_another_daemon_is_not_disturbed(daemon: DaemonProcess, directory: str, target: Target) -> None:
    with pytest.raises(SnapshotError, match="another program already answers") as caught:
        DaemonProcess(directory, os.geteuid(), os.getegid())
    assert "dyno gputrace" in caught.value.remedy
    target.ask(FREE)
    assert kinds(heard(daemon, lambda events: len(events) == 1)) == ["asked"]


def test_abstract_name_of_another_daemon_is_not_disturbed() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dynolog:
        try:
            dynolog.bind(b"\0dynolog\0")
        except OSError:
            pytest.skip("a real dynolog runs here")
        with pytest.raises(SnapshotError, match="another program already answers"):
            DaemonProcess("", os.geteuid(), os.getegid())


def test_stale_socket_is_replaced_and_goes_at_the_end(directory: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        dead.bind(f"{directory}/dynolog")
    DaemonProcess(directory, os.geteuid(), os.getegid()).close()
    assert os.listdir(directory) == []


def test_ends_and_cleans_up_when_gputop_is_killed(directory: str) -> None:
    script = (
        "import sys, time; from gputop.snapshot.kineto.client import DaemonProcess; import os; "
        "d = DaemonProcess(sys.argv[1], os.geteuid(), os.getegid()); print(d.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, directory], stdout=subprocess.PIPE, text=True) as gputop:
        assert gputop.stdout is not None
        pid = int(gputop.stdout.readline())
        assert os.path.exists(f"{directory}/dynolog")
        gputop.kill()
    deadline = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{pid}") or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    assert not os.path.exists(f"{directory}/dynolog")


def test_helper_that_dies_is_an_error_not_a_wait(daemon: DaemonProcess) -> None:
    os.kill(daemon.pid, signal.SIGKILL)
    with pytest.raises(SnapshotError, match="helper"):
        list(daemon.events(5.0))


def test_daemon_script_stands_alone() -> None:
    source = Path(client_module.__file__).with_name("daemon.py").read_text()
    assert "import gputop" not in source
    assert "from gputop" not in source


def test_request_never_asks_for_what_harms_the_target() -> None:
    text = Options(2.5, stacks=True, shapes=True).text("/tmp/gputop-0-ab/shot.json")
    assert dict(line.split("=") for line in text.splitlines()) == {
        "ACTIVITIES_LOG_FILE": "/tmp/gputop-0-ab/shot.json",
        "ACTIVITIES_DURATION_MSECS": "2500",
        "ACTIVITIES_WARMUP_PERIOD_SECS": "0",
        "PROFILE_START_TIME": "0",
        "PROFILE_WITH_STACK": "true",
        "PROFILE_REPORT_INPUT_SHAPES": "true",
    }, "PROFILE_MEMORY would make the target spin for good"
