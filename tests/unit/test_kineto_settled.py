"""When a launched program's imports are over, and whether a program profiles itself."""

from __future__ import annotations

import pytest

from gputop.model import Frame, ProcessBatch
from gputop.snapshot.kineto.settled import imports_are_over, profiles_itself
from gputop.store import Store
from tests.fakes import shots
from tests.fakes.shots import COMPUTING, MAIN, PID, START

IMPORTING = (MAIN, Frame("_find_and_load", "<frozen importlib._bootstrap>", 1176), Frame("<module>", "torch/a.py", 1))
WORKING = (MAIN, shots.STEP)


def seen(*stacks: tuple[float, float, tuple[Frame, ...]]) -> Store:
    store = shots.store()
    for stack in stacks:
        shots.add_stacks(store, PID, [stack])
    return store


@pytest.mark.parametrize(
    ("store", "over"),
    [
        (seen(), False),
        (seen((0.0, 1.0, WORKING)), False),
        (seen((0.0, 2.0, IMPORTING)), False),
        (seen((0.0, 2.0, WORKING), (2.0, 2.1, IMPORTING)), False),
        (seen((0.0, 1.0, WORKING), (1.0, 2.0, WORKING)), True),
    ],
    ids=["nothing seen", "too short", "importing", "importing again", "working"],
)
def test_python_is_done_once_it_has_worked_for_a_while(store: Store, over: bool) -> None:
    assert imports_are_over(store, PID, START + 2.5) == over


@pytest.mark.parametrize(
    ("ago", "file", "own"),
    [
        (1.0, "/venv/torch/profiler/profiler.py", True),
        (1.0, "/venv/torch/autograd/profiler.py", False),
        (99.0, "/venv/torch/profiler/profiler.py", False),
    ],
)
def test_a_program_that_was_seen_in_torchs_profiler_profiles_itself(ago: float, file: str, own: bool) -> None:
    store = seen((100.0 - ago, 100.1 - ago, (MAIN, Frame("step", file, 7))))
    assert profiles_itself(store, PID, START + 101.0) is own


def test_imports_of_long_ago_do_not_count() -> None:
    store = seen((0.0, 2.0, IMPORTING), (2.0, 5.0, WORKING))
    assert not imports_are_over(store, PID, START + 4.5)
    assert imports_are_over(store, PID, START + 5.5)


def test_what_is_not_python_is_done_once_it_was_looked_at() -> None:
    store = shots.store()
    bare = shots.process()
    store.add(ProcessBatch(START, (type(bare)(bare.pid, 1, bare.started_unix, ("spin",), name="spin"),)))
    assert not imports_are_over(store, PID, START + 2)
    shots.add_peeks(store, PID, [(0.1 * i, COMPUTING) for i in range(1, 20)], 0.1)
    assert imports_are_over(store, PID, START + 2)
