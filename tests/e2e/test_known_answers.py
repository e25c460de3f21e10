"""Programs that know what they do, watched: every state within five points, the right hottest line.

What does one thing only is seen for what it is by every look, so that two seconds are as good as five. The mixes take
200 ms a round, long against the 20 ms between two looks: then a phase of s seconds gets s·50 looks give or take one
half, and the error of a share over five seconds (25 rounds) is below 1.5 points at three sigma.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.harness import document, report, states, together
from tests.fixtures_targets import cuda_library, start_target

__all__ = ["cuda_library"]

_POINTS = 0.05
#: Seconds that a program is watched which does one thing only.
_ONE_THING = 2.5
WAITS = ("lock", "queue", "pipe", "socket", "child", "sleep", "asyncio")


def check_shares(seen: dict[str, float], truth: dict[str, float]) -> None:
    """Demand that each state is within five points; time without a CPU is nobody's fault on a busy machine."""
    starved = seen.get("starved", 0.0)
    for state in {*seen, *truth} - {"starved"}:
        error = abs(seen.get(state, 0.0) - truth.get(state, 0.0))
        assert error <= _POINTS + starved, f"{state}: seen {seen.get(state, 0.0):.3f}, true {truth.get(state, 0.0):.3f}"


def check_hottest(document: dict[str, Any], hot: dict[str, Any] | None) -> None:
    """Demand that the first function is the one marked, and that its line leads the lines of its file."""
    if hot is None:
        return
    first = document["functions"][0]
    assert (first["name"].rpartition(".")[2], first["file"]) == (hot["function"].rpartition(".")[2], hot["file"])
    lines = [line for line in document["lines"] if line["file"] == hot["file"]]
    assert abs(lines[0]["line"] - hot["line"]) <= 1


@pytest.mark.parametrize("name", ["busy", "hash", "recursion"])
def test_computing(name: str) -> None:
    with start_target("computes.py", name) as target:
        seen = report(target.pid, _ONE_THING)
        truth = target.truth()
    check_shares(states(seen, target.pid), truth["shares"])
    check_hottest(seen, truth["hot"])


class Waited(NamedTuple):
    """A program that waits: what was seen of it, and what it says itself."""

    seen: dict[str, float]
    truth: dict[str, float]


@pytest.fixture(scope="module")
def waited() -> dict[str, Waited]:
    """Watch all that wait at the same time: they need no CPU, so that none is in another's way."""
    with ExitStack() as stack:
        targets = {name: stack.enter_context(start_target("waits.py", name)) for name in WAITS}
        words = (("report", "--pid", target.pid, "--duration", 4, "--json") for target in targets.values())
        runs = dict(zip(targets, together(*words), strict=True))
        truths = {name: target.truth()["shares"] for name, target in targets.items()}
    return {name: Waited(states(document(runs[name]), targets[name].pid), truths[name]) for name in WAITS}


@pytest.mark.parametrize("name", WAITS)
def test_waiting(name: str, waited: dict[str, Waited]) -> None:
    check_shares(*waited[name])


def test_four_threads_that_want_the_gil() -> None:
    with start_target("gil.py") as target:
        seen = report(target.pid)
        truth = target.truth()
    for tid, shares in truth["threads"].items():
        found = states(seen, int(tid))
        assert abs(found.get("python", 0.0) - shares["python"]) <= _POINTS + found.get("starved", 0.0)
        assert found.get("gil", 0.0) + found.get("starved", 0.0) == pytest.approx(
            shares["gil"] + shares["starved"], abs=_POINTS + found.get("starved", 0.0)
        )
    check_hottest(seen, truth["hot"])


@pytest.mark.parametrize(
    ("function", "state"),
    [("cuStreamSynchronize", "gpu_wait"), ("cuLaunchKernel", "gpu_api"), ("cuLaunchKernelEx", "gpu_wait")],
)
def test_in_the_driver(function: str, state: str, cuda_library: Path) -> None:
    with start_target("gpu_call.py", cuda_library, function, 50) as target:
        seen = report(target.pid, _ONE_THING)
        truth = target.truth()
    check_shares(states(seen, target.pid), {state: sum(truth["shares"].values())})
    check_hottest(seen, truth["hot"])


def test_a_mix_of_five_states(cuda_library: Path) -> None:
    shares = ("python=.3", "native=.2", "gpu_wait=.25", "gpu_api=.1", "idle=.15")
    with start_target("mix.py", cuda_library, 200, *shares) as target:
        seen = report(target.pid)
        truth = target.truth()
    check_shares(states(seen, target.pid), truth["shares"])
    headline = seen["headline"]
    assert headline["tid"] == target.pid
    assert sum(headline[group] for group in ("compute", "gpu_wait", "other_wait", "idle")) == pytest.approx(1, abs=1e-3)


def test_a_gpu_wait_hidden_in_launches(cuda_library: Path) -> None:
    with start_target("mix.py", cuda_library, 200, "python=.2", "queue_full=.6", "idle=.2") as target:
        seen = report(target.pid)
        truth = target.truth()["shares"]
    truth["gpu_wait"] = truth.pop("queue_full")
    check_shares(states(seen, target.pid), truth)
