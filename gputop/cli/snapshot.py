"""`gputop snapshot`: the snapshot key without a screen."""

from __future__ import annotations

import sys
from collections.abc import Callable

from gputop.cli.arguments import Invocation
from gputop.cli.watch import watching
from gputop.engine.answers import Answers
from gputop.engine.replay import Replay
from gputop.errors import OK
from gputop.snapshot import formats
from gputop.snapshot.camera import TORCH
from gputop.snapshot.flight import Saved
from gputop.snapshot.kineto.request import Options

#: A launched program may take so long to import torch before the trace begins, seconds.
_TORCH_IMPORT_S = 20.0


def run(invocation: Invocation) -> int:
    """Write the trace and return the exit code.

    Raises:
        UsageError: the file's ending is none of those that choose a format; no program is launched then.
    """
    formats.of(invocation.flags.trace)
    return _recorded(invocation) if invocation.flags.file is not None else _live(invocation)


def _recorded(invocation: Invocation) -> int:
    flags = invocation.flags
    _tell(Replay(flags.file).snapshot(flags.trace, flags.duration, Options(), _progress))
    return OK


def _live(invocation: Invocation) -> int:
    """Take the next seconds only: without a screen there is no past to draw from."""
    flags = invocation.flags
    options = Options(flags.duration, flags.stacks, flags.shapes)
    with watching(invocation) as watch:
        watch.engine.await_torch(_TORCH_IMPORT_S, _progress)
        saved = watch.engine.snapshot(flags.trace, 0.0, options, _progress, _consent(flags.yes))
        watch.engine.stop()
        _tell(saved)
        _read(watch.engine, saved[0])
        return watch.exit_code()


def _consent(given: bool) -> Callable[[str], bool]:
    """Return what answers the question whether something may be run inside the target: --yes, or a person."""

    def ask(question: str) -> bool:
        if given or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return given
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    return ask


def _progress(sentence: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{sentence}", end="", file=sys.stderr, flush=True)


def _read(answers: Answers, saved: Saved) -> None:
    """Print what a torch trace shows."""
    if saved.what == TORCH:
        for sentence in answers.reading(saved):
            print(f"  {sentence}", file=sys.stderr)


def _tell(saved: tuple[Saved, ...]) -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    for file in saved:
        print(file.sentence, file=sys.stderr)
