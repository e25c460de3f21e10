"""Watching without a screen: run an engine for a while, let signals through, end in good order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gputop.cli.arguments import Invocation
from gputop.cli.opened import Opened, engine_over, open_target, signals
from gputop.engine import Engine
from gputop.errors import INTERRUPTED
from gputop.model import Window
from gputop.session import SessionWriter


class Watch:
    """An engine over a target, watched from now on."""

    def __init__(self, opened: Opened, engine: Engine) -> None:
        self.opened = opened
        self.engine = engine
        self.started = time.monotonic()
        self.interrupted = threading.Event()

    def signalled(self, number: int) -> None:
        """Pass a signal on to a launched program; end the watch of an attached one."""
        if self.opened.launched is not None:
            self.opened.launched.forward(number)
        else:
            self.interrupted.set()

    def wait(self, duration: float | None) -> Window:
        """Watch for `duration` seconds, or until the target ends or a signal comes, and return the time watched."""
        deadline = self.started + duration if duration is not None else float("inf")
        while time.monotonic() < deadline and self.engine.exited is None:
            if self.interrupted.wait(min(0.05, max(0.0, deadline - time.monotonic()))):
                break
        return Window(self.started, min(time.monotonic(), deadline))

    def exit_code(self) -> int:
        """Return what the shell shall see: the launched program's own code once it has ended."""
        return INTERRUPTED if self.interrupted.is_set() else self.opened.exit_code()


@contextmanager
def watching(invocation: Invocation, recording: SessionWriter | None = None) -> Iterator[Watch]:
    """Open the target, start an engine over it, and stop the engine whatever happens."""
    opened = open_target(invocation)
    engine = engine_over(opened, invocation.settings, recording)
    watch = Watch(opened, engine)
    with signals(watch.signalled):
        engine.start()
        try:
            yield watch
        finally:
            engine.stop()
