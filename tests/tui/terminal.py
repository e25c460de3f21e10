"""A program in a pseudo-terminal: for tests of what only a terminal does, and for the bench."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
_SHOW = """
from gputop.config import Settings
from gputop.tui.app import show
from tests.fakes.source import SCENES
print("outcome:", show(SCENES[{scene!r}](), Settings({settings})).value)
"""
#: Makes the terminal the controlling one, then becomes the command (safer than code between fork and exec).
_TAKE = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


def shows(scene: str = "starved", settings: str = "") -> list[str]:
    """Return the command that shows a scene and prints the outcome."""
    return [sys.executable, "-c", _SHOW.format(scene=scene, settings=settings)]


class Terminal:
    """A command on a pseudo-terminal of its own, in a session of its own."""

    def __init__(
        self, command: list[str], columns: int = 100, rows: int = 30, *, controlling: bool = True, **environ: str
    ) -> None:
        """Start it; where the terminal is not the `controlling` one, no signal tells of its changes."""
        self.master, slave = pty.openpty()
        self._size(slave, columns, rows)
        env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environ}
        self.started = time.monotonic()
        take = [sys.executable, "-c", _TAKE, *command] if controlling else command
        self.process = subprocess.Popen(
            take, stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env=env, start_new_session=True
        )
        os.close(slave)
        self._open = True

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait(5)
        self.hang_up()

    def read(self, seconds: float, stop: str | None = None) -> bytes:
        """Read until `stop` has come, or for a while; a closed terminal ends it."""
        data, deadline = b"", time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not (stop and stop.encode() in data):
            if not select.select([self.master], [], [], left)[0]:
                break
            try:
                data += os.read(self.master, 1 << 16)
            except OSError:
                break
        return data

    def expect(self, words: str, within: float = 15.0) -> bytes:
        """Read until these words are shown; they must come in time."""
        data = self.read(within, stop=words)
        assert words.encode() in data, f"{words!r} was not shown within {within} s: …{data[-500:]!r}"
        return data

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self.master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal, as a window manager does."""
        self._size(self.master, columns, rows)

    @staticmethod
    def _size(fd: int, columns: int, rows: int) -> None:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """Close the terminal, as a dropped connection does."""
        if self._open:
            os.close(self.master)
            self._open = False

    def cpu(self) -> float:
        """Return the CPU seconds of all its threads so far."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
