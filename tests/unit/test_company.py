"""Several gputops over one process know of each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from gputop.engine.company import Company
from gputop.model import ProcessInfo

PROCESS = ProcessInfo(4194303, 1, 1.7e9 + os.getpid(), ("train",))

#: Takes a place and keeps it until it is killed.
HOLDER = """
import sys
from gputop.engine.company import Company
from gputop.model import ProcessInfo
company = Company(ProcessInfo(int(sys.argv[1]), 1, float(sys.argv[2]), ()))
company.join()
print(company.others(), flush=True)
sys.stdin.read()
"""


@contextmanager
def watching(process: ProcessInfo = PROCESS) -> Iterator[Company]:
    company = Company(process)
    company.join()
    try:
        yield company
    finally:
        company.close()


def test_each_knows_how_many_others_there_are() -> None:
    with watching() as first, watching(ProcessInfo(4194303, 1, 5.0, ())) as elsewhere:
        assert first.note(1.0, first.others()) is None
        with watching() as second, watching() as third:
            assert [one.others() for one in (first, second, third)] == [2, 2, 2]
            note = first.note(2.0, first.others())
            assert note is not None
            assert "2 other gputops" in note.what
            assert first.note(3.0, first.others()) is None
        gone = first.note(4.0, first.others())
        assert gone is not None
        assert gone.what == ""
        assert elsewhere.others() == 0


def test_one_that_is_killed_leaves_nothing_behind() -> None:
    words = [sys.executable, "-c", HOLDER, str(PROCESS.pid), str(PROCESS.started_unix)]
    with watching() as company:
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "1\n"
            assert company.others() == 1
            other.send_signal(signal.SIGKILL)
        assert company.others() == 0


def test_more_than_there_are_places_for_know_of_those_that_have_one() -> None:
    with ExitStack() as stack:
        companies = [stack.enter_context(watching()) for _ in range(10)]
        assert companies[0].others() == 7
        assert companies[-1].others() == 8
