"""The command line: words to actions, errors to exit codes. Imports nothing heavy before it must."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gputop.cli.arguments import parse
from gputop.cli.commands import COMMANDS
from gputop.errors import INTERRUPTED, GputopError


def main(argv: Sequence[str] | None = None) -> int:
    """Run gputop and return its exit code: 0 ok, 1 failed, 2 usage, 3 no permission, 4 no such process,
    130 interrupted; a launched command's own code passes through."""
    try:
        invocation = parse(sys.argv[1:] if argv is None else argv)
        return COMMANDS[invocation.command].run(invocation)
    except GputopError as error:
        print(error.message, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone; there is nobody left to tell
        return 0
