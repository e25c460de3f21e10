"""`gputop`, `gputop --pid`, `gputop -- CMD`, `gputop replay`: the screen."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from typing import TYPE_CHECKING

from gputop.cli.arguments import Invocation
from gputop.cli.opened import check_target, engine_over, open_target, signals, tell
from gputop.config import Settings
from gputop.engine import Engine
from gputop.errors import OK, UsageError

if TYPE_CHECKING:
    from gputop.tui.source import Outcome
#: Until the screen listens, a signal comes again after this time, seconds.
_AGAIN_S = 0.1


def run(invocation: Invocation) -> int:
    """Show the screen over a target, or the list to choose one from; return the exit code."""
    check_target(invocation)  # what is wrong with it counts more than a terminal that is none
    _need_terminal(_remedy(invocation))
    if invocation.flags.pid is None and not invocation.program:
        return _pick(invocation)
    opened = open_target(invocation)
    outcome = _show(engine_over(opened, invocation.settings), invocation.settings)
    from gputop.tui.source import Outcome

    if opened.launched is None:
        return OK
    if outcome in (Outcome.LEAVE, Outcome.LOST):
        tell(f"{opened.root.name} (pid {opened.root.pid}) goes on; its output is in {opened.launched.output}")
        return OK
    if outcome is Outcome.TERMINATE:
        opened.launched.terminate()
    return opened.exit_code()


def _show(engine: Engine, settings: Settings) -> Outcome:
    """Show the screen over an engine until it is left; return what the user wants."""
    try:
        with signals(_come_again):
            engine.start()  # before Textual is imported: helpers start while the screen is being loaded
            from gputop.tui.app import show

            return show(engine, settings)
    finally:
        engine.stop()


def _come_again(number: int) -> None:
    """Have a signal come again: the screen takes it once it can, and knows what to do with a launched program."""
    again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


def replay(invocation: Invocation) -> int:
    """Show the screen over a recording."""
    from gputop.engine.replay import Replay

    source = Replay(invocation.flags.file)
    _need_terminal(shlex.join(("gputop", "report", str(invocation.flags.file))))
    from gputop.tui.app import show

    show(source, invocation.settings)
    return OK


def _pick(invocation: Invocation) -> int:
    from gputop.engine import Engine
    from gputop.target.describe import describe
    from gputop.tui.app import pick

    engines: list[Engine] = []

    def attach(pid: int) -> Engine:
        engine = Engine(describe(pid), invocation.settings)
        engines.append(engine)
        engine.start()
        return engine

    try:
        pick(attach, invocation.settings)
    finally:
        for engine in engines:
            engine.stop()
    return OK


def _remedy(invocation: Invocation) -> str:
    """Return the commands that show this target without a screen."""
    words = ["--pid", str(invocation.flags.pid or "PID")]
    if invocation.program:
        words = ["--", *invocation.program]
    return f"{shlex.join(['gputop', 'report', *words])}, or block by block: {shlex.join(['gputop', '--plain', *words])}"


def _need_terminal(remedy: str) -> None:
    """Refuse to draw where nothing can be drawn.

    Raises:
        UsageError: there is no terminal, or one without a cursor; `remedy` is what to call instead.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the screen needs a terminal", f"without one: {remedy}")
    if (kind := os.environ.get("TERM")) in ("dumb", "unknown"):
        raise UsageError(f"this terminal cannot move its cursor (TERM={kind})", f"as text: {remedy}")
