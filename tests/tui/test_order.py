"""Rows keep their places until it is worth moving them, and the cursor follows its row."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gputop.tui.order import Order
from gputop.tui.table import Table
from gputop.tui.view import View
from tests.tui.running import still

A, B, C = ("a",), ("b",), ("c",)


def test_small_changes_move_nothing() -> None:
    order = Order()
    assert order.settle({A: 0.40, B: 0.39}, "self") == [A, B]
    assert order.settle({A: 0.39, B: 0.41}, "self") == [A, B]
    assert order.settle({A: 0.30, B: 0.41}, "self") == [B, A]


def test_new_rows_come_in_at_their_place_and_old_ones_go() -> None:
    order = Order()
    order.settle({A: 0.5, B: 0.1}, "self")
    assert order.settle({A: 0.5, B: 0.1, C: 0.3}, "self") == [A, C, B]
    assert order.settle({B: 0.1, C: 0.3}, "self") == [C, B]


def test_what_stays_out_of_order_is_put_right_and_what_sways_is_not() -> None:
    order = Order()
    order.settle({A: 0.40, B: 0.39}, "self")
    assert [order.settle({A: 0.40, B: 0.41}, "self")[0] for _ in range(6)] == [A, A, A, A, B, B]
    for sway in range(20):
        assert order.settle({A: 0.42 if sway % 3 == 0 else 0.40, B: 0.41}, "self") == [B, A]


def test_among_many_rows_that_sway_none_moves() -> None:
    """Some row is out of order in every picture, but not the same."""
    sway = random.Random(4)
    keys: list[tuple[str, ...]] = [(str(number),) for number in range(40)]
    order = Order()
    first = order.settle({key: 0.5 - 0.001 * place for place, key in enumerate(keys)}, "self")
    for _ in range(60):
        values = {key: 0.5 - 0.001 * place + sway.uniform(-0.0008, 0.0008) for place, key in enumerate(keys)}
        moved = order.settle(values, "self")
        assert sum(before != after for before, after in zip(first, moved, strict=True)) <= 4
        first = moved


def test_another_column_sorts_afresh() -> None:
    order = Order()
    order.settle({A: 0.40, B: 0.39}, "self")
    assert order.settle({A: 0.40, B: 0.41}, "total") == [B, A]


@given(st.lists(st.dictionaries(st.tuples(st.text("xyz", max_size=3)), st.floats(0, 1), max_size=12), max_size=5))
def test_no_row_is_lost_and_no_row_is_far_from_its_place(steps: list[dict[tuple[str, ...], float]]) -> None:
    order = Order()
    for values in steps:
        keys = order.settle(values, "self")
        assert sorted(keys) == sorted(values)
        for above, below in pairwise(keys):
            assert values[below] <= values[above] * 1.10 + 0.005 + 1e-9


def _table(**choices: object) -> tuple[Table, View]:
    view, table = View(**choices), Table()  # type: ignore[arg-type]
    table.update(still("starved").summary, view)
    table.fitted(view, 5)
    return table, view


def test_the_cursor_follows_its_row_and_stays_in_sight() -> None:
    table, view = _table()
    for _ in range(8):
        table.move(view, 1)
    assert table.cursor(view) == 7
    assert table.rows[7] in table.fitted(view, 5)
    view.sort = "function"
    chosen = view.selected
    table.update(still("starved").summary, view)
    assert view.selected == chosen


def test_the_cursor_stops_at_both_ends() -> None:
    table, view = _table()
    table.move(view, -1)
    assert table.cursor(view) == 0
    table.move(view, 1_000_000)
    assert table.cursor(view) == len(table.rows) - 1
    table.scroll(view, -1000)
    assert view.top == 0


def test_the_filter_looks_at_functions_and_files() -> None:
    table, _ = _table(filter="CONV")
    assert [row.file.rpartition("/")[2] for row in table.rows] == ["conv.py"]
    assert table.found == 12


def test_sorting_by_name_and_by_file() -> None:
    table, _ = _table(sort="function")
    names = [row.name.lower() for row in table.rows]  # type: ignore[union-attr]
    assert names == sorted(names)
    table, _ = _table(sort="file")
    files = [row.file for row in table.rows]
    assert files == sorted(files)
