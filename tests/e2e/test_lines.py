"""Lines that last a millisecond: each has its own states and its own time in the report.

How a line's time divides is not left to chance; how much time it has is sampled, and on a busy machine the samplers do
not get their CPU at random.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import report, states
from tests.fixtures_targets import cuda_library, start_target

__all__ = ["cuda_library"]

_POINTS = 0.05


def test_three_lines_of_five_milliseconds(cuda_library: Path) -> None:
    with start_target("three_lines.py", cuda_library) as target:
        document = report(target.pid, 10)
        truth = target.truth()
    starved = states(document, target.pid).get("starved", 0.0)
    for mark, place in truth["lines"].items():
        rows = _rows(document, place, whole_function=mark == "python")
        own = sum(row["self"] for row in rows)
        assert own == pytest.approx(truth["shares"][mark], abs=_POINTS + starved), mark
        right = sum(row["self"] * (row["states"].get(mark, 0.0) + row["states"].get("starved", 0.0)) for row in rows)
        assert right >= (1 - _POINTS) * own, f"{mark}: {[row['states'] for row in rows]}"


def _rows(document: dict[str, Any], place: dict[str, Any], whole_function: bool) -> list[dict[str, Any]]:
    """Return the lines at a place; Python code of one statement is a function of two lines, its loop and its body."""
    rows = [row for row in document["lines"] if (row["file"], row["function"]) == (place["file"], place["function"])]
    return [row for row in rows if whole_function or row["line"] == place["line"]]


@pytest.mark.parametrize("name", ["json", "recursion"])
def test_stacks_that_change_all_the_time_bring_no_states_of_others(name: str) -> None:
    """What computes does nothing else, line by line; and the hottest function is where most looks found it."""
    with start_target("computes.py", name) as target:
        document = report(target.pid, 3)
        target.truth()
    hottest = {"json": "JSONEncoder.iterencode", "recursion": "climb"}[name]
    first = document["functions"][0]
    assert first["name"] == hottest
    # The kernel holds a deep recursion up that maps memory for its frames while they are read.
    own = ("python", "native", "starved", *(("unknown", "io") if name == "recursion" else ()))
    assert sum(first["states"].get(state, 0.0) for state in own) >= 1 - _POINTS
