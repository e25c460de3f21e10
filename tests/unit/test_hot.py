"""Hottest functions and lines, and the call tree: known answers."""

from __future__ import annotations

import sys

import pytest

from gputop.analysis import hot
from gputop.analysis.native import NativeCall
from gputop.analysis.split import thread_states
from gputop.model import Frame, Window
from gputop.store import Store, ThreadKey
from tests.unit.analysis_tools import (
    DECODE,
    LOCK,
    MAIN,
    NATIVE,
    PID,
    PYTHON,
    STEP,
    SYNC,
    WORKER,
    host,
    peeks,
    stacks,
    stored,
)

KEY, OTHER, PARKED = ThreadKey(PID, PID), ThreadKey(PID, 101), ThreadKey(PID, 102)
WINDOW = Window(0, 10)


@pytest.fixture
def store() -> Store:
    """A main thread that decodes (3 s of computing, 3 s of a lock) and steps (4 s waiting for the GPU), a helper that
    computes for 2 s of 10, and a parked one."""
    return stored(
        peeks(PID, [(0, 3, PYTHON), (3, 6, LOCK), (6, 10, SYNC)], frames=(DECODE, DECODE, STEP)),
        stacks(PID, [(0, 6, (MAIN, DECODE)), (6, 10, (MAIN, STEP))]),
        peeks(101, [(0, 2, NATIVE), (2, 10, LOCK)]),
        stacks(101, [(0, 2, (Frame("helper", "h.py", 5),)), (2, 10, WORKER)], name="helper"),
        peeks(102, [(0, 10, LOCK)], period=0.2),
        stacks(102, [(0, 10, WORKER)], name="parked"),
    )


def test_self_total_and_states_of_the_headline(store: Store) -> None:
    rows = {row.name: row for row in hot.functions(store, [KEY], WINDOW, KEY)}
    assert rows["decode"].self_share == pytest.approx(0.6, abs=1e-6)
    assert rows["decode"].states == pytest.approx({"python": 0.5, "lock": 0.5}, abs=1e-6)
    assert (rows["decode"].file, rows["decode"].line) == ("data.py", 31)
    assert rows["step"].self_share == rows["step"].total_share == pytest.approx(0.4, abs=1e-6)
    assert rows["step"].states == {"gpu_wait": 1.0}
    assert rows["main"].self_share == 0.0
    assert rows["main"].total_share == pytest.approx(1.0, abs=1e-6)
    assert rows["main"].states == pytest.approx({"python": 0.3, "lock": 0.3, "gpu_wait": 0.4}, abs=1e-6)


def test_other_threads_count_with_their_work_only(store: Store) -> None:
    rows = hot.functions(store, [KEY, OTHER, PARKED], WINDOW, KEY)
    assert [(row.name, round(row.self_share, 5)) for row in rows[:3]] == [
        ("decode", 0.6),
        ("step", 0.4),
        ("helper", 0.2),
    ]
    assert "_worker" not in {row.name for row in rows}


def test_without_a_headline_everything_counts(store: Store) -> None:
    rows = hot.functions(store, [OTHER, PARKED], WINDOW)
    assert rows[0].name == "wait"
    assert rows[0].self_share == pytest.approx(1.8, abs=1e-6)
    assert rows[0].states == {"idle": 1.0}, "a pool's worker without work is idle, not waiting"


def test_recursion_counts_once_in_a_total() -> None:
    fib = tuple(Frame("fib", "fib.py", line) for line in (3, 3, 3, 1))
    store = stored(peeks(PID, [(0, 10, PYTHON)]), stacks(PID, [(0, 10, (MAIN, *fib))]))
    rows = {row.name: row for row in hot.functions(store, [KEY], WINDOW)}
    assert rows["fib"].self_share == rows["fib"].total_share == pytest.approx(1.0)
    lines = {(row.function, row.line): row for row in hot.lines(store, [KEY], WINDOW)}
    assert lines["fib", 3].total_share == pytest.approx(1.0)
    assert lines["fib", 3].self_share == 0.0
    assert lines["fib", 1].self_share == pytest.approx(1.0)


def test_a_function_is_its_name_and_file_its_line_the_hottest() -> None:
    run = [Frame("run", "a.py", 1), Frame("run", "a.py", 2), Frame("run", "b.py", 3)]
    store = stored(
        peeks(PID, [(0, 10, PYTHON)]), stacks(PID, [(0, 2, (run[0],)), (2, 7, (run[1],)), (7, 10, (run[2],))])
    )
    rows = hot.functions(store, [KEY], WINDOW)
    assert [(row.file, row.line, round(row.self_share, 6)) for row in rows] == [("a.py", 2, 0.7), ("b.py", 3, 0.3)]


