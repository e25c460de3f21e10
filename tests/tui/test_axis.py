"""The words under a time axis."""

from __future__ import annotations

import pytest

from gputop.tui import axis


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (60.0, ["-60 s", "-45 s", "-30 s", "-15 s", "now"]),
        (20.6, ["-20 s", "-15 s", "-10 s", "-5 s", "now"]),
        (10.0, ["-10 s", "-8 s", "-6 s", "-4 s", "-2 s", "now"]),
        (600.0, ["-10 min", "-8 min", "-6 min", "-4 min", "-2 min", "now"]),
        (0.35, ["-0.3 s", "-0.2 s", "-0.1 s", "now"]),
    ],
)
def test_round_times_stand_where_they_are(seconds: float, said: list[str]) -> None:
    text = axis.labels(seconds, 120, "-", "now")
    assert len(text) == 120
    words = [f"{word} {unit}" for word, unit in zip(text.split()[:-1:2], text.split()[1::2], strict=True)]
    assert [*words, text.split()[-1]] == said
    for label in words:
        number, unit = label.split()
        ago = -float(number) * (60 if unit == "min" else 1)
        assert abs(text.index(label) - 120 * (1 - ago / seconds)) <= 0.5


def test_a_short_axis_has_few_words_and_none_that_touch() -> None:
    assert axis.labels(60.0, 26, "-", "now") == "-60 s        -30 s     now"
    assert axis.labels(60.0, 9, "-", "14:02:33") == " 14:02:33"
    assert axis.labels(0.0, 8, "-", "now") == "     now"
