"""The hottest functions or lines: how much of the window, what they do in it, and where they are."""

from __future__ import annotations

from typing import NamedTuple

from gputop.tui import table
from gputop.tui.actions import SORTS
from gputop.tui.bars import bar, in_order
from gputop.tui.cells import Line, Span, fit, fit_end, line, short
from gputop.tui.panels.base import Panel, Rows, padded, rule
from gputop.tui.table import Row
from gputop.tui.view import Scene

_NUMBER = 8  # " 61.2 % "
#: Cells of a name: with more, the eye loses the row on its way to the file.
_MOST_NAME = 72


class _Columns(NamedTuple):
    """Widths of the columns; 0 leaves one out."""

    total: int
    bar: int
    name: int
    file: int


def _columns(width: int) -> _Columns:
    if width < 60:
        return _Columns(0, 0, width - _NUMBER - 1, 0)
    bar_width = 8 if width < 72 else 12 if width < 100 else 18 if width < 160 else 30
    rest = width - 2 * _NUMBER - bar_width - 5
    file = min(44, rest // 2)
    return _Columns(_NUMBER, bar_width, min(_MOST_NAME, rest - file), file)


def _rows(_scene: Scene, _width: int, height: int) -> Rows:
    return Rows(3 if height < 16 else 4, height, 4)


def _draw(scene: Scene, width: int, height: int) -> list[Line]:
    columns = _columns(width)
    heads = height >= 6
    shown = scene.table.fitted(scene.view, height - 1 - heads)
    lines = [_title(scene, width)]
    if heads:
        lines.append(_heads(scene, columns, width))
    cursor = scene.view.selected
    biggest = max((row.self_share for row in scene.table.rows[:50]), default=0.0) or 1.0
    lines += [_row(scene, row, columns, width, biggest, table.key(row) == cursor) for row in shown]
    if not shown:
        lines.append(line(((f"  {_empty(scene)}", "dim"),), width))
    return padded(lines, width, height)


def _title(scene: Scene, width: int) -> Line:
    what = "hottest lines" if scene.view.by_line else "hottest functions"
    title: list[Span] = [(what, "strong!b")]
    for words, value in _choices(scene):
        title += [(f" {scene.glyphs.dot} {words}", "title"), (value, "warn!b")]
    count, first = len(scene.table.rows), scene.view.top
    page = scene.table.page
    right: list[Span] = []
    if count > page:
        right = [(f"{first + 1}–{min(count, first + page)} of {count}", "title")]
    return rule(scene, title, width, right)


def _choices(scene: Scene) -> list[tuple[str, str]]:
    """Return what is left out of the table or looked for in it, each in words and its value."""
    view = scene.view
    shown = [
        ("", "own code" if view.own else ""),
        ("at least ", f"{100 * view.least:g} %" if view.least else ""),
        ("", "one thread" if view.alone else ""),
        ("filter ", view.filter),
        ("search ", f"{view.search} {_found(scene)}" if view.search else ""),
    ]
    return [(words, value) for words, value in shown if value]


def _found(scene: Scene) -> str:
    """Say which match the cursor is on: "2/7"."""
    found, at = scene.table.found_by(scene.view), scene.table.cursor(scene.view)
    return f"{found.index(at) + 1 if at in found else 0}/{len(found)}"


def _heads(scene: Scene, columns: _Columns, width: int) -> Line:
    mark = scene.glyphs.down
    labels = {name: name + (mark if scene.view.sort == name else "") for name in SORTS}
    tone = {name: "accent" if scene.view.sort == name else "dim" for name in SORTS}
    spans: list[Span] = [(f"{labels['self']:>{_NUMBER - 1}} ", tone["self"])]
    if columns.total:
        spans.append((f"{labels['total']:>{_NUMBER - 1}} ", tone["total"]))
    if columns.bar:
        spans += [("  ", "text"), (fit(labels["doing"], columns.bar), tone["doing"]), ("  ", "text")]
    spans.append((fit(labels["function"], columns.name), tone["function"]))
    if columns.file:
        spans += [(" ", "text"), (fit(labels["file"], columns.file), tone["file"])]
    return line(spans, width)


def _row(scene: Scene, row: Row, columns: _Columns, width: int, biggest: float, selected: bool) -> Line:
    back = "/select" if selected else ""
    spans: list[Span] = [(_percent(row.self_share), f"strong{back}!b" if row.self_share >= 0.005 else f"dim{back}")]
    if columns.total:
        spans.append((_percent(row.total_share), f"text{back}"))
    if columns.bar:
        parts = [(name, share * row.self_share / biggest) for name, share in in_order(row.states.items())]
        drawn = bar(parts, columns.bar, scene.glyphs, scene.coloured, "base")
        spans += [("  ", f"text{back}"), *drawn, ("  ", f"text{back}")]
    dots = scene.glyphs.ellipsis
    if columns.file:
        tone = "accent" if scene.view.search and table.matches(row, scene.view.search) else "strong"
        spans.append((fit(table.name(row), columns.name - 1, dots) + " ", f"{tone}{back}"))
        where = fit_end(short(row.place), columns.file, dots)
        spans += [(" ", f"text{back}"), (where, f"dim{back}")]
    else:
        spans.append((fit(f" {table.name(row)}  {short(row.place)}", columns.name, dots), f"text{back}"))
    return line(spans, width, fill=(" ", f"text{back}"))


def _percent(share: float) -> str:
    return f"{100 * share:5.1f} % " if share < 9.995 else f"{100 * share:5.0f} % "


def _empty(scene: Scene) -> str:
    if scene.view.filter and scene.table.found:
        return f"none of {scene.table.found} rows holds “{scene.view.filter}”; Esc clears the filter"
    if scene.table.found and scene.view.own:
        return f"none of {scene.table.found} rows is your own code; o shows all"
    if scene.table.found:
        return f"none of {scene.table.found} rows has {100 * scene.view.least:g} % of the time; % shows all"
    if scene.summary is None:
        return "waiting for the first samples"
    if scene.session.root.python is not None:
        return "no Python stack seen yet"
    if scene.view.by_line and scene.summary.functions:
        return "native code: its lines are not known; l shows the functions"
    return f"{scene.session.root.language}: states, cores and GPU still work"


def _click(scene: Scene, x: int, y: int, width: int) -> str:
    columns = _columns(width)
    if y == 0:
        return "lines"
    if y == 1:
        return f"sort('{_column_at(columns, x)}')"
    return f"pick({scene.view.top + y - 2})"


def _column_at(columns: _Columns, x: int) -> str:
    if x < _NUMBER:
        return "self"
    if x < _NUMBER + columns.total:
        return "total"
    names = _NUMBER + columns.total + (columns.bar and columns.bar + 4)
    if x < names:
        return "doing"
    return "function" if x < names + columns.name else "file"


PANEL = Panel("hot", "left", 3, _rows, _draw, _click)
