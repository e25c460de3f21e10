"""The call tree by function, from the other end, and searched: known trees."""

from __future__ import annotations

import pytest

from gputop.analysis import calls, hot
from gputop.analysis.results import FlameNode
from gputop.analysis.rules import Classified
from gputop.analysis.split import StackSplit
from gputop.model import Frame
from tests.fakes.program import grown

MAIN, AT_10, AT_20 = Frame("main", "a.py", 1), Frame("step", "a.py", 10), Frame("step", "a.py", 20)
LEAF, OTHER = Frame("leaf", "b.py", 5), Frame("other", "b.py", 9)


def _tree() -> FlameNode:
    return grown(
        (
            ((MAIN, AT_10, LEAF), 4.0, {"python": 1.0}),
            ((MAIN, AT_20, LEAF), 3.0, {"native": 1.0}),
            ((MAIN, AT_20), 1.0, {"io": 1.0}),
            ((MAIN, OTHER), 2.0, {"gpu_wait": 1.0}),
        )
    )


def _names(node: FlameNode) -> list[tuple[str, float, float]]:
    return [(child.frame.name, round(child.total, 6), round(child.self, 6)) for child in node.children]


def test_lines_of_one_function_become_one_node() -> None:
    (main,) = calls.by_function(_tree()).children
    assert _names(main) == [("step", 8.0, 1.0), ("other", 2.0, 2.0)]
    step = main.children[0]
    assert step.frame.line in (10, 20)
    assert step.states == pytest.approx({"python": 0.5, "native": 0.375, "io": 0.125})
    assert _names(step) == [("leaf", 7.0, 7.0)]


def test_functions_by_the_time_in_themselves_with_their_callers_below() -> None:
    root = calls.inverted(_tree())
    assert _names(root) == [("leaf", 7.0, 7.0), ("other", 2.0, 2.0), ("step", 1.0, 1.0)]
    assert root.total == pytest.approx(10.0)
    leaf = root.children[0]
    assert leaf.states == pytest.approx({"python": 4 / 7, "native": 3 / 7})
    assert _names(leaf) == [("step", 7.0, 0.0)]
    assert _names(leaf.children[0]) == [("main", 7.0, 0.0)]
    by_line = calls.inverted(_tree(), by_line=True).children[0]
    assert sorted((child.frame.line, child.total) for child in by_line.children) == [(10, 4.0), (20, 3.0)]


def test_what_a_nodes_own_time_went_into() -> None:
    main = _tree().children[0]
    step = next(child for child in main.children if child.frame.line == 20)
    assert calls.own_states(step) == pytest.approx({"io": 1.0})
    assert calls.own_states(step.children[0]) == {"native": 1.0}


def test_matches_count_each_second_once() -> None:
    count, seconds = calls.matched(_tree(), lambda frame: frame.name in ("step", "leaf"))
    assert count == 4
    assert seconds == pytest.approx(8.0)
    assert calls.matched(_tree(), lambda frame: frame.file == "none") == (0, 0.0)


def test_very_deep_stacks() -> None:
    deep = tuple(Frame(f"f{depth % 7}", "deep.py", depth) for depth in range(900))
    tree = hot.tree([StackSplit(deep, {Classified("python", ""): 1.0})])
    for shaped in (calls.by_function(tree), calls.inverted(tree)):
        depth, node = 0, shaped
        while node.children:
            depth, node = depth + 1, node.children[0]
        assert depth == 900


def test_calls_left_out_give_their_time_to_their_caller() -> None:
    inner = FlameNode(Frame("own", "a.py", 7), 2.0, 2.0, {"python": 1.0}, ())
    deep = FlameNode(Frame("deep", "lib", 3), 5.0, 3.0, {"native": 0.6, "python": 0.4}, (inner,))
    entry = FlameNode(Frame("entry", "lib", 1), 6.0, 1.0, {"native": 1.0}, (deep,))
    root = FlameNode(Frame("all", "", 0), 8.0, 2.0, {"native": 1.0}, (entry,))
    found = calls.without(root, lambda frame, caller: frame.file == caller.file == "lib")
    (kept,) = found.children
    assert (kept.frame.name, kept.total, kept.self) == ("entry", 6.0, 4.0)
    assert [(child.frame.name, child.total) for child in kept.children] == [("own", 2.0)]
    assert (found.total, found.self) == (8.0, 2.0)
    gone = calls.without(root, lambda frame, _: frame.file == "lib")
    assert (gone.self, [child.frame.name for child in gone.children]) == (6.0, ["own"])
