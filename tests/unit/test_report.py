"""The report's text and JSON: what adds up, what comes first, and what is said once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.analysis.notes import folded
from gputop.analysis.results import Headline, Summary
from gputop.analysis.rounding import rounded
from gputop.analysis.states import STATES
from gputop.model import Note
from gputop.report.document import document
from gputop.report.text import brief, text
from tests.tui.running import still

#: A seventh each, which no number of digits shows exactly: rounded one by one, whole percents make 98.
SEVENTHS = {state.id: 1 / 7 for state in STATES[:7]}


@pytest.fixture(scope="module")
def seen() -> Summary:
    summary = still("bare").summary
    assert summary is not None
    return summary


@given(st.dictionaries(st.text(), st.floats(0, 1e6), max_size=20), st.integers(0, 5))
def test_rounded_shares_add_up_and_none_is_far_off(shares: dict[str, float], digits: int) -> None:
    found = rounded(shares, digits)
    unit = 10.0**-digits
    assert found.keys() == shares.keys()
    assert all(abs(found[name] - share) <= unit * 1.0001 for name, share in shares.items())
    assert sum(found.values()) == pytest.approx(round(sum(shares.values()) / unit) * unit, abs=unit * 1e-3)


def _sevenths(summary: Summary) -> Summary:
    row = replace(summary.threads[0], states=SEVENTHS)
    groups = dict.fromkeys(("compute", "gpu_wait", "other_wait", "idle"), 0.0) | {"compute": 3 / 7, "idle": 4 / 7}
    headline = Headline(row.pid, row.tid, row.name, **groups, states=SEVENTHS, detail={})
    return replace(summary, headline=headline, threads=(row,))


def test_the_title_says_how_the_program_ended(seen: Summary) -> None:
    summary = replace(seen, ended={seen.session.root.pid: 139})
    assert "· ended by signal 11 (SIGSEGV)" in text(summary, 11).splitlines()[1]
    assert text(summary, 0).splitlines()[1].endswith("· exited with code 139")
    assert text(summary).splitlines()[1].endswith("· exited with code 139 (128 + SIGSEGV?)")


def _percents(line: str) -> list[float]:
    return [float(part.split()[-1]) for part in line.split(" %")[:-1]]


def test_printed_shares_of_a_thread_make_100(seen: Summary) -> None:
    summary = _sevenths(seen)
    lines = text(summary).splitlines()
    first = next(place for place, line in enumerate(lines) if line.endswith("spent its time:"))
    assert sum(_percents(line)[0] for line in lines[first + 1 : first + 8]) == pytest.approx(100)
    (row,) = [line for line in lines if line.startswith(f"  {summary.threads[0].name}") and " cpu " in line]
    assert sum(_percents(row)[1:]) == 100
    assert sum(_percents(brief(summary).splitlines()[2])) == 100
    data = document(summary)
    assert sum(data["threads"][0]["states"].values()) == pytest.approx(1, abs=1e-9)
    assert sum(data["headline"][group] for group in ("compute", "gpu_wait", "other_wait", "idle")) == pytest.approx(1)


def test_workers_of_one_name_are_told_apart_and_idle_ones_come_last(seen: Summary) -> None:
    root = seen.session.root.pid
    main = replace(seen.threads[0], pid=root, tid=root, main=True, name="MainThread", seconds=9.0)
    idle = [replace(main, tid=root + 1 + i, main=False, name=f"idle-{i}", states={"idle": 1.0}) for i in range(20)]
    worker = replace(main, pid=root + 99, tid=root + 99, states={"native": 1.0})
    other = replace(worker, pid=root + 98, tid=root + 98, states={"native": 0.5, "idle": 0.5})
    lines = text(replace(seen, threads=(main, *idle, other, worker))).splitlines()
    first = lines.index("threads")
    assert lines[first + 1].startswith("  MainThread  ")
    assert lines[first + 2].startswith(f"  MainThread · {worker.pid} ")
    assert lines[first + 3].startswith(f"  MainThread · {other.pid} ")


def test_a_damaged_recording_is_said_before_anything_else(seen: Summary) -> None:
    cut = Note(1.0, "recording", "cut", "the recording has no end", "what could be read is shown")
    printed = text(replace(seen, notes=(*seen.notes, cut)))
    assert printed.count(cut.what) == 1
    assert printed.index(f"! {cut.what}") < printed.index(seen.verdict.sentence)


def test_what_is_the_same_of_many_processes_is_said_once() -> None:
    slow = [Note(float(i), "stacks", f"pace:{i}", f"stacks of w (pid {i}) only 5 times", "more") for i in range(1, 52)]
    refused = Note(1.0, "peek", "refused.7", "no right to look into w (pid 7)", "sudo")
    gpus = [Note(1.0, "gpu", f"lost:{i}", f"GPU {i} is lost") for i in range(2)]
    first, *others = folded([*slow, refused, *gpus])
    assert first.what == "stacks of w (pid 1) only 5 times, and much the same of 50 other processes"
    assert others == [refused, *gpus]
