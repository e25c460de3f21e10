"""The threads beside the cores: the program's own first, pools that only wait folded into one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from gputop.analysis.results import ThreadRow
from gputop.model import known
from gputop.tui.bars import bar, in_order
from gputop.tui.cells import Line, Span, fit, line, percent
from gputop.tui.layout import TWO_COLUMNS
from gputop.tui.panels.base import Panel, Rows, padded, rule
from gputop.tui.threadlist import ORDER, OWN
from gputop.tui.view import Scene

#: Below this height only wide screens have room, below the second no screen.
_TALL_NARROW, _TALL = 50, 30
#: States of a thread that waits for work, and the share of its time from which it does nothing else.
_WAITING, _PARKED = ("idle", "lock", "unknown"), 0.99
_ROLE, _CPU, _MOST_BAR = 11, 7, 20


class _Listed(NamedTuple):
    """The threads to list, and how many of each role are folded."""

    shown: Sequence[ThreadRow]
    parked: Counter[str]


def _listed(scene: Scene) -> _Listed:
    rows = scene.summary.threads if scene.summary else ()
    shown, parked = [], Counter[str]()
    for row in rows:
        if _is_parked(row):
            parked[row.role] += 1
        else:
            shown.append(row)
    root = scene.session.root.pid
    shown.sort(key=lambda row: (ORDER.get(row.role, len(ORDER)), row.pid != root, row.pid, row.tid))
    return _Listed(shown, parked)


def _is_parked(row: ThreadRow) -> bool:
    if row.role in OWN or (known(row.cpu) or 0.0) >= 1 - _PARKED:
        return False
    return not row.states or sum(row.states.get(name, 0.0) for name in _WAITING) >= _PARKED


def _rows(scene: Scene, width: int, height: int) -> Rows:
    if height < _TALL or (width < TWO_COLUMNS and height < _TALL_NARROW):
        return Rows(0, 0)
    listed = _listed(scene)
    return Rows(3, max(3, 1 + len(listed.shown) + bool(listed.parked)), 2)


def _draw(scene: Scene, width: int, height: int) -> list[Line]:
    shown, parked = _listed(scene)
    count = len(shown) + parked.total()
    lines = [rule(scene, [("threads", "strong!b"), (f" {scene.glyphs.dot} {count}", "title")], width, _hint())]
    room = height - 1 - bool(parked)
    fitting = shown if len(shown) <= room else shown[: max(0, room - 1)]
    lines += [_row(scene, row, width) for row in fitting]
    if len(fitting) < len(shown):
        lines.append(_more(scene, f"{len(shown) - len(fitting)} more at work", width))
    if parked:
        lines.append(_more(scene, _folded(parked), width))
    if not count:
        lines.append(line((("  waiting for the first reading", "dim"),), width))
    return padded(lines, width, height)


def _hint() -> list[Span]:
    return [("t ", "accent!b"), ("all", "dim")]


def _row(scene: Scene, row: ThreadRow, width: int) -> Line:
    headline = scene.summary.headline if scene.summary else None
    chosen = headline is not None and (row.pid, row.tid) == (headline.pid, headline.tid)
    name = row.name if row.pid == scene.session.root.pid else f"{row.name} {scene.glyphs.dot} {row.pid}"
    room = min(28, width // 3)
    cells = max(4, min(_MOST_BAR, width - room - _ROLE - _CPU - 4))
    spans: list[Span] = [
        (scene.glyphs.cursor if chosen else " ", "accent"),
        (fit(name, room, scene.glyphs.ellipsis), "strong" if row.main else "text"),
        (f" {fit(row.role, _ROLE - 1)}{percent(row.cpu):>{_CPU}}  ", "dim"),
        *bar(in_order(row.states.items()), cells, scene.glyphs, scene.coloured, "base"),
    ]
    return line(spans, width)


def _more(scene: Scene, text: str, width: int) -> Line:
    return line(((f" {scene.glyphs.ellipsis} {text}", "dim"),), width)


def _folded(parked: Counter[str]) -> str:
    """Say what is folded: "31 parked pool threads"; where there are several roles, how many of each."""
    total = parked.total()
    word = "thread" if total == 1 else "threads"
    if len(parked) == 1:
        return f"{total} parked {next(iter(parked))} {word}"
    return f"{total} parked {word}: " + ", ".join(f"{count} {role}" for role, count in parked.most_common())


PANEL = Panel("threads", "right", 9, _rows, _draw, lambda *_: "go('threads')")
