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

from tests.e2e.harness import GPUTOP, kernel_state
from tests.fixtures_targets import TARGETS, start_target

#: KILLS=100 is the acceptance run.
_KILLS = int(os.environ.get("KILLS", "10"))


def kill_at_a_random_moment(pid: int, chance: random.Random) -> list[psutil.Process]:
    """Start gputop on a process, kill it with -9 within two seconds, and return what it had started."""
    command = [*GPUTOP, "report", "--pid", str(pid), "--duration", "20"]
    gputop = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(chance.uniform(0.4, 2.4))
    helpers = psutil.Process(gputop.pid).children(recursive=True)
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
        for _ in range(_KILLS):
            helpers = kill_at_a_random_moment(target.pid, chance)
            seen_helpers += len(helpers)
            check_unharmed(target.pid, helpers)
        output, _ = target.process.communicate(timeout=30)
    assert seen_helpers >= _KILLS / 2, "it was killed before it did anything"
    chain = runpy.run_path(str(TARGETS / "sums.py"))["chain"]
    results = json.loads(output.splitlines()[-1])
    assert [chain(seed, steps) for seed, (steps, _) in enumerate(results)] == [digest for _, digest in results]
