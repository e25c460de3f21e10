"""gputop does no harm, however it ends."""

from __future__ import annotations

import json
import os
import random
import runpy
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.e2e.harness import GPUTOP, eventually, kernel_state
from tests.fixtures_targets import TARGETS, start_target

#: KILLS=100 is the acceptance run.
_KILLS = int(os.environ.get("KILLS", "6"))


def start(pid: int) -> subprocess.Popen[bytes]:
    """Start gputop on a process."""
    command = [*GPUTOP, "report", "--pid", str(pid), "--duration", "60"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def helpers_of(gputop: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return the processes that gputop has started."""
    return psutil.Process(gputop.pid).children(recursive=True)


def time_to_helpers(pid: int) -> float:
    """Return how long gputop takes here and now until it has helpers, seconds."""
    began = time.monotonic()
    gputop = start(pid)
    while not helpers_of(gputop):
        time.sleep(0.01)
    gputop.kill()
    gputop.wait()
    return time.monotonic() - began


def kill_at_a_random_moment(pid: int, moment: float, at_work: bool) -> list[psutil.Process]:
    """Start gputop on a process, kill it with -9 after `moment` seconds, and return what it had started.

    Arguments:
        at_work: the moment counts from its first helper on, else from its start.
    """
    gputop = start(pid)
    if at_work:
        eventually(lambda: helpers_of(gputop))
    time.sleep(moment)
    helpers = helpers_of(gputop)
    gputop.kill()
    assert gputop.wait() == -signal.SIGKILL, "it had ended before it was killed"
    return helpers


def check_unharmed(pid: int, helpers: list[psutil.Process]) -> None:
    """Demand that no helper survives and that no thread of the process stays stopped."""
    _, alive = psutil.wait_procs(helpers, timeout=2)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    deadline = time.monotonic() + 2
    while stopped(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not stopped(pid)
    assert kernel_state(pid) in ("R", "S")


def stopped(pid: int) -> list[int]:
    """Return the threads of a process that stand still for a tracer or a signal."""
    return [
        int(task.name)
        for task in Path(f"/proc/{pid}/task").iterdir()
        if (task / "stat").read_text().rpartition(") ")[2][0] in "tT"
    ]


@pytest.mark.timeout(600)
def test_killed_at_random_moments_it_leaves_nothing_and_the_result_is_right() -> None:
    chance = random.Random(20261130)
    seen_helpers = 0
    with start_target("sums.py") as target:
        start_up = time_to_helpers(target.pid)
        for turn in range(_KILLS):
            at_work = turn % 2 == 1
            helpers = kill_at_a_random_moment(target.pid, chance.uniform(0, 1.0 if at_work else start_up), at_work)
            seen_helpers += len(helpers)
            check_unharmed(target.pid, helpers)
        output, _ = target.process.communicate(timeout=30)
    assert seen_helpers >= _KILLS // 2, "it was killed before it did anything"
    chain = runpy.run_path(str(TARGETS / "sums.py"))["chain"]
    results = json.loads(output.splitlines()[-1])
    assert [chain(seed, steps) for seed, (steps, _) in enumerate(results)] == [digest for _, digest in results]
