"""A launched program runs as it would without gputop, whatever becomes of gputop."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gputop import config
from gputop.errors import CommandNotStartedError, GputopError, ending
from gputop.target.describe import describe
from gputop.target.launch import Launched, launch

_PR_SET_PTRACER = 0x59616D61

RECORD_PRCTL = """
#include <stdio.h>
#include <stdlib.h>
int prctl(int option, unsigned long value) {
    FILE *log = fopen(getenv("PRCTL_LOG"), "a");
    fprintf(log, "%x %lu\\n", option, value);
    fclose(log);
    return 0;
}
"""


@pytest.fixture
def started() -> Iterator[list[Launched]]:
    """Collect what a test launched; none of it outlives the test."""
    programs: list[Launched] = []
    yield programs
    for program in programs:
        program.terminate(grace=0.0)


def ended(*command: str) -> tuple[int, str]:
    """Run a command to its end; returns its exit code and what it printed."""
    program = launch(command)
    return program.wait(), program.output.read_text(errors="replace")


def appears(path: Path, text: str) -> str:
    """Wait until a file holds a text and return its content."""
    deadline = time.monotonic() + 20
    while text not in (content := path.read_text()):
        assert time.monotonic() < deadline, content
        time.sleep(0.01)
    return content


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
)
def test_exit_codes_pass_through(script: str, code: int) -> None:
    assert ended("sh", "-c", script) == (code, "")


@pytest.mark.parametrize(
    ("script", "ended_by", "words"),
    [
        ("exit 139", 0, "exited with code 139"),
        ("kill -SEGV $$", signal.SIGSEGV, "ended by signal 11 (SIGSEGV)"),
        ("exit 7", 0, "exited with code 7"),
    ],
)
def test_a_signal_is_told_from_a_code_of_the_same_number(script: str, ended_by: int, words: str) -> None:
    program = launch(["sh", "-c", script])
    code = program.wait()
    assert program.ended_by == ended_by
    assert ending(code, program.ended_by) == words


def test_a_code_that_may_mean_a_signal_is_a_question() -> None:
    told = {code: ending(code, None) for code in (1, 128, 139, 255)}
    assert told == {
        1: "exited with code 1",
        128: "exited with code 128",
        139: "exited with code 139 (128 + SIGSEGV?)",
        255: "exited with code 255",
    }
    assert ending(128 + 40, 40) == "ended by signal 40"


def test_what_ended_a_running_program_is_not_known_yet(started: list[Launched]) -> None:
    started.append(launch(["sleep", "60"]))
    assert started[0].ended_by is None


def test_the_description_after_launch_is_the_programs(started: list[Launched]) -> None:
    started.append(launch(["sleep", "60"]))
    info = describe(started[0].pid)
    assert (info.name, info.cmdline, info.ppid) == ("sleep", ("sleep", "60"), os.getpid())


def test_a_program_that_ended_at_once_is_described_by_what_was_asked_for() -> None:
    program = launch(["sh", "-c", "exit 3", "\x1b[2J"])
    assert program.ends_within(20)
    info = program.describe()
    assert (info.pid, info.name, info.cmdline) == (program.pid, "sh", ("sh", "-c", "exit 3", "�[2J"))
    assert info.started_unix == pytest.approx(time.time(), abs=30)
    assert program.wait() == 3
    assert program.describe().pid == program.pid


def test_a_program_sees_no_descriptor_of_ours() -> None:
    leaked = os.dup2(0, 77, inheritable=True)
    try:
        program = launch(["ls", "-l", "/proc/self/fd"])
        assert program.wait() == 0
    finally:
        os.close(leaked)
    links = dict(line.split()[-3::2] for line in program.output.read_text().splitlines()[1:])
    del links["3"]  # the listing's own
    assert links == {"0": "/dev/null", "1": str(program.output), "2": str(program.output)}


def test_a_program_has_its_own_session_and_no_signal_ignored_or_blocked() -> None:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        _, printed = ended("cat", "/proc/self/status", "/proc/self/stat")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    *status, line = printed.splitlines()
    fields = dict(line.split(":\t", 1) for line in status)
    assert int(fields["SigBlk"], 16) == 0
    assert int(fields["SigIgn"], 16) & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)) == 0
    pid, _, _, _, group, session, terminal = line.split()[:7]
    assert (group, session, terminal) == (pid, pid, "0")


def test_the_environment_is_the_users(tmp_path: Path) -> None:
    code = "from gputop.target.launch import launch; program = launch(['env', '-0']); program.wait()\n"
    code += "import sys; sys.stdout.buffer.write(program.output.read_bytes())"
    given = {"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(tmp_path), "ODD": "a\n\udcff", "PYTHONPATH": os.getcwd()}
    printed = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, check=True).stdout
    seen = dict(os.fsdecode(pair).split("=", 1) for pair in printed.split(b"\0") if pair)
    assert seen == given | {"PYTHONUNBUFFERED": "1"}


def test_the_user_decides_about_buffering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "")
    assert ended("sh", "-c", "echo [$PYTHONUNBUFFERED]") == (0, "[]\n")


def test_variables_can_be_added() -> None:
    program = launch(["sh", "-c", "echo $KINETO_USE_DAEMON"], environ={"KINETO_USE_DAEMON": "1"})
    assert (program.wait(), program.output.read_text()) == (0, "1\n")


def test_the_first_word_stays_as_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    code, printed = ended("python", "-I", "-S", "-c", "print(open('/proc/self/cmdline').read().split('\\0')[0])")
    assert (code, printed) == (0, "python\n")


def test_a_script_without_interpreter_line_is_read_by_the_shell(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo run with $1\nexit 4\n")
    script.chmod(0o755)
    assert ended(str(script), "x y") == (4, "run with x y\n")


def test_paths_are_searched_as_a_shell_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, mode in (("first", 0o644), ("second", 0o755)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").write_text("#!/bin/sh\necho found\n")
        (tmp_path / folder / "tool").chmod(mode)
    monkeypatch.setenv("PATH", f"{tmp_path}/first:{tmp_path}/second:{os.environ['PATH']}")
    assert ended("tool") == (0, "found\n")


@pytest.mark.parametrize(
    ("command", "code", "what", "remedy"),
    [
        ("no-such-tool", 127, "not found", "spelling"),
        ("./no-such-tool", 127, "not found", "spelling"),
        ("", 127, "not found", "spelling"),
        ("infer.py", 127, "not found", "gputop -- python infer.py"),
        ("here", 127, "not found", "gputop -- ./here"),
        ("--json", 127, "not found", "before the --"),
        ("./infer.py", 126, "not marked as executable", "gputop -- python ./infer.py"),
        ("./data", 126, "not marked as executable", "chmod +x ./data"),
        ("./folder", 126, "a directory", ""),
        ("./orphan", 126, "first line", ""),
    ],
)
def test_commands_that_cannot_be_started(
    command: str, code: int, what: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name, mode in (("infer.py", 0o644), ("data", 0o644), ("here", 0o755), ("orphan", 0o755)):
        (tmp_path / name).write_text("#!/no/such/interpreter\n")
        (tmp_path / name).chmod(mode)
    with pytest.raises(CommandNotStartedError) as caught:
        launch([command])
    assert caught.value.exit_code == code
    assert what in caught.value.what
    assert remedy in caught.value.remedy


def test_output_is_private_in_order_and_never_blocks() -> None:
    script = "i=0; while [ $i -lt 2000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done; head -c 1000000 /dev/zero"
    program = launch(["sh", "-c", script])
    assert program.wait() == 0
    assert stat.S_IMODE(program.output.stat().st_mode) == 0o600
    assert program.output.parent == config.state_dir()
    content = program.output.read_bytes()
    expected = "".join(f"out {i}\nerr {i}\n" for i in range(2000)).encode()
    assert content == expected + bytes(1_000_000)


def test_an_output_file_of_the_users_is_emptied_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("old")
    path.chmod(0o644)
    launch(["echo", "new"], output=path).wait()
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new\n", 0o644)


def test_output_that_cannot_be_written_is_said_before_anything_starts(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "missing" / "log", tmp_path):
        with pytest.raises(GputopError, match="cannot write the program's output"):
            launch(["touch", str(tmp_path / "started")], output=path)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(GputopError, match="it is a pipe"):
        launch(["touch", str(tmp_path / "started")], output=tmp_path / "pipe")
    os.close(reader)
    assert not (tmp_path / "started").exists()


def _output(name: str, days_ago: float) -> Path:
    path = config.state_dir() / name
    path.write_text("printed")
    os.utime(path, (time.time() - days_ago * 86400,) * 2)
    return path


def test_old_output_files_are_forgotten() -> None:
    month_old = [_output(f"output-20200101-0000{number:02}-1.log", 31) for number in range(3)]
    days_old = [_output(f"output-20200102-0000{number:02}-1.log", 30 - number) for number in range(1, 30)]
    launch(["true"]).wait()
    assert not any(path.exists() for path in month_old)
    assert [path.exists() for path in days_old] == [False] * 10 + [True] * 19  # and the new one


def test_output_files_in_use_and_files_of_others_are_not_forgotten(tmp_path: Path, started: list[Launched]) -> None:
    """A program that is silent for a month has its file open: what it prints then shall not be lost."""
    program = launch(["sleep", "600"])
    started.append(program)
    output = program.output.rename(config.state_dir() / "output-20200101-000000-3.log")
    old = (time.time() - 40 * 86400,) * 2
    os.utime(output, old)
    theirs = [_output(name, 40) for name in ("output-mine.log", "output-20200101-000000-1.log.gz", "trace.json")]
    precious = tmp_path / "precious"
    precious.write_text("precious")
    link = config.state_dir() / "output-20200101-000000-2.log"
    link.symlink_to(precious)
    os.utime(link, old, follow_symlinks=False)
    launch(["true"]).wait()
    assert output.exists()
    assert all(path.exists() for path in theirs)
    assert link.is_symlink()
    assert precious.read_text() == "precious"
    program.terminate()
    launch(["true"]).wait()
    assert not output.exists()


def test_an_interrupt_reaches_the_whole_job(started: list[Launched]) -> None:
    # A shell runs its trap only once the child in the foreground has ended, which the signal must reach too.
    program = launch(["sh", "-c", "trap 'exit 5' INT; sh -c 'echo ready; exec sleep 600'; exit 0"])
    started.append(program)
    appears(program.output, "ready")
    program.forward(signal.SIGINT)
    assert program.ends_within(20)
    assert program.wait() == 5


def test_a_request_to_terminate_reaches_the_program_only(started: list[Launched]) -> None:
    script = (
        "trap 'kill -0 $child && echo worker lives; kill $child; exit 6' TERM\nsleep 60 & child=$!\necho ready; wait"
    )
    program = launch(["sh", "-c", script])
    started.append(program)
    appears(program.output, "ready")
    assert program.terminate() == 6
    assert "worker lives" in program.output.read_text()


def test_what_ignores_a_request_is_killed_with_all_it_left(started: list[Launched]) -> None:
    program = launch(["sh", "-c", "trap '' TERM; sleep 60 & echo $!; while :; do sleep 0.02; done"])
    started.append(program)
    child = int(appears(program.output, "\n"))
    assert program.terminate(grace=0.1) == 137
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_a_stopped_program_can_be_terminated(started: list[Launched]) -> None:
    program = launch(["sleep", "60"])
    started.append(program)
    os.kill(program.pid, signal.SIGSTOP)
    assert program.terminate() == 143


def test_a_handler_may_forward_while_its_own_thread_polls(started: list[Launched]) -> None:
    program = launch(["sh", "-c", "trap 'echo got' USR1; echo ready; while :; do sleep 0.01; done"])
    started.append(program)
    appears(program.output, "ready")
    before = signal.signal(signal.SIGUSR1, lambda number, frame: program.forward(number))
    main = threading.get_ident()

    def send() -> None:
        for _ in range(500):
            signal.pthread_kill(main, signal.SIGUSR1)

    sender = threading.Thread(target=send)
    try:
        sender.start()
        while sender.is_alive():
            assert program.poll() is None
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)
    appears(program.output, "got")


def test_signals_after_the_end_hit_nobody() -> None:
    program = launch(["true"])
    assert program.ends_within(20)
    assert psutil.Process(program.pid).status() == psutil.STATUS_ZOMBIE  # keeps its number
    program.forward(signal.SIGKILL)
    assert (program.wait(), program.terminate(), program.poll()) == (0, 0, 0)
    program.close()


def test_the_program_survives_gputop_killed(tmp_path: Path) -> None:
    for name in ("go", "result"):
        os.mkfifo(tmp_path / name)
    script = f"read word < {tmp_path}/go; echo printed after; echo $((6 * 7)) $word > {tmp_path}/result"
    code = f"import sys, time; from gputop.target.launch import launch\nprogram = launch(['sh', '-c', {script!r}])\n"
    code += "print(program.output, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as gputop:
        assert gputop.stdout is not None
        output = Path(gputop.stdout.readline().strip())
        gputop.kill()
    (tmp_path / "go").write_text("still here\n")
    assert (tmp_path / "result").read_text() == "42 still here\n"
    assert output.read_text() == "printed after\n"


def test_the_program_names_gputop_as_its_tracer(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc to record the call")
    (tmp_path / "record.c").write_text(RECORD_PRCTL)
    library = tmp_path / "record.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "record.c")], check=True)
    launch(["true"], environ={"LD_PRELOAD": str(library), "PRCTL_LOG": str(tmp_path / "log")}).wait()
    assert f"{_PR_SET_PTRACER:x} {os.getpid()}" in (tmp_path / "log").read_text().splitlines()
