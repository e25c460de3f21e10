"""A recording in place of a live engine: the same questions, answered from a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from gputop.engine.answers import Answers
from gputop.errors import RecordingError
from gputop.model import Window
from gputop.session import read_session
from gputop.snapshot.flight import Saved
from gputop.snapshot.kineto.request import Options
from gputop.snapshot.kineto.route import Route, over
from gputop.snapshot.kineto.shoot import Consent
from gputop.store import Store
from gputop.target import code
from gputop.target.code import Code

#: A recording is read to be looked at as a whole: some ten hours at the default rates.
_LIMIT_BYTES = 1 << 30


class Replay(Answers):
    """Answers from a recording; nothing runs.

    Raises:
        RecordingError: the file cannot be read or holds no session.
    """

    live = False
    launched = False
    output: Path | None = None
    ended_by: int | None = None  # a recording has the exit code only

    def __init__(self, path: Path) -> None:
        self.store = Store(_LIMIT_BYTES)
        for batch in read_session(path):
            self.store.add(batch)
        session, span = self.store.session, self.store.span()
        if session is None or span is None:
            raise RecordingError(f"{path} holds no samples", "record again: gputop record --pid PID -o FILE.gputop")
        self.session = session

    def span(self) -> Window | None:
        """Return the time recorded."""
        return self.store.span()

    def code(self, file: str) -> Code:
        """Return a source file of the recorded program, or why it cannot be shown; as slow as its disk."""
        host = self.session.hostname
        here = host == os.uname().nodename
        remark = "" if here else f"recorded on {host}; this is the file of that name on this machine"
        return code.read(file, self.session.root, live=False, remark=remark)

    def snapshot(
        self,
        path: Path | None,
        before: float,
        options: Options,
        progress: Callable[[str], None],
        consent: Consent = lambda question: False,
    ) -> tuple[Saved, ...]:
        """Write a trace of the recording's last `before` seconds."""
        span = self.store.span()
        assert span is not None, "a recording without samples does not open"
        return self._save(path, Window(span.end - before, span.end), progress)

    def route(self) -> Route:
        """Return what a recording can give."""
        return over("this is a recording")

    def set_rate(self, factor: float) -> None:
        """Do nothing: what was recorded cannot be sampled faster."""

    def output_lines(self, count: int) -> list[str]:
        """Return nothing: a recording does not hold the program's output."""
        return []

    def forward(self, signum: int) -> None:
        """Do nothing: there is no program."""

    def terminate(self) -> None:
        """Do nothing: there is no program."""
