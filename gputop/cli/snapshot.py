"""`gputop snapshot`: the snapshot key without a screen."""

from __future__ import annotations

import sys
from pathlib import Path

from gputop.cli.arguments import Invocation
from gputop.cli.watch import watching
from gputop.errors import OK


def run(invocation: Invocation) -> int:
    """Write the trace and return the exit code."""
    return _recorded(invocation) if invocation.flags.file is not None else _live(invocation)


def _recorded(invocation: Invocation) -> int:
    from gputop.engine import Replay

    path = Replay(invocation.flags.file).snapshot(invocation.flags.trace, invocation.flags.duration, _progress)
    _tell(path)
    return OK


def _live(invocation: Invocation) -> int:
    """Watch for the asked time, then write exactly that: without a screen there is no past to draw from."""
    with watching(invocation) as watch:
        window = watch.wait(invocation.flags.duration)
        path = watch.engine.snapshot_window(invocation.flags.trace, window, _progress)
        watch.engine.stop()
        _tell(path)
        return watch.exit_code()


def _progress(sentence: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{sentence}", end="", file=sys.stderr, flush=True)


def _tell(path: Path) -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    print(f"{path}  (open it at https://ui.perfetto.dev)" if ".json" in path.name else path, file=sys.stderr)
