"""`gputop report`: watch for a while, or read a recording or a torch trace, and print what was seen."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from gputop.analysis.results import Summary
from gputop.cli.arguments import Invocation
from gputop.cli.watch import watching
from gputop.errors import OK, SnapshotError, UsageError
from gputop.model import Window
from gputop.target.launch import Launched
from gputop.target.output import last_lines

#: Seconds watched when attached and nothing was said.
_DURATION = 10.0
#: A report shows no timeline.
_COLUMNS = 1
#: Lines shown of what a program printed that ended with an error.
_LAST_LINES = 6


def run(invocation: Invocation) -> int:
    """Print the report and return the exit code."""
    return _recorded(invocation) if invocation.flags.file is not None else _live(invocation)


def _recorded(invocation: Invocation) -> int:
    flags = invocation.flags
    if flags.pid is not None or invocation.program:
        raise UsageError("both a file and a target were given", "give one of them")
    if flags.file.name.endswith((".json", ".json.gz")):
        return _trace(flags.file, flags.json)
    from gputop.engine.replay import Replay

    replay = Replay(flags.file)
    span = replay.span()
    assert span is not None, "a replay without samples does not open"
    start = span.start if flags.duration is None else max(span.start, span.end - flags.duration)
    _print(replay.summary(Window(start, span.end), _COLUMNS, native=True), flags.json)
    return OK


def _trace(path: Path, as_json: bool) -> int:
    """Print a short reading of a torch trace."""
    from gputop.snapshot.kineto.apart import read_apart, sentences
    from gputop.target.files import open_regular

    try:
        os.close(open_regular(str(path)))
    except OSError as error:
        why = error.strerror or "it is no regular file"
        raise SnapshotError(f"cannot read {path}: {why}", "check the name and the permissions") from error
    reading = read_apart(path)
    print(json.dumps(asdict(reading), indent=1) if as_json else "\n".join(sentences(reading)))
    return OK


def _live(invocation: Invocation) -> int:
    duration = invocation.flags.duration
    if duration is None and not invocation.program:
        duration = _DURATION
    with watching(invocation) as watch:
        window = watch.wait(duration)
        watch.engine.stop()  # the last stacks come in only then
        _print(watch.engine.summary(window, _COLUMNS, native=True), invocation.flags.json, watch.engine.ended_by)
        code = watch.exit_code()
        if not invocation.flags.json and watch.opened.launched is not None:
            _print_last_words(watch.opened.launched)
        return code


def _print_last_words(launched: Launched) -> None:
    """Print the end of what a program printed that ended with an error: most say there what it was."""
    lines = last_lines(launched.output, _LAST_LINES) if launched.poll() else []
    if lines:
        print("", "the last lines that it printed:", *(f"  {line}" for line in lines), sep="\n", flush=True)


def _print(summary: Summary, as_json: bool, ended_by: int | None = None) -> None:
    from gputop.report.document import document
    from gputop.report.text import text

    if as_json:
        print(json.dumps(document(summary), indent=1), flush=True)
    else:
        print(text(summary, ended_by), end="", flush=True)
