"""Which autograd thread works for a thread that waits in backward()."""

from __future__ import annotations

from gputop.analysis import backward
from gputop.analysis.results import ThreadRow
from gputop.store import ThreadKey


def _row(pid: int, tid: int, role: str, idle: float) -> ThreadRow:
    states = {"idle": idle, "native": 1 - idle}
    return ThreadRow(pid, tid, role, role, pid == tid, 100, 10.0, 0.1, states, {})


def test_it_is_the_busiest_of_the_same_process() -> None:
    rows = (
        _row(7, 7, "main", 0.0),
        _row(7, 8, "autograd", 0.9),
        _row(7, 9, "autograd", 0.4),
        _row(20, 21, "autograd", 0.1),  # another rank's
    )
    by_key = {ThreadKey(row.pid, row.tid): row for row in rows}
    assert backward.worker(by_key, ThreadKey(7, 7)) == ThreadKey(7, 9)
    assert backward.worker(by_key, ThreadKey(30, 30)) is None
