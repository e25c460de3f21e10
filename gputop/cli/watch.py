"""Watching without a screen: run an engine for a while, let signals through, end in good order."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gputop.cli.arguments import Invocation
from gputop.cli.opened import Opened, engine_over, open_target, signals
from gputop.engine import Engine
from gputop.errors import NO_PERMISSION, SIGNALLED, NoPermissionError, ptrace_remedy
from gputop.model import Window
from gputop.session import SessionWriter
from gputop.target.probe import may_look_into


class Watch:
    """An engine over a target, watched from now on.

    Attributes:
        refused: the kernel does not let us look into the target: only what anybody may know is seen.
    """

    def __init__(self, opened: Opened, engine: Engine) -> None:
        self.opened = opened
        self.engine = engine
        self.started = time.monotonic()
        self.refused = opened.launched is None and not may_look_into(opened.root.pid)
        self._signal = 0
        self._interrupted = threading.Event()

    def signalled(self, number: int) -> None:
        """Pass a signal on to a launched program; end the watch of an attached one."""
        if self.opened.launched is not None:
            self.opened.launched.forward(number)
            return
        self._signal = number
        self._interrupted.set()
        self.engine.hurry()

    @property
    def over(self) -> bool:
        """Tell whether there is nothing left to wait for: the target has ended, or a signal came."""
        return self._interrupted.is_set() or self.engine.exited is not None

    def wait(self, duration: float | None) -> Window:
        """Watch for `duration` seconds, or until the target ends or a signal comes, and return the time watched."""
        deadline = self.started + duration if duration is not None else float("inf")
        while time.monotonic() < deadline and self.engine.exited is None:
            if self._interrupted.wait(min(0.05, max(0.0, deadline - time.monotonic()))):
                break
        return Window(self.started, min(time.monotonic(), deadline))

    def exit_code(self) -> int:
        """Return what the shell shall see: a signal that ended the watch, else as `end_code`."""
        return SIGNALLED + self._signal if self._signal else self.end_code()

    def end_code(self) -> int:
        """Wait for a launched program to end and return its own code; of an attached one, whether it could be seen."""
        return NO_PERMISSION if self.refused else self.opened.exit_code()


@contextmanager
def watching(invocation: Invocation, recording: SessionWriter | None = None) -> Iterator[Watch]:
    """Open the target, start an engine over it, and stop the engine whatever happens."""
    opened = open_target(invocation)
    engine = engine_over(opened, invocation.settings, recording)
    watch = Watch(opened, engine)
    if watch.refused:
        print(_refusal(opened.root.pid).message, file=sys.stderr)
    with signals(watch.signalled):
        engine.start()
        try:
            yield watch
        finally:
            engine.stop()


def _refusal(pid: int) -> NoPermissionError:
    what = f"no right to look into process {pid}: what it waits for and its functions stay unknown"
    return NoPermissionError(what, ptrace_remedy())
