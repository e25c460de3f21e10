"""`gputop --plain`: text for screen readers and logs."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from gputop.cli import main
from gputop.report.text import brief
from tests.fakes.source import NO_DRIVER, NO_PTRACE
from tests.tui.running import still

_SLEEP = "import sys, time; print('ready', flush=True); time.sleep(60)"


def test_a_block_says_what_the_screen_says() -> None:
    summary = still("bare").summary
    assert summary is not None
    lines = brief(summary).splitlines()
    assert lines[1] == f"GPU STARVED: {summary.verdict.sentence}"
    assert lines[2].startswith("  MainThread: native 4")
    assert "decode_image, /home/ada/train/data.py:31" in lines[3]
    assert any("no NVIDIA driver" in line for line in lines)
    assert any("no right to look" in line for line in lines)
    assert "no NVIDIA driver" not in brief(summary, (NO_DRIVER,))
    assert "no right to look" in brief(summary, (NO_DRIVER,))
    assert "note" not in brief(summary, (NO_DRIVER, NO_PTRACE))


def test_a_launched_programs_code_passes_through(capfd: pytest.CaptureFixture[str], tmp_path: object) -> None:
    program = [sys.executable, "-c", "import time; time.sleep(1.2); raise SystemExit(7)"]
    code = main(["--plain", "--interval", "0.5", "--output", f"{tmp_path}/out.log", "--", *program])
    text = capfd.readouterr().out
    assert code == 7
    assert text.count("of pid") >= 2
    assert "\x1b" not in text
    assert "\r" not in text


def test_a_signal_ends_it_and_the_program_goes_on() -> None:
    target = subprocess.Popen([sys.executable, "-c", _SLEEP], stdout=subprocess.PIPE, text=True)
    words = [sys.executable, "-m", "gputop", "--plain", "--interval", "0.5", "--pid", str(target.pid)]
    try:
        assert target.stdout is not None
        assert target.stdout.readline() == "ready\n"
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as watching:
            assert watching.stdout is not None
            assert f"pid {target.pid}" in watching.stdout.readline()
            watching.send_signal(signal.SIGINT)
            watching.communicate(timeout=20)
        assert watching.returncode == 130
        assert target.poll() is None
    finally:
        target.kill()
        target.communicate()
