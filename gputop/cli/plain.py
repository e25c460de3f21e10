"""`gputop --plain`: a block of text each interval in place of the screen, for screen readers, pipes and logs."""

from __future__ import annotations

from gputop.cli.arguments import Invocation
from gputop.cli.watch import Watch, watching
from gputop.model import Note, Window

#: A block shows no timeline.
_COLUMNS = 1


def run(invocation: Invocation) -> int:
    """Print blocks until the target ends or a signal comes, and return the exit code."""
    with watching(invocation) as watch:
        ends = watch.started
        said: tuple[Note, ...] = ()
        while not watch.over:
            ends += invocation.flags.interval
            watched = watch.wait(ends - watch.started)
            start = max(watched.start, watched.end - invocation.settings.window)
            said = _print(watch, Window(start, watched.end), said)
        return watch.exit_code()


def _print(watch: Watch, window: Window, said: tuple[Note, ...]) -> tuple[Note, ...]:
    """Print one block and return the notes that have been said now."""
    from gputop.report.text import brief

    summary = watch.engine.about_now(watch.engine.summary(window, _COLUMNS))
    print(brief(summary, said), flush=True)
    return summary.notes
