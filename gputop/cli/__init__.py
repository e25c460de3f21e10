"""The command line: words to actions, errors to exit codes. Imports nothing heavy before it must."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from gputop.cli.arguments import parse
from gputop.cli.commands import COMMANDS
from gputop.config import unknown_variables
from gputop.errors import FAILED, INTERRUPTED, OK, GputopError


def main(argv: Sequence[str] | None = None) -> int:
    """Run gputop and return its exit code: 0 ok, 1 failed, 2 usage, 3 no permission, 4 no such process,
    130 interrupted; a launched command's own code passes through."""
    _print_any_character()
    try:
        for doubt in unknown_variables():
            print(GputopError(doubt).message, file=sys.stderr)
        invocation = parse(sys.argv[1:] if argv is None else argv)
        return COMMANDS[invocation.command].run(invocation)
    except GputopError as error:
        print(error.message, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone; there is nobody left to tell
        _drop_output()
        return OK
    except OSError as error:  # of the machine, not a fault of ours: disk full, too many open files
        _drop_output()
        print(f"gputop: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""), file=sys.stderr)
        return FAILED


def _print_any_character() -> None:
    """Show a replacement for what the terminal's encoding lacks, instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _drop_output() -> None:
    """Forget what is still to be written: the interpreter would try, and fail, again at its end."""
    with suppress(OSError, AttributeError):  # there may be no standard output at all
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
