"""Each way in which py-spy fails, by what it really prints, and what the user is told."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest

from gputop.collectors.stacks.troubles import TROUBLES, Trouble, is_trouble, recognise
from gputop.collectors.stacks.window import Outcome
from tests.unit.stacks_tools import process

#: Printed by py-spy 0.4.3, or taken from its source where the case cannot be made here: status, output, note.
EXAMPLES = [
    (1, "Error: Failed to get process executable name. Check that the process is running.\n\nCaused by:\n"
        "    0: No such file or directory (os error 2)\n", None),
    (0, "py-spy> Stopped sampling because process exited\n", None),
    (1, "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'\n",
        "no right to read the Python stacks of job (pid 7)"),
    (1, "Error: Failed to get process executable name. Check that the process is running.\n\nCaused by:\n    0: "
        "Permission denied (os error 13)\n", "no right to read the Python stacks of job (pid 7)"),
    (1, "Error: Failed to get stack traces\n\nCaused by:\n    0: Failed to suspend process\n    1: EPERM: Operation "
        "not permitted\n", "no right to read the Python stacks of job (pid 7)"),
    (1, "Error: Unsupported version of Python: 3.15.0\n", "py-spy cannot read Python 3.15.0 of job (pid 7)"),
    (1, "free-threaded\nError: failed to get gil_thread_id\n",
        "job (pid 7) runs a free-threaded Python, which py-spy cannot read"),
    (1, "Error: No space left on device (os error 28)\n", "no room to write the Python stacks of job (pid 7)"),
    (-9, "py-spy> Sampling process 100 times a second\n",
        "py-spy on job (pid 7) is being killed from outside (signal 9)"),
    (2, "error: unexpected argument '--nonblocking' found\n", "this py-spy does not know the options that gputop uses"),
    (1, "Error: Failed to find python version from target process\n", "no Python found in job (pid 7)"),
    (1, "Error: Failed to find a python interpreter in the .data section\n",
        "the Python stacks of job (pid 7) cannot be read"),
    (1, "Error: Failed to copy PyCodeObject\n\nCaused by:\n    Bad address (os error 14)\n",
        "the Python stacks of job (pid 7) cannot be read"),
    (0, "py-spy> Sampling process 100 times a second\n", "py-spy writes no readable stacks of job (pid 7)"),
    (101, "thread 'main' panicked at src/main.rs\n", "py-spy on job (pid 7) failed (status 101)"),
]  # fmt: skip


def outcome(status: int, said: str, cut_short: str = "", trace: bytes = b"") -> Outcome:
    return Outcome(os.getpid(), 100, status, said, trace, 1.0, 1.1, 2.0, 0.05, False, cut_short)


@pytest.mark.parametrize(("status", "said", "note"), EXAMPLES, ids=[said[:40].strip() for _, said, _ in EXAMPLES])
def test_what_is_told(status: int, said: str, note: str | None) -> None:
    assert is_trouble(outcome(status, said))
    trouble, text = recognise(outcome(status, said), process(os.getpid()))
    assert (trouble.patience is None) == (note is None)
    if note is not None:
        what, remedy = trouble.note(text, "job (pid 7)")
        assert what == note
        assert remedy


def test_hung_py_spy_is_told_before_anything_it_printed() -> None:
    trouble, text = recognise(outcome(-9, "Permission denied", "it did not attach"), process(1))
    assert trouble.note(text, "job")[0] == "py-spy hung on job and was ended: it did not attach"


def test_every_trouble_has_an_example() -> None:
    seen = {recognise(outcome(status, said), process(os.getpid()))[0] for status, said, _ in EXAMPLES}
    assert set(TROUBLES) - seen == {TROUBLES[0]}  # the first is the hung one, above


def test_a_good_window_is_no_trouble() -> None:
    said = "py-spy> Wrote chrome trace to '/x'. Samples: 99 Errors: 1"
    assert not is_trouble(outcome(0, said, trace=b"[]\n"))


def test_ended_by_our_own_interrupt_is_no_trouble() -> None:
    told = "py-spy> Sampling process 100 times a second"
    assert is_trouble(outcome(-2, told))
    assert not is_trouble(replace(outcome(-2, told), interrupted=True))


def test_hostile_words_in_the_output_stay_harmless() -> None:
    said = "Error: Unsupported version of Python: {0.__class__}\x1b[2J" + "9" * 10_000
    trouble, text = recognise(outcome(1, said), process(1))
    what, _ = trouble.note(text, "job {who}")
    assert "\x1b" not in what
    assert len(what) < 200
    assert "{0.__class__}" in what


def test_tries_come_ever_more_seldom() -> None:
    trouble = Trouble("x", retry=0.5, retry_limit=3)
    assert [trouble.pause(failures) for failures in (1, 2, 3, 4, 1000)] == [0.5, 1, 2, 3, 3]


@pytest.mark.parametrize("trouble", TROUBLES, ids=[trouble.pattern for trouble in TROUBLES])
def test_patterns_are_valid_and_notes_complete(trouble: Trouble) -> None:
    assert re.compile(trouble.pattern)
    assert 0 < trouble.retry <= trouble.retry_limit
    assert bool(trouble.what) == (trouble.patience is not None)
