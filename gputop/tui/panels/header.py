"""The top line: what is being looked at, and what looking costs."""

from __future__ import annotations

from typing import NamedTuple

from gputop.model import CostBatch
from gputop.tui.cells import Line, Span, duration, fit, line, many, percent
from gputop.tui.panels.base import Panel, Rows
from gputop.tui.view import Scene

_LEAST_COMMAND = 14
#: Cells between two facts, and all others that are not text: at both ends, after the command, before the right side.
_BETWEEN, _MARGINS = 3, 6


class _Fact(NamedTuple):
    text: str
    priority: int
    right: bool = False
    tone: str = "dim"


def _rows(_scene: Scene, _width: int, height: int) -> Rows:
    return Rows(1, 1)


def _facts(scene: Scene) -> list[_Fact]:
    """Return what is known, in reading order; a small screen keeps the low priorities."""
    root = scene.session.root
    facts = [_Fact(f"pid {root.pid}", 0)]
    program = scene.summary.program if scene.summary is not None else root
    if program.python:
        facts.append(_Fact(program.language, 3))
    facts += [_Fact(name, 5) for name in program.frameworks[:2]]
    facts += _sizes(scene)
    return facts


def _sizes(scene: Scene) -> list[_Fact]:
    facts = []
    summary = scene.summary
    if summary is not None:
        count = sum(len(process.threads) for process in summary.host.processes) if summary.host else 0
        facts.append(_Fact(many(count or len(summary.threads), "thread"), 4))
        children = max(0, len(summary.processes) - 1)
        if children:
            facts.append(_Fact(many(children, "child", "children"), 6))
    if scene.session.root.started_unix:
        shown = summary.window.end if summary is not None else scene.now
        facts.append(_Fact(f"up {duration(scene.clock(shown) - scene.session.root.started_unix)}", 2))
    return facts


def _cost(cost: CostBatch | None) -> list[_Fact]:
    """Return gputop's own cost, as the last samples had it."""
    if cost is None:
        return []
    own = sum(cost.own_cpu.values())
    facts = [
        _Fact(f"own {percent(own, 1)}", 1, True),
        _Fact(f"stopped {percent(cost.stopped, 1)}", 9, True),
    ]
    return facts


def _draw(scene: Scene, width: int, height: int) -> list[Line]:
    facts = [*_facts(scene), *_cost(scene.summary.cost if scene.summary else None)]
    command = " ".join(scene.session.root.cmdline) or scene.session.root.name
    sides = len({fact.right for fact in facts})
    chosen = _chosen(facts, width - min(len(command), max(_LEAST_COMMAND, width // 3)) - _MARGINS + sides * _BETWEEN)
    dot = f" {scene.glyphs.dot} "
    left = _joined([fact for fact in chosen if not fact.right], dot)
    right = _joined([fact for fact in chosen if fact.right], dot)
    room = width - sum(len(text) for text, _ in (*left, *right)) - _MARGINS
    shown = _fitting(scene, command, room)
    return [
        line(
            ((" ", "text/bar"), (shown, "strong/bar!b"), ("  ", "text/bar"), *left),
            width,
            (*right, (" ", "text/bar")),
            (" ", "text/bar"),
        )
    ]


def _fitting(scene: Scene, command: str, room: int) -> str:
    """Return as much of the command as fits; what a long folder would push out says more than the folder."""
    program, *arguments = scene.session.root.cmdline or (command,)
    if len(command) > room:
        command = " ".join((program.rpartition("/")[2] or program, *arguments))
    return fit(command, min(room, len(command)), scene.glyphs.ellipsis) if room > 0 else ""


def _chosen(facts: list[_Fact], room: int) -> list[_Fact]:
    """Return the facts of the lowest priorities that fit, in their own order."""
    kept: set[int] = set()
    for fact in sorted(facts, key=lambda fact: fact.priority):
        room -= len(fact.text) + _BETWEEN
        if room < 0:
            break
        kept.add(fact.priority)
    return [fact for fact in facts if fact.priority in kept]


def _joined(facts: list[_Fact], dot: str) -> list[Span]:
    spans: list[Span] = []
    for index, fact in enumerate(facts):
        if index:
            spans.append((dot, "faint/bar"))
        spans.append((fact.text, f"{fact.tone}/bar"))
    return spans


PANEL = Panel("header", "full", 0, _rows, _draw)
