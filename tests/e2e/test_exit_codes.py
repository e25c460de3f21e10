"""Every exit code, for a reason that a user meets; and what is said with it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gputop.cli import main
from tests.e2e.harness import (
    GPUTOP,
    document,
    ended,
    eventually,
    gputop,
    kernel_state,
    start,
    states,
    together,
    without_ptrace,
)
from tests.fakes.programs import python, running
from tests.fixtures_targets import start_target

NOBODY = 2**22 + 1  # larger than any process id (PID_MAX_LIMIT)

USAGE: list[tuple[Sequence[object], str]] = [
    (("report",), "gputop report -- python infer.py"),
    (("report", "infer.py"), "did you mean: gputop report -- python infer.py"),
    (("snapshot", "-o", "t.json", "1234567"), "did you mean: gputop snapshot --pid 1234567"),
    (("record", "--pid", "1"), "-o"),
    (("report", "--bogus"), "there is no flag --bogus"),
    (("--pid", 1), "the screen needs a terminal"),
    (("report", "--pid", 1, "--", "true"), "give one of them"),
    (("report", "--window", "0", "--pid", 1), "outside 1 … 3600"),
    (("snapshot", "-o", "t.what", "--pid", 1), ".speedscope.json"),
    (("snapshot", "-o", "t.what", "--", "no-such-command-anywhere"), ".speedscope.json"),
]


def test_a_line_that_does_not_fit_together_gives_2(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in USAGE:
        assert main([str(word) for word in words]) == 2, words
        out, complaint = capsys.readouterr()
        assert out == ""
        assert told in complaint
    assert gputop("report").returncode == 2


@pytest.mark.parametrize("command", ["report", "record -o {}", "snapshot -o {}"])
def test_no_such_process_gives_4_and_leaves_no_file(command: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    run = gputop(*command.format(file).split(), "--pid", NOBODY)
    assert run.returncode == 4
    assert f"there is no process {NOBODY}" in run.stderr
    assert not list(tmp_path.iterdir())


def test_a_zombie_and_a_thread_are_no_processes() -> None:
    with running(python("import sys, threading; threading.Thread(target=lambda: sys.stdin.read()).start();")) as target:
        (thread,) = {int(task.name) for task in Path(f"/proc/{target.pid}/task").iterdir()} - {target.pid}
        with subprocess.Popen(["true"]) as zombie:
            eventually(lambda: kernel_state(zombie.pid) == "Z")
            of_thread, of_zombie = together(("report", "--pid", thread), ("report", "--pid", zombie.pid))
    assert of_thread.returncode == of_zombie.returncode == 4
    assert f"gputop --pid {target.pid}" in of_thread.stderr
    assert "has ended" in of_zombie.stderr


def test_files_that_cannot_be_read_or_written_give_1(tmp_path: Path) -> None:
    (tmp_path / "there.json").touch()
    (tmp_path / "text.gputop").write_text("no recording")
    cases = {
        ("report", tmp_path / "none.gputop"): "cannot read",
        ("report", tmp_path / "text.gputop"): "is not a gputop recording",
        ("snapshot", "-o", tmp_path / "there.json", "--pid", 1): "gputop never overwrites a file",
        ("snapshot", "-o", tmp_path / "no" / "t.json", "--pid", 1): "make the directory first",
        ("record", "-o", tmp_path / "no" / "r.gputop", "--", "true"): "cannot write",
    }
    for run, told in zip(together(*cases), cases.values(), strict=True):
        assert run.returncode == 1
        assert told in run.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"there.json", "text.gputop"}


def test_a_process_that_is_not_ours_gives_3_and_what_anybody_may_know() -> None:
    with start_target("waits.py", "sleep") as target:
        refused = start("report", "--pid", target.pid, "--duration", 1.5, "--json", prefix=without_ptrace())
        run = ended(refused)
    seen = document(run, code=3)
    assert run.stderr.startswith(f"gputop: no right to look into process {target.pid}")
    assert "--cap-add=SYS_PTRACE" in run.stderr
    assert seen["verdict"]["id"] == "unreadable"
    assert seen["host"]["cores"]
    (main,) = [thread for thread in seen["threads"] if thread["main"]]
    assert main["states"]["unknown"] > 0.9
    assert main["cpu_share"] < 0.2
    assert {"stacks", "peek"} <= {note["source"] for note in seen["notes"] if "SYS_PTRACE" in note["remedy"]}


CODES = {
    ("true",): 0,
    ("sh", "-c", "exit 7"): 7,
    ("sh", "-c", "kill -9 $$"): 128 + signal.SIGKILL,
    ("no-such-command-anywhere",): 127,
    ("/dev/null",): 126,
}


def test_a_launched_programs_own_code_passes_through() -> None:
    for run, code in zip(together(*(("report", "--", *command) for command in CODES)), CODES.values(), strict=True):
        assert run.returncode == code
    assert together(("record", "-o", "/dev/full/x", "--", "true"))[0].returncode == 1


CRASHES = {
    "import time; print('start'); time.sleep({}); raise ValueError('bad image')": (1, "exited with code 1"),
    "import os, time; print('ValueError: bad image'); time.sleep({}); os.kill(os.getpid(), 11)": (
        128 + signal.SIGSEGV,
        "ended by signal 11 (SIGSEGV)",
    ),
}


def test_the_report_on_a_program_that_failed_ends_with_what_it_printed_last() -> None:
    """Also where it failed after the report, and not where it succeeded or the report is for a machine."""
    python = ("--", sys.executable, "-c")
    runs = together(*(("report", *python, code.format(0.3)) for code in CRASHES))
    for run, (code, words) in zip(runs, CRASHES.values(), strict=True):
        assert run.returncode == code
        assert words in run.stdout.splitlines()[1]
        *_, last = run.stdout.splitlines()
        assert last == "  ValueError: bad image"
        assert "\nthe last lines that it printed:\n" in run.stdout
    late, machine, fine = together(
        ("report", "--duration", 0.3, *python, next(iter(CRASHES)).format(1.5)),
        ("report", "--json", *python, next(iter(CRASHES)).format(0.1)),
        ("report", *python, "print('fine')"),
    )
    assert "exited" not in late.stdout.splitlines()[1]
    assert late.stdout.endswith("\n  ValueError: bad image\n")
    assert document(machine, code=1)["target"]["exit_code"] == 1
    assert (fine.returncode, "last lines" in fine.stdout) == (0, False)


def test_a_signal_ends_a_watch_with_what_was_seen_by_then(tmp_path: Path) -> None:
    """Also where stacks are still to come, and for a snapshot; a recording is meant to be ended so."""
    trace, recording = tmp_path / "t.json", tmp_path / "r.gputop"
    with start_target("computes.py", "busy") as target:
        attached = ("--pid", target.pid, "--duration", 30)
        runs = {
            start("report", *attached, "--json"): signal.SIGINT,
            start("snapshot", *attached, "-o", trace): signal.SIGTERM,
            start("record", *attached, "-o", recording): signal.SIGINT,
        }
        eventually(lambda: recording.exists() and recording.stat().st_size > 3000)
        for run, number in runs.items():
            run.send_signal(number)
        reported, snapped, recorded = [ended(run, timeout=5) for run in runs]
    seen = document(reported, code=128 + signal.SIGINT)
    assert 0.1 < seen["window"]["duration_s"] < 20
    shares = states(seen, target.pid)
    assert shares["python"] + shares.get("starved", 0.0) > 0.8, shares
    assert (snapped.returncode, recorded.returncode) == (128 + signal.SIGTERM, 0)
    assert trace.read_bytes().endswith(b"]}\n")
    assert gputop("report", recording).returncode == 0


def test_the_reader_of_the_output_may_leave() -> None:
    with start_target("waits.py", "sleep") as target:
        run = subprocess.Popen(
            [sys.executable, "-m", "gputop", "report", "--pid", str(target.pid), "--duration", "1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert run.stdout is not None
        run.stdout.close()
        assert run.wait(20) == 0
        assert run.stderr is not None
        with run.stderr:
            assert run.stderr.read() == ""


def test_output_that_cannot_take_what_is_printed(tmp_path: Path) -> None:
    """A full disk is an error, a character that the encoding lacks is not; neither is output that is thrown away."""
    gone = tmp_path / "gone"
    with start_target("waits.py", "sleep") as target, open("/dev/full", "w") as full:
        words = [*GPUTOP, "report", "--pid", str(target.pid), "--duration", "0.5"]
        to_full = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        ascii_only = gputop(*words[len(GPUTOP) :], PYTHONIOENCODING="ascii")
        removed = gputop("report", "--output", gone, "--", "sh", "-c", f"echo lost; rm {gone}; exit 9")
        closed = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *words], stderr=subprocess.PIPE, text=True, check=False)
    assert (to_full.returncode, to_full.stderr) == (1, "gputop: No space left on device\n")
    assert (ascii_only.returncode, "pid" in ascii_only.stdout, ascii_only.stderr) == (0, True, "")
    assert (removed.returncode, removed.stderr) == (9, "")
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.parametrize(
    "line", ["window = [1]", "hz = true", 'tree = "maybe"', "theme = 3", "hz = inf", "speed = 1", "hz =", "\xff"]
)
def test_settings_file_that_makes_no_sense_is_a_usage_error(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(line.encode("latin-1"))
    monkeypatch.setenv("GPUTOP_CONFIG", str(file))
    assert main(["report", "--pid", "1"]) == 2
    assert capsys.readouterr().err.startswith("gputop: ")
