"""Priority for the length of a stop: taken and given back, and no trouble where it is refused."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from gputop.collectors.native import ptrace
from gputop.collectors.native.arch import here
from gputop.collectors.native.memory import StackCopy
from gputop.collectors.native.ptrace import Tracer
from gputop.collectors.native.urgency import Urgency


@pytest.fixture(autouse=True)
def _usual_policy() -> Iterator[None]:
    before, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    yield
    os.sched_setscheduler(0, before, parameters)


def _is_allowed() -> bool:
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        return False
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return True


def _policy() -> int:
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK


def test_it_is_taken_and_given_back() -> None:
    if not _is_allowed():
        pytest.skip("real-time priority is not allowed here")
    urgency, nice = Urgency(), os.nice(0)
    for _ in range(2):
        urgency.begin()
        urgency.begin()
        assert _policy() == os.SCHED_RR
        urgency.end()
        assert _policy() == os.SCHED_OTHER
        urgency.end()
    assert os.nice(0) == nice


def test_where_it_is_refused_it_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(*arguments: object) -> None:
        asked.append(arguments)
        raise PermissionError(1, "Operation not permitted")

    urgency = Urgency()
    with monkeypatch.context() as patch:
        patch.setattr(os, "sched_setscheduler", refuse)
        for _ in range(3):
            urgency.begin()
            urgency.end()
    assert len(asked) == 1


def test_a_policy_that_somebody_chose_is_kept() -> None:
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    urgency = Urgency()
    urgency.begin()
    assert os.sched_getscheduler(0) == os.SCHED_BATCH
    urgency.end()
    assert os.sched_getscheduler(0) == os.SCHED_BATCH


def test_a_child_that_is_forked_in_the_midst_of_a_stop_is_not_urgent() -> None:
    if not _is_allowed():
        pytest.skip("real-time priority is not allowed here")
    urgency = Urgency()
    urgency.begin()
    child = os.fork()
    if child == 0:
        os._exit(os.sched_getscheduler(0))
    urgency.end()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == os.SCHED_OTHER


class Told(Urgency):
    """Notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def begin(self) -> None:
        self.asked.append("begin")

    def end(self) -> None:
        self.asked.append("end")


def _tracer(monkeypatch: pytest.MonkeyPatch) -> tuple[Tracer, Told]:
    told = Told()
    monkeypatch.setattr(ptrace, "Urgency", lambda: told)
    arch = here()
    assert arch is not None
    return Tracer(arch, StackCopy()), told


def test_a_stop_is_urgent_and_what_comes_after_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    tracer, told = _tracer(monkeypatch)
    tracer.take(os.getpid(), os.getpid(), 512)  # refused: nobody traces himself
    assert told.asked == ["begin", "end"]


def test_a_thread_that_does_not_stop_is_waited_for_without_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    tracer, told = _tracer(monkeypatch)
    sleeps = ptrace._Asked(os.getpid(), None, time.perf_counter())
    tracer._pending[1] = sleeps
    tracer._relax()
    assert told.asked == []
    tracer._pending[1] = sleeps._replace(since=sleeps.since - 1.0)
    tracer._relax()
    assert told.asked == ["end"]