def test_without_looks_on_a_cpu_counts_as_work() -> None:
    """No ptrace right: a busy helper is listed with its CPU share, a parked one is not."""
    store = stored(
        *(host(0.5 * number, {PID: 1.0, 101: 0.5, 102: 0.0}) for number in range(1, 21)),
        stacks(PID, [(0, 10, (MAIN, DECODE))]),
        stacks(101, [(0, 10, (Frame("helper", "h.py", 5),))]),
        stacks(102, [(0, 10, WORKER)]),
    )
    cpu = store.cpu(WINDOW)
    splits = [(thread_states(store, key, WINDOW, cpu[key]), key == KEY) for key in (KEY, OTHER, PARKED)]
    functions, _ = hot.tables(hot.weigh(splits), WINDOW.seconds)
    assert [(row.name, round(row.self_share, 6)) for row in functions[:2]] == [("decode", 1.0), ("helper", 0.5)]
    assert "_worker" not in {row.name for row in functions}


def test_shares_are_of_the_time_that_stacks_were_watched() -> None:
    """py-spy is a second late and loses a tenth of a second to attaching; another process does not count."""
    store = stored(
        peeks(PID, [(0, 10, PYTHON)]),
        stacks(PID, [(0, 2, (MAIN, DECODE)), (2, 4.5, (MAIN, STEP))]),
        stacks(PID, [(4, 6, (MAIN, STEP))]),  # overlaps
        stacks(PID, [(7, 9, (MAIN, STEP))]),
        stacks(200, [(0, 10, (MAIN, STEP))], pid=200),
    )
    assert store.stacks_cover(PID, WINDOW) == pytest.approx(8.0)
    assert store.stacks_cover(PID, Window(5, 8)) == pytest.approx(2.0)
    rows = {row.name: row for row in hot.functions(store, [KEY], WINDOW)}
    assert rows["decode"].self_share == pytest.approx(0.25)
    assert rows["step"].self_share == pytest.approx(0.75)
    assert rows["main"].total_share == pytest.approx(1.0)


def test_only_so_many_rows() -> None:
    many = [(number * 0.01, number * 0.01 + 0.01, (Frame(f"f{number}", "x.py", number),)) for number in range(1000)]
    store = stored(peeks(PID, [(0, 10, PYTHON)]), stacks(PID, many))
    assert len(hot.functions(store, [KEY], WINDOW)) == hot.MOST_ROWS


def test_a_caller_without_time_of_its_own_is_not_crowded_out() -> None:
    loop = Frame("loop", "x.py", 5000)
    many = [
        (number * 0.01, number * 0.01 + 0.01, (loop, Frame(f"f{number}", "x.py", number))) for number in range(1000)
    ]
    store = stored(peeks(PID, [(0, 5, PYTHON), (5, 10, NATIVE)]), stacks(PID, many))
    row = next(row for row in hot.lines(store, [KEY], WINDOW) if row.line == 5000)
    assert (row.self_share, row.total_share) == pytest.approx((0.0, 1.0))
    assert row.total_states == pytest.approx({"python": 0.5, "native": 0.5}, abs=0.01)


def test_flame_tree(store: Store) -> None:
    root = hot.flame(store, [KEY], WINDOW)
    assert (root.frame.name, round(root.total, 5), root.self) == ("all", 10.0, 0.0)
    (main,) = root.children
    assert main.frame == MAIN
    assert [(child.frame, round(child.total, 5), round(child.self, 5)) for child in main.children] == [
        (DECODE, 6.0, 3.0),
        (STEP, 4.0, 0.0),
    ]
    decode, step = ((child.frame, round(child.total, 5)) for node in main.children for child in node.children)
    assert decode == (NativeCall("__futex_abstimed_wait_common", "libc.so.6", 0), 3.0), "the interpreter ran the rest"
    assert step == (NativeCall("cuStreamSynchronize", "libcuda.so.1", 0), 4.0), "what the driver does in it is its"
    assert main.children[1].states == {"gpu_wait": 1.0}
    assert main.states == pytest.approx({"python": 0.3, "lock": 0.3, "gpu_wait": 0.4}, abs=1e-6)


def test_thin_paths_are_pruned(store: Store) -> None:
    (main,) = hot.flame(store, [KEY], WINDOW, min_share=0.5).children
    assert [child.frame for child in main.children] == [DECODE]
    assert main.total == pytest.approx(10.0, abs=1e-5), "what is pruned still counts above"


def test_a_very_deep_stack_is_no_problem() -> None:
    deep = tuple(Frame("dive", "deep.py", level) for level in range(2 * sys.getrecursionlimit()))
    store = stored(peeks(PID, [(0, 10, PYTHON)]), stacks(PID, [(0, 10, deep)]))
    node, depth = hot.flame(store, [KEY], WINDOW), 0
    while node.children:
        (node,), depth = node.children, depth + 1
    assert depth == len(deep)
    assert node.self == pytest.approx(10.0, abs=1e-5)


def test_an_empty_window_has_no_rows_and_an_empty_tree(store: Store) -> None:
    nothing = Window(50, 60)
    assert hot.functions(store, [KEY], nothing) == ()
    assert hot.lines(store, [KEY], nothing) == ()
    assert hot.flame(store, [KEY], nothing).children == ()
