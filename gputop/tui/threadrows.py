"""Rows of the list of threads: columns, heads, and what each did over time and in sum; pure drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gputop.analysis.results import Column, ThreadRow
from gputop.model import known
from gputop.tui.bars import Parts, bar, in_order, stack
from gputop.tui.cells import Line, Span, fit, line, percent
from gputop.tui.panels.base import rule
from gputop.tui.source import Thread
from gputop.tui.threadlist import SORTS, Entry, holds, most
from gputop.tui.view import Scene

#: Columns of the mark, role, ids, CPU use, and of the words at the end.
_MARK, _ROLE, _ID, _CPU, _WORDS = 2, 11, 9, 9, 18
#: Widths from which role and ids, and the strips over time, have room.
_WITH_IDS, _WITH_STRIPS = 90, 100
_LEAST_NAME, _MOST_NAME, _BAR = 8, 28, 16
#: Below this CPU use a thread does nothing but wait; it is looked at rarely.
_STILL = 0.02


class Columns(NamedTuple):
    """Widths of the columns; 0 leaves one out."""

    name: int
    ids: int
    strip: int
    bar: int

    def at(self, x: int) -> str:
        """Return the column at a place, by the name of what it sorts by."""
        for name, width in (
            ("thread", _MARK + self.name),
            ("role", self.ids and _ROLE),
            ("pid", self.ids and _ID),
            ("tid", self.ids and _ID),
            ("cpu", _CPU),
        ):
            if x < width:
                return name
            x -= width
        return "doing"


def columns(width: int) -> Columns:
    """Return the columns of a list of this width."""
    ids = _ROLE + 2 * _ID if width >= _WITH_IDS else 0
    rest = width - _MARK - ids - _CPU - _WORDS
    name = max(_LEAST_NAME, min(_MOST_NAME, rest // (3 if width >= _WITH_STRIPS else 2)))
    if width < _WITH_STRIPS:
        return Columns(name, ids, 0, max(4, min(60, rest - name)))
    bar_width = min(_BAR, (rest - name) // 3)
    return Columns(name, ids, rest - name - bar_width - 2, bar_width)


@dataclass(frozen=True)
class Look:
    """How rows are drawn.

    Attributes:
        strips: what each thread did over time, as far as it is known yet.
        selected, chosen: the cursor's thread, and the one that the overview is about.
        needle: what is searched for.
    """

    columns: Columns
    width: int
    strips: Mapping[Thread, Sequence[Column]] = field(default_factory=dict)
    selected: Thread | None = None
    chosen: Thread | None = None
    needle: str = ""


def heads(scene: Scene, sort: str, look: Look) -> Line:
    """Return the heads of the columns."""
    shape = look.columns
    labels = {name: name + (scene.glyphs.down if name == sort else "") for name in SORTS}
    tone = {name: "accent" if name == sort else "dim" for name in SORTS}
    spans: list[Span] = [(f"  {fit(labels['thread'], shape.name)}", tone["thread"])]
    if shape.ids:
        spans.append((f" {fit(labels['role'], _ROLE - 1)}", tone["role"]))
        spans += [(f"{labels[name]:>{_ID}}", tone[name]) for name in ("pid", "tid")]
    spans.append((f"{labels['cpu']:>{_CPU - 2}}  ", tone["cpu"]))
    if shape.strip:
        seconds = scene.summary.window.seconds if scene.summary else 0.0
        start = f"{scene.glyphs.minus}{seconds:.0f} s"
        end = "now" if scene.view.paused is None else ""
        spans.append((f"{start}{end:>{shape.strip - len(start)}}  ", "faint"))
    spans.append((fit(labels["doing"], shape.bar), tone["doing"]))
    return line(spans, look.width)


def drawn(scene: Scene, entry: Entry, look: Look) -> Line:
    """Return one row of the list."""
    if isinstance(entry, str):
        name, _, rest = entry.partition(":")
        return rule(scene, [(name, "accent"), (rest, "dim")], look.width)
    key = (entry.pid, entry.tid)
    back = "/select" if key == look.selected else ""
    found = look.needle and holds(entry, look.needle)
    tone = "accent" if found else "strong" if entry.main or entry.works >= 0.01 else "dim"
    shape = look.columns
    ids = f" {fit(entry.role, _ROLE - 1)}{entry.pid:>{_ID}}{entry.tid:>{_ID}}" if shape.ids else ""
    spans: list[Span] = [
        (f"{scene.glyphs.live if key == look.chosen else ' '} ", f"accent{back}"),
        (fit(entry.name, shape.name, scene.glyphs.ellipsis), f"{tone}{back}" + ("!b" if entry.main else "")),
        (f"{ids}{percent(entry.cpu):>{_CPU - 2}}  ", f"dim{back}"),
        *_strip(scene, entry, look.strips.get(key, ()), shape.strip, back),
        *bar(in_order(entry.states.items()), shape.bar, scene.glyphs, scene.coloured, "base"),
        (f"  {most(entry)}", f"text{back}"),
    ]
    return line(spans, look.width, fill=(" ", f"text{back}"))


def _strip(scene: Scene, row: ThreadRow, steps: Sequence[Column], width: int, back: str) -> Line:
    """Return what a thread did over time, in each cell what it did most."""
    if not width:
        return ()
    shown = [_mostly(step) for step in steps[-width:]]
    if (known(row.cpu) or 0.0) < _STILL:
        shown = _carried(shown)
    first = round(steps[0].start / steps[0].seconds) if steps and steps[0].seconds else 0
    cells = stack([()] * (width - len(shown)) + shown, 1, first, scene.glyphs, scene.coloured)[0]
    return (*cells, ("  ", f"text{back}"))


def _mostly(step: Column) -> Parts:
    return ((max(step.states, key=step.states.__getitem__), 8),) if step.states else ()


def _carried(steps: list[Parts]) -> list[Parts]:
    """Return steps without a look as the one before: who takes no CPU time goes on waiting for the same."""
    last = next(filter(None, steps), ())
    filled = []
    for step in steps:
        last = step or last
        filled.append(last)
    return filled
