"""What is looked for in a target, shared with it, and put into a launched one."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.errors import SnapshotError
from gputop.model import ProcessInfo
from gputop.snapshot.kineto import detect, directory, enable, exports, route
from gputop.snapshot.kineto.detect import Library, Torch
from gputop.snapshot.kineto.directory import Shared
from gputop.snapshot.kineto.route import GDB, INTERPRETER, READY, SAMPLED, Policy
from gputop.target.python import python_version

ME = os.getpid()


@pytest.fixture
def shared() -> Iterator[Shared]:
    made = directory.make(ME)
    yield made
    made.close()


# ------------------------------------------------------------------------------------------------ directories


def test_directory_is_private_and_goes_with_all_in_it() -> None:
    made = directory.make_here()
    assert os.stat(made.inside).st_mode & 0o777 == 0o700
    assert made.inside.startswith("/tmp/"), "torch 2.14 writes nowhere else"
    assert len(made.inside) <= 54, "Kineto takes no longer one"
    assert made.write("a", "text") == f"{made.inside}/a"
    assert os.stat(f"{made.inside}/a").st_mode & 0o777 == 0o600
    made.close()
    assert not os.path.exists(made.inside)


def test_what_the_target_wrote_is_opened_only_when_it_is_a_file(shared: Shared) -> None:
    shared.write("good", "text")
    os.symlink("/etc/passwd", f"{shared.inside}/link")
    os.mkfifo(f"{shared.inside}/pipe")
    with os.fdopen(shared.open("good")) as file:
        assert file.read() == "text"
    for name in ("link", "pipe", "missing"):
        with pytest.raises(OSError):  # noqa: PT011 - ELOOP, EPERM or ENOENT
            shared.open(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's file")
def test_file_of_another_user_is_refused(shared: Shared) -> None:
    shared.write("theirs", "text")
    os.chown(f"{shared.inside}/theirs", 65534, 65534)
    with pytest.raises(PermissionError, match="not a file of the target's user"):
        shared.open("theirs")


def test_directory_that_others_may_write_to_is_not_used() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        os.chmod(path, 0o777)
        with pytest.raises(PermissionError, match="others"):
            directory.reach(ME, path)
        os.chmod(path, 0o700)
        directory.reach(ME, path).close(keep=True)


def test_sweep_takes_the_abandoned_and_leaves_what_is_used() -> None:
    held, polled, abandoned = directory.make_here(), directory.make_here(), directory.make_here()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.bind(f"{polled.inside}/dynoconfigclient-1")
        polled.close(keep=True)
        abandoned.close(keep=True)
        directory.sweep()
        assert [os.path.exists(one.inside) for one in (held, polled, abandoned)] == [True, True, False]
    held.close()
    directory.sweep()
    assert not os.path.exists(polled.inside)


# ------------------------------------------------------------------------------------- a launched program's own


def test_users_kineto_settings_stay_in_force(shared: Shared, tmp_path: Path) -> None:
    (tmp_path / "mine.conf").write_text("CUPTI_BUFFER=1\nON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS = 60\n")
    variables = directory.polling_variables(
        shared, {"KINETO_CONFIG": str(tmp_path / "mine.conf"), "KINETO_LOG_LEVEL": "1"}
    )
    assert variables["KINETO_LOG_LEVEL"] == "1"
    assert variables["KINETO_IPC_SOCKET_DIR"] == shared.inside
    lines = Path(variables["KINETO_CONFIG"]).read_text().split()
    assert lines == ["CUPTI_BUFFER=1", "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1"]


def test_quiet_unless_the_user_wants_to_hear(shared: Shared) -> None:
    assert directory.polling_variables(shared, {})["KINETO_LOG_LEVEL"] == "5"


def launched(shared: Shared, tmp_path: Path, script: str, version: str = "2.13.0", always: bool = False) -> str:
    """Run a Python program as gputop launches it, with a stand-in for torch on its path; return what it prints."""
    (tmp_path / "torch").mkdir(exist_ok=True)
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemError('nobody may import torch before the program')")
    (tmp_path / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
    environ = {"PYTHONPATH": str(tmp_path), "PATH": os.defpath}
    environ |= directory.environment(shared, environ, always)
    done = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=20)
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout.strip()


ASK = "import os; print(os.environ.get('KINETO_USE_DAEMON'), os.environ.get('KINETO_IPC_SOCKET_DIR'))"


@pytest.mark.parametrize(
    ("version", "always", "polls"),
    [
        ("2.13.0+cpu", False, True),
        ("2.10.1", False, True),
        ("2.9.1", False, False),
        ("2.9.1", True, True),
        ("?", False, False),
    ],
)
def test_torch_polls_where_it_is_sound(shared: Shared, tmp_path: Path, version: str, always: bool, polls: bool) -> None:
    wanted = f"1 {shared.inside}" if polls else "None None"
    assert launched(shared, tmp_path, ASK, version, always) == wanted


def test_programs_own_start_up_file_still_runs(shared: Shared, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.mine = 'ran'")
    script = "import sys, sitecustomize; print(mine, sitecustomize.__file__, any('agent' in p for p in sys.path))"
    assert launched(shared, tmp_path, script) == f"ran {tmp_path}/sitecustomize.py False"


def test_agent_hides_no_module_of_the_program() -> None:
    names = {name for name in os.listdir(directory.AGENT) if name != "__pycache__"}
    assert names == {"sitecustomize.py"}


def test_children_are_prepared_too(shared: Shared, tmp_path: Path) -> None:
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ASK!r}], check=True)"
    assert launched(shared, tmp_path, script) == f"1 {shared.inside}"


GUARDED = """if True:
    import atexit, os
    flag = os.environ["GPUTOP_AGENT_DIRECTORY"] + f"/tracing-{os.getpid()}"
    atexit.register(print, "own handlers ran", flush=True)
    open(flag, "w").write(%s)
