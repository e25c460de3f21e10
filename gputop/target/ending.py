"""How a program ended, in words."""

from __future__ import annotations

import signal

from gputop.errors import SIGNALLED


def ending(code: int, ended_by: int | None) -> str:
    """Return "exited with code 3", or "ended by signal 11 (SIGSEGV)".

    Args:
        code: the exit code as shells have it, which is 128 + n after signal n.
        ended_by: the signal that ended it, 0 when none did; None when that is not known: then a code that may mean
            a signal is told with a question mark.
    """
    if ended_by:
        name = _name(ended_by)
        return f"ended by signal {ended_by}" + (f" ({name})" if name else "")
    name = _name(code - SIGNALLED) if ended_by is None else ""
    return f"exited with code {code}" + (f" ({SIGNALLED} + {name}?)" if name else "")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
