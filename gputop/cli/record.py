"""`gputop record`: keep everything sampled."""

from __future__ import annotations

import sys

from gputop.cli.arguments import Invocation
from gputop.cli.watch import watching
from gputop.errors import GputopError
from gputop.session import SessionWriter


def run(invocation: Invocation) -> int:
    """Record until the time is over, the target ends or Ctrl-C; return the exit code.

    The file is made before a program is launched: a program that nobody records is not what was asked for.
    """
    path = invocation.flags.file
    recording = SessionWriter(path)
    try:
        with watching(invocation, recording) as watch:
            watch.wait(invocation.flags.duration)
            watch.engine.stop()
            if recording.error is not None:
                raise recording.error
            print(f"recorded {path}; look at it with: gputop replay {path}", file=sys.stderr)
            return watch.end_code()
    except GputopError:
        recording.close()
        if not recording.error:
            path.unlink()  # there was no target: nothing is in it
        raise
