"""`gputop`, `gputop --pid`, `gputop -- CMD`, `gputop replay`: the screen."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from gputop.cli.arguments import Invocation
from gputop.cli.opened import Opened, engine_over, open_target, signals, tell
from gputop.engine import Engine
from gputop.errors import OK, SIGNALLED, UsageError


class _Signalled(SystemExit):
    """A signal came before the screen was there to take it."""


def run(invocation: Invocation) -> int:
    """Show the screen over a target, or the list to choose one from; return the exit code."""
    _need_terminal()
    if invocation.flags.pid is None and not invocation.program:
        return _pick(invocation)
    opened = open_target(invocation)
    engine = engine_over(opened, invocation.settings)
    try:
        with signals(_leave):
            return _show(opened, engine, invocation)
    except _Signalled as signalled:
        engine.stop()
        return _ended_by(int(str(signalled)), opened)


def _show(opened: Opened, engine: Engine, invocation: Invocation) -> int:
    engine.start()  # before Textual is imported: helpers start while the screen is being loaded
    try:
        from gputop.tui.app import show
        from gputop.tui.source import Outcome

        outcome = show(engine, invocation.settings)
    finally:
        engine.stop()
    if opened.launched is None:
        return OK
    if outcome in (Outcome.LEAVE, Outcome.LOST):
        tell(f"{opened.root.name} (pid {opened.root.pid}) goes on; its output is in {opened.launched.output}")
        return OK
    if outcome is Outcome.TERMINATE:
        opened.launched.terminate()
    return opened.exit_code()


def _leave(number: int) -> NoReturn:
    raise _Signalled(number)


def _ended_by(number: int, opened: Opened) -> int:
    """End a launched program too, as the screen does; a hang-up leaves it running."""
    if opened.launched is not None and number != signal.SIGHUP:
        return opened.launched.terminate()
    return SIGNALLED + number


def replay(invocation: Invocation) -> int:
    """Show the screen over a recording."""
    _need_terminal()
    from gputop.engine.replay import Replay

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
