"""What the command line points at, made into a process: attached to, or launched."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gputop.cli.arguments import Invocation
from gputop.config import Settings
from gputop.engine import Engine, new_camera
from gputop.errors import OK, UsageError
from gputop.model import ProcessInfo
from gputop.session import SessionWriter
from gputop.store import Store
from gputop.target.command import find_program
from gputop.target.describe import describe
from gputop.target.launch import Launched, launch

if TYPE_CHECKING:
    from gputop.snapshot.camera import Camera

#: Passed on to a launched program when gputop itself gets them.
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


@dataclass(frozen=True, slots=True)
class Opened:
    """A target: what it is, the handle where we started it, and the camera that prepared that for traces."""

    root: ProcessInfo
    launched: Launched | None
    camera: Camera | None

    def exit_code(self) -> int:
        """Wait for a launched program to end and return its code as a shell would; 0 for an attached one."""
        if self.launched is None:
            return OK
        if self.launched.poll() is None:
            tell(f"waiting for {self.root.name} (pid {self.root.pid}) to end")
        code = self.launched.wait()
        with suppress(OSError):  # somebody may have removed it
            if self.launched.output.stat().st_size:
                tell(f"what {self.root.name} printed is in {self.launched.output}")
        return code


def tell(sentence: str) -> None:
    """Say something on standard error, which is not part of what was asked for."""
    with suppress(OSError):  # the terminal may be gone
        print(f"gputop: {sentence}", file=sys.stderr)


def open_target(invocation: Invocation) -> Opened:
    """Attach or launch.

    Raises:
        UsageError: neither or both were asked for.
        NoProcessError: there is no such process.
        CommandNotStartedError: the program cannot be started.
    """
    pid = invocation.flags.pid
    _check_one(invocation)
    if pid is not None:
        return Opened(describe(pid), None, None)
    if not invocation.program:
        name = f"gputop {invocation.command}".strip()
        raise UsageError("what shall be looked at?", f"{name} --pid PID, or {name} -- python infer.py")
    camera = new_camera(invocation.settings, Store())
    try:
        environ = camera.launch_environment(os.environ)
        launched = launch(invocation.program, output=invocation.flags.output, environ=environ)
        return Opened(launched.describe(), launched, camera)
    except BaseException:
        camera.close()
        raise


def check_target(invocation: Invocation) -> None:
    """Find out whether the target is there, and start nothing.

    Raises:
        UsageError: two targets were asked for.
        NoProcessError: there is no such process.
        CommandNotStartedError: there is no such program, or it may not be executed.
    """
    _check_one(invocation)
    if invocation.flags.pid is not None:
        describe(invocation.flags.pid)
    if invocation.program:
        find_program(invocation.program[0], os.environ)


def _check_one(invocation: Invocation) -> None:
    if invocation.flags.pid is not None and invocation.program:
        raise UsageError("both --pid and a command were given", "give one of them")


def engine_over(opened: Opened, settings: Settings, recording: SessionWriter | None = None) -> Engine:
    """Return an engine over it, not yet started."""
    return Engine(opened.root, settings, launched=opened.launched, camera=opened.camera, recording=recording)


@contextmanager
def signals(handle: Callable[[int], None]) -> Iterator[None]:
    """Call `handle` for every signal that a launched program shall get instead of us."""
    before = {number: signal.signal(number, lambda got, frame: handle(got)) for number in FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
