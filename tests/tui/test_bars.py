"""Bars, areas and curves: known pictures."""

from __future__ import annotations

from gputop.model import NA
from gputop.tui import bars
from gputop.tui.cells import width_of
from gputop.tui.glyphs import ASCII, BLOCK, BRAILLE


def _text(line: tuple[tuple[str, str], ...]) -> str:
    return "".join(text for text, _ in line)


def test_parts_add_up_whatever_the_rounding() -> None:
    parts = bars.quantise([("python", 1 / 3), ("native", 1 / 3), ("idle", 1 / 3)], 5)
    assert sum(eighths for _, eighths in parts) == 40
    assert [eighths for _, eighths in parts] == [13, 14, 13]


def test_what_is_too_small_for_an_eighth_takes_no_room() -> None:
    assert bars.quantise([("python", 0.001), ("native", 0.999)], 4) == (("native", 32),)


def test_two_parts_meet_inside_a_cell() -> None:
    cells = bars.split((("python", 12), ("native", 4)), 2)
    assert cells == (bars.Cell("python", "python", 8), bars.Cell("python", "native", 4))


def test_of_three_parts_in_a_cell_the_smallest_is_left_out() -> None:
    cells = bars.split((("python", 3), ("gil", 1), ("native", 4)), 1)
    assert cells == (bars.Cell("python", "native", 3),)


def test_a_coloured_bar_draws_one_part_on_the_other() -> None:
    line = bars.bar([("python", 0.75), ("native", 0.25)], 2, BLOCK, coloured=True)
    assert line == ((" ", "letter/python"), ("▌", "python/native"))


def test_without_colour_each_cell_is_the_states_glyph() -> None:
    shares = [("python", 0.5), ("gpu_wait", 0.5)]
    assert _text(bars.bar(shares, 4, BLOCK, coloured=False)) == "██GG"
    assert _text(bars.bar(shares, 4, ASCII, coloured=True)) == "PPGG"


def test_states_are_stacked_upwards_in_their_order() -> None:
    column = bars.quantise(bars.in_order([("idle", 0.5), ("python", 0.5)]), 4)
    rows = bars.stack([column], 4, 1, BLOCK, coloured=False)
    assert [_text(row) for row in rows] == ["·", "·", "█", "█"]


def test_areas_carry_letters_that_move_with_time() -> None:
    column = bars.quantise([("native", 1.0)], 1)
    now = _text(bars.stack([column] * 30, 1, 0, BLOCK, coloured=True)[0])
    later = _text(bars.stack([column] * 30, 1, 1, BLOCK, coloured=True)[0])
    assert now.count("N") == 3
    assert later.index("N") == (now.index("N") - 1) % 14


def test_a_curve_of_blocks_and_of_braille() -> None:
    values = (0.0, 0.5, 1.0, NA("not measured"))
    assert _text(bars.curve(values, 1, "gpu", BLOCK)[0]) == "▁▄█ "
    upper, lower = (_text(row) for row in bars.curve(values, 2, "gpu", BLOCK))
    assert (upper, lower) == ("  █ ", "▁██ ")
    assert _text(bars.curve((1.0, 1.0), 1, "gpu", BRAILLE)[0]) == "⣿⣿"
    assert _text(bars.curve((0.0, 1.0), 1, "gpu", BRAILLE)[0]) == "⣀⣸"


def test_a_curve_is_as_wide_as_its_values() -> None:
    for glyphs in (BRAILLE, BLOCK, ASCII):
        for row in bars.curve((0.2,) * 7, 3, "gpu", glyphs):
            assert width_of(row) == 7


def test_a_meter_shows_ours_others_and_what_is_free() -> None:
    line = bars.meter([("cpu", 0.25), ("others", 0.25)], 8, BLOCK)
    assert line == (("━━", "cpu"), ("━━", "others"), ("────", "rule"))
    assert _text(bars.meter([("cpu", 0.3)], 8, BLOCK)) == "━━╾─────"
