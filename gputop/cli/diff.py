"""`gputop diff`: two recordings compared: did the change help, and where."""

from __future__ import annotations

import json
from pathlib import Path

from gputop.analysis.compare import compare
from gputop.analysis.results import Summary
from gputop.cli.arguments import Invocation
from gputop.errors import OK, UsageError
from gputop.model import Window

#: Steps of the timelines: how much shares vary along them tells chance from change.
_STEPS = 40


def run(invocation: Invocation) -> int:
    """Print what changed and return the exit code."""
    from gputop.report.diff import document, text

    flags = invocation.flags
    if invocation.program:
        raise UsageError("diff compares recordings, not commands", "gputop diff BEFORE.gputop AFTER.gputop")
    found = compare(_whole(flags.before, flags.duration), _whole(flags.after, flags.duration))
    print(json.dumps(document(found), indent=1) if flags.json else text(found), end="\n" if flags.json else "")
    return OK


def _whole(path: Path, duration: float | None) -> Summary:
    """Return the summary of a recording, or of its last seconds."""
    from gputop.engine.replay import Replay

    replay = Replay(path)
    span = replay.span()
    assert span is not None, "a replay without samples does not open"
    start = span.start if duration is None else max(span.start, span.end - duration)
    return replay.summary(Window(start, span.end), _STEPS)
