"""What the screen costs: CPU, bytes to the terminal, time to the first picture, time to resize.

Runs the real app in a pseudo-terminal over a synthetic source whose answers are made beforehand, so that only the
screen is measured. Run it as a program: `python tests/bench/ui.py --hz 2 --size 160x48 --scene starved`.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_CHILD = """
import sys, time
sys.path.insert(0, {root!r})
from gputop.config import Settings
from gputop.tui.app import show
from tests.bench.ui import canned
show(canned({scene!r}, {hz}), Settings(hz={hz}))
"""
_ANSWERS = 40


def canned(scene: str, hz: float) -> object:
    """Return a source whose summaries cost nothing: answers made on first use, then shown in turn."""
    from tests.fakes.source import SCENES

    source = SCENES[scene]()
    make, ready, turn = source.summary, [], iter(range(10**9))

    def summary(window: object, columns: int, thread: object = None) -> object:
        if not ready or len(ready[0].timeline.columns) != columns:
            from gputop.model import Window

            end = source.clock()
            ready[:] = [make(Window(end - 60 + at / hz, end + at / hz), columns) for at in range(_ANSWERS)]
        return ready[next(turn) % _ANSWERS]

    source.summary = summary  # type: ignore[method-assign, assignment]
    return source


@dataclass
class Terminal:
    """The app in a pseudo-terminal of its own."""

    process: subprocess.Popen[bytes]
    master: int
    started: float

    def read(self, seconds: float, stop: bytes | None = None) -> tuple[int, float | None]:
        """Read for a while; return the bytes, and when `stop` was seen (seconds since the start)."""
        count, seen, end, tail = 0, None, time.monotonic() + seconds, b""
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                break
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:
                break
            count, tail = count + len(data), tail[-64:] + data
            if stop is not None and stop in tail:
                seen = time.monotonic() - self.started
                break
        return count, seen

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal, as a window manager does."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def cpu(self) -> float:
        """Return the CPU seconds of all its threads so far."""
        total = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def close(self) -> None:
        """End the app and the terminal."""
        os.write(self.master, b"q")
        self.read(1.0)
        self.process.wait(5)
        os.close(self.master)


def open_terminal(command: list[str], columns: int, rows: int, environ: dict[str, str] | None = None) -> Terminal:
    """Start a command in a pseudo-terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    started = time.monotonic()
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **(environ or {})}
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=_ROOT, env=env, start_new_session=True
    )
    os.close(slave)
    return Terminal(process, master, started)


def child(scene: str, hz: float) -> list[str]:
    """Return the command that shows a scene."""
    return [sys.executable, "-c", _CHILD.format(root=str(_ROOT), scene=scene, hz=hz)]


def measure(scene: str, hz: float, columns: int, rows: int, seconds: float) -> dict[str, float]:
    """Return what one run costs."""
    terminal = open_terminal(child(scene, hz), columns, rows)
    _, first = terminal.read(10, stop=b"pid 4121")
    start_cpu = terminal.cpu()
    _, picture = terminal.read(10, stop=b"decode_image")
    terminal.read(3)
    before, at = terminal.cpu(), time.monotonic()
    count, _ = terminal.read(seconds)
    took = time.monotonic() - at
    cost = terminal.cpu() - before
    terminal.close()
    return {
        "first picture s": first or float("nan"),
        "cpu until then s": start_cpu,
        "first data s": picture or float("nan"),
        "cpu %": 100 * cost / took,
        "kB/s": count / took / 1000,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hz", type=float, default=2.0)
    parser.add_argument("--size", default="160x48")
    parser.add_argument("--scene", default="starved")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    columns, rows = map(int, options.size.split("x"))
    for name, value in measure(options.scene, options.hz, columns, rows, options.seconds).items():
        print(f"{name:>18}  {value:8.2f}")


if __name__ == "__main__":
    main()