"""


def guarded(shared: Shared, deadline: str) -> subprocess.Popen[str]:
    environ = {"PATH": os.defpath} | directory.environment(shared, {}, always=False)
    return subprocess.Popen([sys.executable, "-c", GUARDED % deadline], env=environ, stdout=subprocess.PIPE, text=True)


def test_exit_waits_until_the_trace_is_whole(shared: Shared) -> None:
    with guarded(shared, "'99999999999'") as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "own handlers ran\n"
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.3)
        shared.remove(f"tracing-{program.pid}")
        assert program.wait(5) == 0


def test_exit_waits_for_the_trace_alone_when_gputop_is_gone(shared: Shared) -> None:
    with guarded(shared, "'99999999999 shot-1.json'") as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "own handlers ran\n"
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.3)
        shared.write("shot-1.json", "{}")
        assert program.wait(5) == 0


@pytest.mark.parametrize("deadline", ["str(__import__('time').time() + 0.2)", "'nonsense'", "''"])
def test_exit_waits_no_longer_than_the_flag_says(shared: Shared, deadline: str) -> None:
    with guarded(shared, deadline) as program:
        assert program.wait(10) == 0


# -------------------------------------------------------------------------------------------- looking at a target


def test_polling_is_seen_by_the_sockets(shared: Shared) -> None:
    assert detect.polling(ME) is None
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.bind(f"{shared.inside}/dynoconfigclient-1")
        assert detect.polling(ME) == shared.inside
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.bind(b"\0dynoconfigclient-1\0")
        assert detect.polling(ME) == ""


@pytest.mark.parametrize(("name", "value"), [("", 0x1505), ("printf", 0x156B2BB8), ("syscall", 0xBAC212A0)])
def test_gnu_hash(name: str, value: int) -> None:
    assert exports.gnu_hash(name.encode()) == value


def test_addresses_are_where_the_loader_put_them() -> None:
    maps = Path("/proc/self/maps").read_text()
    line = next(line for line in maps.splitlines() if "/libc.so.6" in line or "/libc-2" in line)
    library = Library(int(line.split("-")[0], 16), line.split(None, 5)[5])
    names = ("malloc", "free", "setenv")
    libc = ctypes.CDLL(None)
    wanted = {name: ctypes.cast(getattr(libc, name), ctypes.c_void_p).value for name in names}
    assert exports.addresses(ME, library, names) == wanted
    assert exports.addresses(ME, library, ("malloc", "no_such_function")) is None
    assert exports.addresses(ME, Library(0, "/etc/passwd"), names) is None


DEFAULT = Policy()
LIBRARY = Library(0x1000, "/site/torch/lib/libtorch_cpu.so")


def chosen(
    monkeypatch: pytest.MonkeyPatch,
    version: str = "2.13.0",
    python: str = "3.12.3",
    polling: str | None = None,
    policy: Policy = DEFAULT,
    gdb: str | None = "/usr/bin/gdb",
    libc: Library | None = LIBRARY,
) -> route.Route:
    torch = Torch(version, LIBRARY, libc, LIBRARY, polling, True)
    monkeypatch.setattr(route, "torch_in", lambda pid: torch)
    monkeypatch.setattr("shutil.which", lambda name: gdb)
    return route.availability(ProcessInfo(ME, 1, 0.0, ("python",), python=python), policy)


def test_each_route_is_said_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = chosen(monkeypatch, polling="/tmp/gputop-0-ab")
    assert (ready.kind, ready.needs_consent) == (READY, False)
    assert ready.sentence == "torch trace: ready (torch 2.13.0)"
    by_script = chosen(monkeypatch, python="3.14.0")
    assert (by_script.kind, by_script.needs_consent) == (INTERPRETER, True)
    by_gdb = chosen(monkeypatch)
    assert (by_gdb.kind, by_gdb.needs_consent) == (GDB, True)
    assert "0.1 s" in by_gdb.sentence


@pytest.mark.parametrize(
    ("version", "policy", "kind", "word"),
    [
        ("2.8.0", Policy(), SAMPLED, "pytorch#163545"),
        ("2.8.0", Policy("on"), GDB, "gdb"),
        ("2.4.1", Policy("on"), SAMPLED, "cannot be traced"),
        ("2.13.0", Policy("off"), SAMPLED, "switched off"),
        ("2.13.0", Policy(inject=False), SAMPLED, "--no-inject"),
        ("", Policy(), SAMPLED, "cannot be traced"),
    ],
)
def test_version_and_wishes_decide(
    monkeypatch: pytest.MonkeyPatch, version: str, policy: Policy, kind: str, word: str
) -> None:
    found = chosen(monkeypatch, version, policy=policy)
    assert found.kind == kind
    assert word in found.sentence
    assert found.remedy


def test_without_gdb_or_glibc_the_trace_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "gdb is not installed" in chosen(monkeypatch, gdb=None).sentence
    assert "not glibc" in chosen(monkeypatch, libc=None).sentence


def test_a_polling_target_is_used_whatever_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(monkeypatch, "2.6.0", polling="", policy=Policy(inject=False)).kind == READY


def test_processes_without_torch_or_gone() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as program:
        process = ProcessInfo(program.pid, 1, 0.0, ("cat",))
        assert "no torch" in route.availability(process, Policy()).sentence
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
        gone = ProcessInfo(ended.pid, 1, 0.0, ("python",))
    assert "ended" in route.availability(gone, Policy()).sentence


# ----------------------------------------------------------------------------------- switching on, without torch


def test_refusal_of_the_interpreter_is_told(monkeypatch: pytest.MonkeyPatch, shared: Shared) -> None:
    monkeypatch.setattr(
        enable, "_REMOTE_EXEC", "raise RuntimeError('Remote debugging is not enabled in the remote process')"
    )
    with pytest.raises(SnapshotError, match="Remote debugging is not enabled") as refused:
        enable.with_interpreter(ME, shared, {}, lambda until: True)
    assert "start it with: gputop --" in refused.value.remedy


def test_main_thread_that_never_comes_round_is_told(monkeypatch: pytest.MonkeyPatch, shared: Shared) -> None:
    monkeypatch.setattr(enable, "_REMOTE_EXEC", "pass")
    monkeypatch.setattr(enable, "PATIENCE_S", 0.2)
    with pytest.raises(SnapshotError, match="main thread is inside native code"):
        enable.with_interpreter(ME, shared, {}, wait)


def wait(until: float) -> bool:
    time.sleep(max(0.0, until - time.monotonic()))
    return True


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could run something as another user")
def test_as_root_nothing_runs_as_root_for_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enable, "owner", lambda pid: (65534, 65534))
    printed = enable._run_as_owner(ME, ["/usr/bin/id"]).stdout
    assert "uid=65534" in printed
    assert "(root)" not in printed


def test_gdb_script_does_nothing_at_any_other_stop() -> None:
    at = {"malloc": 1, "Py_AddPendingCall": 2, "PyRun_SimpleString": 3}
    script = list(enable._gdb_script(at, 'a"b\\n'))
    before = script[: script.index("else")]
    assert not any("((" in line for line in before)
    assert "set {char [6]} $text = {97, 34, 98, 92, 110, 0}" in script
    assert script[-2:] == ["detach", ""]


def test_python_of_this_process_is_told() -> None:
    version = python_version(ME, os.readlink("/proc/self/exe"), ())
    assert version is not None
    assert route.python_release(ProcessInfo(ME, 1, 0.0, (), python=version)) == sys.version_info[:2]
