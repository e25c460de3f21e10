"""gputop in a real terminal emulator, read as a person sees it: tmux keeps the screen, we look at its text."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Tmux:
    """A command in a terminal; skips where tmux is missing.

    Args:
        folder: private directory, for tmux's socket.
        command: what runs in it; when it ends, `code=N` is shown in its place.
    """

    def __init__(self, folder: Path, command: list[str], columns: int = 140, rows: int = 40, **environ: str) -> None:
        if not shutil.which("tmux"):
            pytest.skip("tmux is needed to see what a terminal shows")
        self._socket = str(folder / "tmux")
        line = f"{shlex.join(command)}; echo code=$?; exec cat"
        size = ["-x", str(columns), "-y", str(rows)]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, line, env={**os.environ, **environ})

    def __enter__(self) -> Tmux:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._tmux("kill-server")

    def shown(self) -> str:
        """Return the text on the screen."""
        return self._tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names ("Enter", "C-c")."""
        self._tmux("send-keys", *keys)

    def expect(self, *words: str, within: float = 20.0) -> str:
        """Wait until all these words are on the screen, and return it."""
        deadline = time.monotonic() + within
        while not all(word in (shown := self.shown()) for word in words):
            assert time.monotonic() < deadline, f"{words} are not shown within {within} s:\n{shown}"
            time.sleep(0.05)
        return shown

    def _tmux(self, *words: str, env: dict[str, str] | None = None) -> str:
        command = ["tmux", "-S", self._socket, *words]
        return subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True, timeout=10).stdout
