"""The words under a time axis: round times, each where it is."""

from __future__ import annotations

#: Lengths between two labels, seconds: the first that gives at most `_MOST` of them is taken.
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
_MOST = 5
#: Cells from one label to the next, at least.
_APART = 12


def labels(seconds: float, cells: int, minus: str, end: str) -> str:
    """Return the text under an axis that ends with `end` and is so many cells long."""
    most = max(1, min(_MOST, cells // _APART))
    step = next((step for step in _STEPS if seconds <= step * most), seconds)
    text = [" "] * cells
    _write(text, cells - len(end), end)
    if seconds > 0:
        for number in range(int(seconds / step + 1e-9), 0, -1):
            _write(text, round(cells * (1 - number * step / seconds)), f"{minus}{_said(number * step)}")
    return "".join(text)


def _said(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 120 or seconds % 60 else f"{seconds / 60:g} min"


def _write(text: list[str], at: int, words: str) -> None:
    """Write words into the text, where they fit before its end and touch nothing."""
    free = text[max(0, at - 1) : at + len(words) + 1]
    if at >= 0 and at + len(words) <= len(text) and not "".join(free).strip():
        text[at : at + len(words)] = words
