"""Programs that only wrap another: what the answer is about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.analysis.summary import summarise
from gputop.model import Observation, ProcessBatch, ProcessInfo, Window
from gputop.report.text import text
from tests.unit.analysis_tools import DECODE, LOCK, MAIN, PID, PYTHON, ROOT, SLEEP, peeks, session, stacks, stored

WINDOW = Window(0, 10)


@pytest.mark.parametrize("does", [PYTHON, SLEEP, LOCK])
def test_a_wrapper_is_about_the_python_that_it_wraps(does: Observation) -> None:
    """`timeout 60 python train.py`: the root runs no Python and waits for its child, which may work or not."""
    child = ProcessInfo(200, PID, 1.7e9, ("python", "train.py"), "/usr/bin/python3", python="3.12.3")
    root = replace(ROOT, cmdline=("timeout", "60", "python", "train.py"), exe="/usr/bin/timeout", python=None)
    batches = (
        ProcessBatch(0.0, (root, child)),
        peeks(PID, [(0, 10, SLEEP)]),
        peeks(200, [(0, 10, does)], pid=200),
        stacks(200, [(0, 10, (MAIN, DECODE))], pid=200),
    )
    store = stored(*batches, replace(session(), root=root))
    summary = summarise(store, WINDOW)
    assert summary.program == child
    assert summary.headline is not None
    assert summary.headline.pid == 200
    assert f"pid {PID} · Python 3.12.3 in pid 200" in text(summary)
