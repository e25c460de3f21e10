"""What the screen costs: time to the first picture, CPU, bytes to the terminal, time to redraw after a resize.

Runs the real app in a pseudo-terminal over a synthetic source whose answers are made beforehand, so that only the
screen is measured:

    python -m tests.bench.ui --hz 2 --size 160x48 --scene starved
    python -m tests.bench.ui --keys F --shows run_epoch       another screen, by its key and a word on it
"""

from __future__ import annotations

import argparse
import sys
import time

from gputop.analysis.results import Summary
from gputop.model import Window
from gputop.tui.source import Thread
from tests.fakes.source import SCENES, FakeSource
from tests.tui.terminal import Terminal

_CHILD = """
from gputop.config import Settings
from gputop.tui.app import show
from tests.bench.ui import canned
show(canned({scene!r}, {hz}), Settings(hz={hz}))
"""
_ANSWERS = 40


def canned(scene: str, hz: float) -> FakeSource:
    """Return a source whose summaries cost nothing: answers made on first use, then shown in turn."""
    source = SCENES[scene]()
    make, turn = source.summary, iter(range(10**9))
    ready: list[Summary] = []

    def summary(
        window: Window, columns: int, thread: Thread | None = None, *, alone: bool = False, native: bool = False
    ) -> Summary:
        if not ready or len(ready[0].timeline.columns) != columns:
            first = source.clock() - _ANSWERS / hz
            ends = [first + at / hz for at in range(_ANSWERS)]
            ready[:] = [make(Window(end - 60, end), columns) for end in ends]
        return ready[next(turn) % _ANSWERS]

    source.summary = summary  # type: ignore[method-assign]
    return source


def measure(
    scene: str, hz: float, columns: int, rows: int, seconds: float, keys: str = "", shows: str = "hottest"
) -> dict[str, float]:
    """Return what one run costs, by the name of what was measured."""
    command = [sys.executable, "-c", _CHILD.format(scene=scene, hz=hz)]
    with Terminal(command, columns, rows) as terminal:
        terminal.expect("pid 4121")
        first, start_cpu = time.monotonic() - terminal.started, terminal.cpu()
        terminal.expect("decode_image")
        data = time.monotonic() - terminal.started
        terminal.press(keys)
        terminal.read(3)
        before, at = terminal.cpu(), time.monotonic()
        count = len(terminal.read(seconds))
        took = time.monotonic() - at
        return {
            "first picture, s": first,
            "CPU until then, s": start_cpu,
            "first data, s": data,
            "CPU, % of a core": 100 * (terminal.cpu() - before) / took,
            "to the terminal, kB/s": count / took / 1000,
            "resize, ms": 1000 * _resized(terminal, columns, rows, shows),
        }


def _resized(terminal: Terminal, columns: int, rows: int, shows: str) -> float:
    """Return how long the first picture in a new size takes, the best of five."""
    took = []
    for step in range(5):
        terminal.read(0.2)
        at = time.monotonic()
        terminal.resize(columns - 1 - step, rows)
        terminal.expect(shows)
        took.append(time.monotonic() - at)
    return min(took)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hz", type=float, default=2.0)
    parser.add_argument("--size", default="160x48")
    parser.add_argument("--scene", default="starved", choices=sorted(SCENES))
    parser.add_argument("--keys", default="", help="pressed before measuring")
    parser.add_argument("--shows", default="hottest", help="a word of the screen that the keys open")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    columns, rows = map(int, options.size.split("x"))
    found = measure(options.scene, options.hz, columns, rows, options.seconds, options.keys, options.shows)
    for name, value in found.items():
        print(f"{name:>22}  {value:8.2f}")


if __name__ == "__main__":
    main()
