"""Stops every thread of a process again and again, blocked or not, far more rudely than the peek does.

native_hammer PID STOPS: prints how many stops there were, and how many system calls had to be begun again.
native_hammer PID STOPS KILLS: hammers in a child that is killed at a random moment, so many times; prints how many of
the kills came while a thread was traced, and how many left one stopped or traced.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

from gputop.collectors.native.arch import here
from gputop.collectors.native.memory import FIRST_COPY, StackCopy
from gputop.collectors.native.ptrace import Outcome, Tracer, tracer_of
from gputop.collectors.native.task import Task


def hammer(pid: int, stops: int) -> tuple[int, int]:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    arch = here()
    assert arch is not None
    tracer = Tracer(arch, StackCopy())
    done = 0
    while done < stops:
        for tid in map(int, os.listdir(f"/proc/{pid}/task")):
            done += tracer.take(pid, tid, FIRST_COPY) is Outcome.TAKEN
            done += len(list(tracer.late(0)))
    while tracer.pending:
        signal.sigtimedwait({signal.SIGCHLD}, 0.01)
        list(tracer.late(0))
    return done, tracer.repaired


def _threads(pid: int) -> list[int]:
    return [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]


def _traced(pid: int) -> bool:
    return any(tracer_of(pid, tid) for tid in _threads(pid))


def _left_behind(pid: int) -> bool:
    """Is a thread still stopped or traced, a second after its tracer died?"""
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        stopped = any(Task(pid, tid, 0.0, keep_open=False).read_state() in "tT" for tid in _threads(pid))
        if not stopped and not _traced(pid):
            return False
    return True


def kill_hammerers(pid: int, stops: int, kills: int) -> tuple[int, int]:
    moments, traced, left = random.Random(1), 0, 0
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            hammer(pid, stops)
            os._exit(0)
        time.sleep(moments.uniform(0.002, 0.01))
        os.kill(child, signal.SIGSTOP)  # so that what it is doing to the target can be seen before it dies
        os.waitpid(child, os.WUNTRACED)
        traced += _traced(pid)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        left += _left_behind(pid)
    return traced, left


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    print(*(hammer(*arguments) if len(arguments) == 2 else kill_hammerers(*arguments)))
