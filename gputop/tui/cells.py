"""Text in terminal cells: lines of styled spans with an exact width, and numbers with their units.

A `Span` is (text, style), with styles as `gputop.tui.theme` names them. A `Line` is a tuple of spans.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size

from gputop.model import NA, Value

Span = tuple[str, str]
Line = tuple[Span, ...]

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def width_of(spans: Iterable[Span]) -> int:
    """Return the number of cells that spans take."""
    return sum(cell_len(text) for text, _ in spans)


def fit(text: str, width: int, ellipsis: str = "…") -> str:
    """Return `text` in exactly `width` cells: padded, or cut at the end with an ellipsis."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    if width <= len(ellipsis):
        return set_cell_size(text, max(0, width))
    return set_cell_size(text, width - len(ellipsis)) + ellipsis


def fit_end(text: str, width: int, ellipsis: str = "…") -> str:
    """Return `text` in exactly `width` cells, cut at the start (a path's end says more than its beginning)."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    while text and cell_len(text) > width - len(ellipsis):
        text = text[max(1, (cell_len(text) - width) // 2) :]
    return set_cell_size(ellipsis + text, max(0, width))


def short(file: str) -> str:
    """Return a file as readers know it: from its package on, else with the folder that it is in."""
    for mark in ("/site-packages/", "/dist-packages/"):
        if mark in file:
            return file.rpartition(mark)[2]
    parts = file.rsplit("/", 2)
    return file if len(parts) < 3 else "/".join(parts[-2:])


def line(left: Iterable[Span], width: int, right: Iterable[Span] = (), fill: Span = (" ", "text")) -> Line:
    """Return one line of exactly `width` cells: `left`, then `fill` repeated, then `right`.

    Where both do not fit, `right` is dropped first; then `left` is cut.
    """
    left, right = tuple(left), tuple(right)
    used, wanted = width_of(left), width_of(right)
    if right and used + wanted + 1 > width:
        right, wanted = (), 0
    if used > width:
        return _cut(left, width)
    gap = width - used - wanted
    text, style = fill
    return _joined((*left, (text * gap, style), *right))


def _cut(spans: tuple[Span, ...], width: int) -> Line:
    kept: list[Span] = []
    for text, style in spans:
        size = cell_len(text)
        if size > width:
            kept.append((fit(text, width), style))
            break
        kept.append((text, style))
        width -= size
    return _joined(kept)


def _joined(spans: Iterable[Span]) -> Line:
    """Merge neighbours of one style: fewer escape sequences to write."""
    merged: list[Span] = []
    for text, style in spans:
        if not text:
            continue
        if merged and merged[-1][1] == style:
            merged[-1] = (merged[-1][0] + text, style)
        else:
            merged.append((text, style))
    return tuple(merged)


def wrap(text: str, width: int, most: int = 1000) -> list[str]:
    """Break `text` at spaces into at most `most` lines; the last one is cut where more is left."""
    lines: list[str] = []
    current = ""
    words = text.split()
    for index, word in enumerate(words):
        candidate = f"{current} {word}" if current else word
        if cell_len(candidate) <= width or not current:
            current = candidate
            continue
        if len(lines) == most - 1:
            return [*lines, fit(" ".join([current, *words[index:]]), width).rstrip()]
        lines.append(fit(current, width).rstrip())
        current = word
    return [*lines, fit(current, width).rstrip()] if current else lines


# ------------------------------------------------------------------------------------------------- numbers


def percent(share: Value | None, digits: int = 0) -> str:
    """Return a share as percent with its unit ("28 %"); "n/a" where there is none."""
    if share is None or isinstance(share, NA):
        return "n/a"
    return f"{100 * share:.{digits}f} %"


def number(value: Value | None, unit: str, digits: int = 0) -> str:
    """Return a value with its unit ("210 W"); "n/a" where there is none."""
    if value is None or isinstance(value, NA):
        return "n/a"
    return f"{value:.{digits}f} {unit}"


def gib(value: Value | None, digits: int = 1) -> str:
    """Return bytes as GiB, without the unit ("12.4"); "n/a" where there is none."""
    if value is None or isinstance(value, NA):
        return "n/a"
    amount = value / (1 << 30)
    return f"{amount:.{0 if amount >= 100 else digits}f}"


def size(value: Value | None) -> str:
    """Return bytes in a fitting binary unit ("812 MiB"); "n/a" where there is none."""
    if value is None or isinstance(value, NA):
        return "n/a"
    for unit in ("B", "KiB", "MiB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def clock_time(unix: float) -> str:
    """Return the local time of day: "14:02:33"."""
    return time.strftime("%H:%M:%S", time.localtime(unix))


def duration(seconds: float) -> str:
    """Return a duration as people say it: "0:42", "1:12:44", "3 d 04:10"."""
    whole = int(max(0, seconds))
    if whole < _HOUR:
        return f"{whole // _MINUTE}:{whole % _MINUTE:02d}"
    if whole < _DAY:
        return f"{whole // _HOUR}:{whole % _HOUR // _MINUTE:02d}:{whole % _MINUTE:02d}"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR:02d}:{whole % _HOUR // _MINUTE:02d}"


def many(count: int, one: str, several: str = "") -> str:
    """Return "1 thread", "2 threads", "2 children": `several` is for words that do not just take an s."""
    return f"{count} {one if count == 1 else several or one + 's'}"
