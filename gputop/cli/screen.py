"""`gputop`, `gputop --pid`, `gputop -- CMD`, `gputop replay`: the screen."""

from __future__ import annotations

import sys

from gputop.cli.arguments import Invocation
from gputop.cli.opened import engine_over, open_target
from gputop.errors import OK, UsageError


def run(invocation: Invocation) -> int:
    """Show the screen over a target, or the list to choose one from; return the exit code."""
    _need_terminal()
    if invocation.flags.pid is None and not invocation.program:
        return _pick(invocation)
    opened = open_target(invocation)
    engine = engine_over(opened, invocation.settings)
    engine.start()  # before Textual is imported: helpers start while the screen is being loaded
    try:
        from gputop.tui.app import show
        from gputop.tui.source import Outcome

        outcome = show(engine, invocation.settings)
    finally:
        engine.stop()
    if opened.launched is None or outcome in (Outcome.LEAVE, Outcome.LOST):
        return OK
    if outcome is Outcome.TERMINATE:
        opened.launched.terminate()
    return opened.exit_code()


def replay(invocation: Invocation) -> int:
    """Show the screen over a recording."""
    _need_terminal()
    from gputop.engine import Replay

    source = Replay(invocation.flags.file)
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


def _need_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the screen needs a terminal", "without one: gputop report --pid PID")
