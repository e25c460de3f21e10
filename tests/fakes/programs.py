"""Small programs to look at, each known to be ready before a test goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

#: Says that it is ready, and ends when its input does.
READY = "print('ready', flush=True)\nimport sys; sys.stdin.read()\n"


@contextmanager
def running(
    command: Sequence[str | bytes], environ: Mapping[str, str] | None = None, session: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Run a program that prints a line when it is ready; it is killed at the end if its input's end is not enough."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environ,
        start_new_session=session,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.stdin.close()
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()


def python(code: str, *arguments: str) -> list[str]:
    """Return the command line that runs code in this interpreter, without site packages, ending with `READY`."""
    return [sys.executable, "-I", "-S", "-c", code + READY, *arguments]
