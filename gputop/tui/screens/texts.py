"""The texts of the pages: help, made from the registries, and advice, made from the verdict."""

from __future__ import annotations

from collections.abc import Iterable

from gputop.analysis.states import STATES
from gputop.tui.actions import ACTIONS, OVERVIEW, Action
from gputop.tui.bars import bar, in_order
from gputop.tui.cells import Line, Span, fit, percent, short, wrap
from gputop.tui.missing import sentences
from gputop.tui.panels.base import swatch
from gputop.tui.panels.timeline import legend
from gputop.tui.panels.verdict import title_chip
from gputop.tui.view import Scene

_KEY, _NAME = 9, 20
#: Functions named with the advice, the share of the first that is worth it, and cells of a name.
_HOTTEST, _LEAST, _FUNCTION = 5, 0.01, 36


def help_text(scene: Scene, width: int) -> list[Line]:
    """Return the help: what the screen answers, the keys, the states."""
    lines = _paragraph(
        "One question, answered live: what is the process waiting for? The verdict says it in words; the timeline "
        "shows what its main thread did, with the GPUs and the CPU on the same time axis; the table shows where.",
        width,
    )
    for heading, actions in _sections().items():
        lines += _heading(heading)
        for action in actions:
            lines += _columns((f"{action.shown:<{_KEY}}", "accent!b"), action.name, action.help, width)
    lines += _heading("States of a thread, and how they are drawn")
    for state in STATES:
        lines += _columns(swatch(scene, state.id), state.label, state.meaning, width)
    lines += _heading("Numbers")
    lines += _paragraph(
        "self: share of the window's wall time in the function itself; total: in it and what it calls. Summed over "
        "threads they may exceed 100 %. n/a: not measured, and never an invented 0. own: what gputop costs, in "
        "percent of one core; stopped: share of the time that the most stopped thread was held up for a look at it. "
        "Text is selected and copied by dragging over it with the mouse; with --no-mouse the terminal does it.",
        width,
    )
    return lines


def _sections() -> dict[str, list[Action]]:
    """Return the actions under headings: those of several screens, then those of one only."""
    sections: dict[str, list[Action]] = {}
    for action in ACTIONS:
        alone = len(action.screens) == 1 and action.screens[0] != OVERVIEW
        sections.setdefault(f"Keys: {action.screens[0]}" if alone else "Keys", []).append(action)
    return sections


def advice_text(scene: Scene, width: int) -> list[Line]:
    """Return the verdict with its evidence and advice, then the notes with their remedies."""
    if scene.summary is None:
        return [(("Nothing has been sampled yet.", "dim"),)]
    verdict = scene.summary.verdict
    lines: list[Line] = [(title_chip(scene, verdict), ("  probably" if verdict.likely else "", "dim"))]
    lines += [((text, "strong!b"),) for text in wrap(verdict.sentence, width)]
    if verdict.advice:
        lines += _heading("What usually helps, most likely first")
        for place, text in enumerate(verdict.advice, 1):
            lines += _entry((f"{place}. ", "accent!b"), text, width)
    lines += _doing(scene, width)
    if verdict.evidence:
        lines += _heading("Evidence")
        lines += _bullets(scene, verdict.evidence, width)
    lines += _where(scene, width)
    if scene.summary.notes:
        lines += _heading("What does not work here")
        for note in scene.summary.notes:
            lines += _entry((f"{scene.glyphs.warn} ", "warn!b"), note.what, width)
            if note.remedy:
                lines += _entry(("  try: ", "accent"), note.remedy, width)
    missing = tuple(sentences(scene.summary))
    if missing:
        lines += _heading("Not measured, and why")
        lines += _bullets(scene, missing, width)
    return lines


def _doing(scene: Scene, width: int) -> list[Line]:
    """Return what the thread that the verdict is about did, as one bar."""
    headline = scene.summary.headline if scene.summary else None
    if headline is None or not headline.states:
        return []
    drawn = bar(in_order(headline.states.items()), width, scene.glyphs, scene.coloured, "base")
    return [*_heading(f"What {headline.name} does"), drawn, legend(scene, width)]


def _where(scene: Scene, width: int) -> list[Line]:
    """Return the hottest functions, and where to look on."""
    rows = sorted(scene.summary.functions if scene.summary else (), key=lambda row: -row.self_share)[:_HOTTEST]
    if not rows or rows[0].self_share < _LEAST:
        return []
    lines = _heading("Where the time goes: f shows the source, F the call paths, s saves a trace")
    for row in rows:
        where = short(row.place)
        name = fit(row.name, max(8, min(_FUNCTION, width - 9 - len(where))), scene.glyphs.ellipsis)
        lines.append(((f"{percent(row.self_share, 1):>7}  ", "strong!b"), (name, "text"), (f" {where}", "dim")))
    return lines


def _bullets(scene: Scene, texts: Iterable[str], width: int) -> list[Line]:
    return [row for text in texts for row in _entry((f"{scene.glyphs.dot} ", "dim"), text, width)]


def _heading(text: str) -> list[Line]:
    return [(("", "text"),), ((text, "title!b"),)]


def _paragraph(text: str, width: int) -> list[Line]:
    return [((row, "text"),) for row in wrap(text, width)]


def _columns(head: Span, name: str, text: str, width: int) -> list[Line]:
    """Return key or swatch, name and explanation in columns; without the name where room is scarce."""
    name = f"{name:<{_NAME}}" if width >= 70 else ""
    rows = wrap(text, max(10, width - _KEY - len(name))) or [""]
    first: Line = (head, (" " * (_KEY - len(head[0])), "text"), (name, "strong"), (rows[0], "text"))
    return [first, *_indented(rows[1:], _KEY + len(name))]


def _entry(head: Span, text: str, width: int) -> list[Line]:
    """Return a text with a hanging head."""
    rows = wrap(text, max(10, width - len(head[0]))) or [""]
    first: Line = (head, (rows[0], "text"))
    return [first, *_indented(rows[1:], len(head[0]))]


def _indented(rows: list[str], indent: int) -> list[Line]:
    return [((" " * indent, "text"), (row, "text")) for row in rows]
