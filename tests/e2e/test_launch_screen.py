"""A launched program under the screen: what becomes of it in every way to leave, and what is left behind."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.harness import GPUTOP, eventually, kernel_state, with_pyspy
from tests.e2e.tmux import Tmux
from tests.fakes.build import compile_shared, compiler
from tests.fakes.programs import python, running
from tests.fakes.pyspy import fake
from tests.tui.terminal import Terminal

#: Says that it runs by making a file named by its process id, prints, and computes until it is ended or tired.
JOB = """
import os, sys, time
from pathlib import Path
def work():
    end = time.monotonic() + 0.05
    while time.monotonic() < end: sum(range(1000))
print("loss 0.25", flush=True)
Path(sys.argv[1], str(os.getpid())).touch()
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end: work()
sys.exit(5)
"""


@contextmanager
def launched(folder: Path, seconds: float = 60) -> Iterator[list[str]]:
    """Return the command line that launches the job; none of it outlives the test."""
    (folder / "pids").mkdir()
    try:
        yield [*GPUTOP, "--", sys.executable, "-c", JOB, str(folder / "pids"), str(seconds)]
    finally:
        for file in (folder / "pids").iterdir():
            if kernel_state(int(file.name)) not in ("", "Z"):
                os.kill(int(file.name), signal.SIGKILL)


def pid_of(folder: Path) -> int:
    """Return the job's process id once it runs."""
    eventually(lambda: list((folder / "pids").iterdir()))
    return int(next((folder / "pids").iterdir()).name)


def gone(pid: int) -> bool:
    return kernel_state(pid) in ("", "Z")


def test_q_asks_and_does_what_is_answered(tmp_path: Path) -> None:
    with launched(tmp_path) as command, Tmux(tmp_path, command) as tmux:
        tmux.expect("hottest functions", "work", "loss 0.25")
        pid = pid_of(tmp_path)
        for _ in range(2):
            tmux.press("q")
            tmux.expect(f"pid {pid} is still running")
            tmux.press("c")
            eventually(lambda: "is still running" not in tmux.shown())
            assert not gone(pid)
        tmux.press("q")
        tmux.expect("is still running")
        tmux.press("l")
        end = tmux.expect("code=0", f"(pid {pid}) goes on; its output is in")
        eventually(lambda: kernel_state(pid) in ("R", "S"))
        where = re.search(r"output is in (\S+)", end.replace("\n", ""))
        assert where is not None


def test_terminate_ends_it_and_its_own_code_comes_through(tmp_path: Path) -> None:
    with launched(tmp_path) as command, Tmux(tmp_path, command) as tmux:
        tmux.expect("hottest functions")
        pid = pid_of(tmp_path)
        tmux.press("q")
        tmux.expect("is still running")
        tmux.press("e")
        tmux.expect(f"code={128 + signal.SIGTERM}")
        assert gone(pid)


def test_a_program_that_ends_stays_to_be_browsed_and_saved(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    with launched(tmp_path, 2.0) as command, Tmux(tmp_path, ["env", "-C", str(traces), *command]) as tmux:
        shown = tmux.expect("EXITED", "with code 5", "work")
        assert "loss 0.25" in shown
        pid = pid_of(tmp_path)
        tmux.press("Enter")
        tmux.expect("Evidence", "hottest function")
        tmux.press("Escape")
        tmux.expect("hottest functions")
        tmux.press("s")
        tmux.expect("sampled trace:")
        assert [path.name.split(".")[0].rsplit("_")[-1] for path in traces.iterdir()] == [str(pid)]
        tmux.press("q")
        tmux.expect("code=5")


@pytest.mark.parametrize(("number", "lives"), [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGHUP, True)])
@pytest.mark.parametrize("words", ["", "hottest"], ids=["as it starts", "on the screen"])
def test_signals_to_gputop(tmp_path: Path, number: signal.Signals, lives: bool, words: str) -> None:
    with launched(tmp_path) as command, Terminal(command) as terminal:
        pid = pid_of(tmp_path)
        if words:
            terminal.expect(words)
        terminal.process.send_signal(number)
        deadline = time.monotonic() + 10
        while terminal.process.poll() is None and time.monotonic() < deadline:
            terminal.read(0.05)
        assert terminal.process.returncode in ((0, 128 + number) if lives else (128 + signal.SIGTERM,))
        assert gone(pid) != lives
        assert kernel_state(pid) not in ("T", "t")


def test_a_closed_terminal_ends_gputop_and_not_the_program(tmp_path: Path) -> None:
    with launched(tmp_path) as command, Terminal(command) as terminal:
        terminal.expect("hottest")
        pid = pid_of(tmp_path)
        terminal.hang_up()
        terminal.process.wait(6)
        assert kernel_state(pid) in ("R", "S")


#: Prints 100 MB as fast as it can, then what it could read from its standard input.
FLOOD = """
import os, sys
line = b"x" * 99 + bytes([10])
for _ in range(100): os.write(1, line * 10_000)
print("read", repr(sys.stdin.read()))
"""


def test_a_flood_of_output_blocks_nobody_and_is_all_there(tmp_path: Path) -> None:
    output = tmp_path / "flood.txt"
    with Tmux(tmp_path, [*GPUTOP, "--output", str(output), "--", sys.executable, "-c", FLOOD]) as tmux:
        shown = tmux.expect("EXITED", "with code 0", "read ''")
        assert "MB not shown" in shown or "xxxx" in shown
        tmux.press("q")
        tmux.expect("code=0")
    content = output.read_bytes()
    assert len(content) == 100_000_000 + len("read ''\n")
    assert content.endswith(b"x\nread ''\n")


def leaves_within(terminal: Terminal) -> float:
    """Press q and return how long gputop takes to end, seconds."""
    terminal.press("q")
    pressed = time.monotonic()
    while terminal.process.poll() is None:
        assert time.monotonic() < pressed + 10
        terminal.read(0.02)
    return time.monotonic() - pressed


def test_q_is_obeyed_at_once_while_helpers_and_drivers_hang(tmp_path: Path) -> None:
    """Half a second is what is promised; the other half is for a loaded machine."""
    if compiler() is None:
        pytest.skip("the stand-in for NVML needs a C compiler")
    compile_shared("nvml.c", "libnvidia-ml.so.1", tmp_path)
    (tmp_path / "hang").touch()
    (tmp_path / "script").write_text(f"gpus 2\nhang nvmlDeviceGetName {tmp_path / 'hang'}\n")
    (tmp_path / "attaching").mkdir()
    slow = fake(tmp_path, f"open({str(tmp_path / 'attaching')!r} + '/' + str(os.getpid()), 'w')\ntime.sleep(60)\n")
    with running(python("")) as target:
        environ = [f"LD_LIBRARY_PATH={tmp_path}", f"GPUTOP_NVML_SCRIPT={tmp_path / 'script'}"]
        command = ["/usr/bin/env", *environ, *with_pyspy(slow), "--pid", str(target.pid)]
        with Terminal(command, 140, 40) as terminal:
            terminal.expect("hottest")
            eventually(lambda: list((tmp_path / "attaching").iterdir()))
            assert leaves_within(terminal) < 1.0
            assert terminal.process.returncode == 0
        for helper in (tmp_path / "attaching").iterdir():
            eventually(lambda pid=int(helper.name): gone(pid))  # type: ignore[misc]
