"""What the copy key puts on the clipboard, in words that stand for themselves elsewhere."""

from __future__ import annotations

from gputop.analysis.results import FunctionRow, LineRow, Summary
from gputop.analysis.states import BY_ID
from gputop.tui import table
from gputop.tui.cells import percent
from gputop.tui.tree import ProcessRow


def verdict(summary: Summary | None) -> str:
    """Return the verdict as one sentence; empty before the first."""
    if summary is None:
        return ""
    return f"{summary.verdict.title}{'?' if summary.verdict.likely else ''}: {summary.verdict.sentence}"


def function(row: FunctionRow | LineRow) -> str:
    """Return a function or line, where it is, and its time."""
    mostly = max(row.states, key=row.states.__getitem__, default="")
    doing = f", mostly {BY_ID[mostly].label}" if mostly else ""
    shares = f"self {percent(row.self_share, 1)}, total {percent(row.total_share, 1)}"
    return f"{table.name(row)} ({row.place}): {shares}{doing}"


def process(row: ProcessRow) -> str:
    """Return a process's pid and command."""
    return f"{row.process.pid} {' '.join(row.process.cmdline)}"
