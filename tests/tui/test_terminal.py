"""The real app on a real (pseudo-)terminal: start, end, hang-up, signals, what is written."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading

import pytest

from gputop.tui.terminal import HangupWatch
from tests.tui.terminal import Terminal, shows

_COLOUR = re.compile(rb"\x1b\[[0-9;]*[34]8;[25];")


def test_q_ends_it_and_the_terminal_is_as_before() -> None:
    with Terminal(shows(), PYTHONIOENCODING="utf-8") as terminal:
        written = terminal.expect("train_step")
        assert _COLOUR.search(written)
        assert "▁".encode() in written
        terminal.press("q")
        end = terminal.expect("outcome: quit")
        assert b"\x1b[?1049l" in end
        assert b"\x1b[?25h" in end
        assert terminal.process.wait(5) == 0


@pytest.mark.parametrize(
    ("scene", "number", "outcome"),
    [
        ("starved", signal.SIGTERM, "lost"),
        ("starved", signal.SIGHUP, "lost"),
        ("launched", signal.SIGTERM, "terminate"),
        ("launched", signal.SIGHUP, "lost"),
    ],
)
def test_signals_end_the_screen_in_good_order(scene: str, number: signal.Signals, outcome: str) -> None:
    with Terminal(shows(scene)) as terminal:
        terminal.expect("train_step")
        terminal.process.send_signal(number)
        assert b"\x1b[?1049l" in terminal.expect(f"outcome: {outcome}")
        assert terminal.process.wait(5) == 0


@pytest.mark.parametrize("controlling", [True, False], ids=["with SIGHUP", "without SIGHUP"])
def test_a_terminal_that_is_gone_ends_the_process(controlling: bool) -> None:
    """Textual takes the end of its input for a pipe and spins at half a core, for ever when no SIGHUP comes."""
    with Terminal(shows(), controlling=controlling) as terminal:
        terminal.expect("train_step")
        terminal.hang_up()
        terminal.process.wait(6)


_BLOCKED = """
import threading
from textual.drivers._writer_thread import WriterThread
WriterThread.stop = lambda self: threading.Event().wait()
"""


def test_a_terminal_that_is_gone_ends_a_screen_whose_end_blocks() -> None:
    """Textual's writer ends at the first failed write; what is still to be written blocks its driver for good."""
    command = shows()
    with Terminal([*command[:-1], _BLOCKED + command[-1]]) as terminal:
        terminal.expect("train_step")
        terminal.hang_up()
        assert terminal.process.wait(10) == 128 + signal.SIGHUP


def test_a_hang_up_that_the_screen_cannot_obey_ends_the_process_the_hard_way() -> None:
    read, write = os.pipe()
    os.close(write)  # a pipe without a writer reports a hang-up
    calls: list[str | int] = []
    left = threading.Event()

    def leave(code: int) -> None:
        calls.append(code)
        left.set()

    watch = HangupWatch(read, lambda: calls.append("lost"), leave)
    assert left.wait(10)
    watch.stop()
    os.close(read)
    assert calls == ["lost", 128 + signal.SIGHUP]


def test_a_fault_of_the_screen_is_no_quiet_end() -> None:
    """The traceback is shown, and the caller learns of it."""
    fault = "import gputop.tui.panels.hot as hot; hot.rule = None\n"
    with Terminal([sys.executable, "-c", fault + shows()[2]]) as terminal:
        written = terminal.expect("the screen ended by a fault of its own")
        assert b"TypeError" in written
        assert terminal.process.wait(5) == 1


def test_no_mouse_leaves_the_mouse_to_the_terminal() -> None:
    with Terminal(shows(settings="mouse=False")) as terminal:
        assert b"\x1b[?1000h" not in terminal.expect("train_step")


def test_no_color_writes_no_colour() -> None:
    with Terminal(shows(), NO_COLOR="1") as terminal:
        written = terminal.expect("train_step")
        assert not _COLOUR.search(written)
        assert not re.search(rb"\x1b\[[0-9;]*\b(3|4|9|10)[0-7]m", written)


def test_a_terminal_that_is_not_utf8_gets_no_escapes_for_characters() -> None:
    with Terminal(shows(), PYTHONIOENCODING="latin-1") as terminal:
        written = terminal.expect("train_step")
        assert b"\\u" not in written
        assert b"0 %" in written


def test_a_new_size_is_drawn_at_once() -> None:
    with Terminal(shows(), 100, 30) as terminal:
        terminal.expect("train_step")
        terminal.read(0.3)
        terminal.resize(70, 20)
        assert terminal.expect("hottest")


def test_names_of_the_target_cannot_write_to_the_terminal() -> None:
    """Only what the screen itself writes may start an escape sequence."""
    with Terminal(shows("exotic"), 160, 48) as terminal:
        written = terminal.expect("hottest")
        assert b"\x1b[31mvery_long" not in written
