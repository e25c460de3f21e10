"""What the command line points at, made into a process: attached to, or launched."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gputop.cli.arguments import Invocation
from gputop.errors import UsageError
from gputop.model import ProcessInfo
from gputop.target.describe import describe
from gputop.target.launch import Launched, launch

#: Passed on to a launched program when gputop itself gets them.
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


@dataclass(frozen=True, slots=True)
class Opened:
    """A target: what it is, and the handle where we started it."""

    root: ProcessInfo
    launched: Launched | None

    def exit_code(self) -> int:
        """Wait for a launched program to end and return its code as a shell would; 0 for an attached one."""
        return self.launched.wait() if self.launched is not None else 0


def open_target(invocation: Invocation) -> Opened:
    """Attach or launch.

    Raises:
        UsageError: neither or both were asked for.
        NoProcessError: there is no such process.
        CommandNotStartedError: the program cannot be started.
    """
    pid = invocation.flags.pid
    if pid is not None and invocation.program:
        raise UsageError("both --pid and a command were given", "give one of them")
    if pid is not None:
        return Opened(describe(pid), None)
    if not invocation.program:
        name = f"gputop {invocation.command}".strip()
        raise UsageError("what shall be looked at?", f"{name} --pid PID, or {name} -- python infer.py")
    launched = launch(invocation.program, output=invocation.flags.output)
    return Opened(describe(launched.pid), launched)


@contextmanager
def signals(handle: Callable[[int], None]) -> Iterator[None]:
    """Call `handle` for every signal that a launched program shall get instead of us."""
    before = {number: signal.signal(number, lambda got, frame: handle(got)) for number in FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
