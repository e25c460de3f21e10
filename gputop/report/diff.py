"""Two recordings, or two windows, compared: as text, and as data (`gputop.diff/1`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gputop.analysis.compare import Change, Comparison
from gputop.analysis.results import Summary
from gputop.analysis.states import BY_ID

SCHEMA = "gputop.diff/1"

_DIGITS = 5
_FUNCTIONS = 20
#: Changes below a tenth of a point are not worth a line.
_FLOOR = 0.001


def document(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as JSON-ready data; keys are stable, shares are fractions of wall time."""
    return {
        "schema": SCHEMA,
        "answer": comparison.answer,
        "better": comparison.better,
        "before": _side(comparison.before),
        "after": _side(comparison.after),
        "gpu": _change(comparison.gpu) if comparison.gpu else None,
        "states": [_change(change) for change in comparison.states],
        "functions": [{**_change(change), "file": change.file, "line": change.line} for change in comparison.functions],
    }


def _side(summary: Summary) -> dict[str, Any]:
    return {
        "cmdline": list(summary.session.root.cmdline),
        "start_unix": summary.window.start + summary.session.epoch,
        "duration_s": round(summary.window.seconds, 3),
        "thread": summary.headline.name if summary.headline else None,
        "verdict": {"id": summary.verdict.id, "title": summary.verdict.title, "sentence": summary.verdict.sentence},
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "name": change.name,
        "before": _rounded(change.before),
        "after": _rounded(change.after),
        "change": _rounded(change.points),
        "noise": _rounded(change.noise),
        "clear": change.clear,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def text(comparison: Comparison) -> str:
    """Return the comparison as plain text."""
    return "\n".join(_lines(comparison)) + "\n"


def _lines(comparison: Comparison) -> Iterator[str]:
    for name, summary in (("before", comparison.before), ("after", comparison.after)):
        command = " ".join(summary.session.root.cmdline)[:120]
        yield f"{name:<7} {summary.window.seconds:6.1f} s  {command}"
        yield f"                  {summary.verdict.title.upper()}: {summary.verdict.sentence}"
        yield from (f"                  ! {note.what}" for note in summary.notes if note.source == "recording")
    yield ""
    yield comparison.answer
    yield ""
    yield "share of the time          before     after    change"
    if comparison.gpu is not None:
        yield _line("GPU busy", comparison.gpu)
    for change in comparison.states:
        if _worth(change):
            yield _line(BY_ID[change.name].label, change)
    yield ""
    yield "functions, self            before     after    change"
    for change in comparison.functions[:_FUNCTIONS]:
        if _worth(change):
            yield f"{_line(change.name, change):<64}  {change.place}"
    yield ""
    yield "Shares do not tell the speed: compare steps or images a second too."


def _worth(change: Change) -> bool:
    return abs(change.points) >= _FLOOR or max(change.before or 0.0, change.after or 0.0) >= 10 * _FLOOR


def _line(name: str, change: Change) -> str:
    shares = f"  {name[:22]:<22} {_share(change.before)}  {_share(change.after)}  {points(change.points)}"
    return f"{shares}  {change.remark}".rstrip()


def _share(share: float | None) -> str:
    return "       –" if share is None else f"{100 * share:6.1f} %"


def points(share: float) -> str:
    """Return a difference in points with its sign, aligned."""
    return f"{100 * share:+6.1f} points"
