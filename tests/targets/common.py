"""What all target programs share: they say when they are ready, time themselves inside, and tell the truth at the end.

A target prints `ready` when it is in its steady state, works until its standard input is closed, and then prints one
line of JSON: seconds of wall time, the share of each state in the main thread, and where its hottest line is (marked
`# hot` in the source). A step lasts a few milliseconds, so that any window holds the same mix. Standard library only:
targets run under any interpreter.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import select
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

#: As long as a test may take at the most; a target that nobody ends goes by itself.
LIMIT_S = 90.0


def starved_s() -> float:
    """Return how long this thread was ready to run without a CPU, since it began (kernel's schedstat, second field)."""
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


class Clock:
    """Seconds spent in each state, as the program itself measures them; waiting for a CPU counts as "starved"."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.start = time.monotonic()

    @contextmanager
    def timed(self, state: str) -> Iterator[None]:
        start, starved = time.monotonic(), starved_s()
        yield
        starved = starved_s() - starved
        self.add(state, time.monotonic() - start, starved)

    def add(self, state: str, wall: float, starved: float = 0.0) -> None:
        self.seconds[state] += wall - starved
        self.seconds["starved"] += starved

    def shares(self) -> dict[str, float]:
        wall = time.monotonic() - self.start
        return {state: round(seconds / wall, 4) for state, seconds in self.seconds.items()}


def run(step: Callable[[Clock], object], source: str, mark: str = "") -> None:
    """Repeat `step` until standard input is closed, then print the truth; `source` and `mark` as for `hot`."""
    step(Clock())
    clock = Clock()
    print("ready", flush=True)
    while not asked_to_end() and time.monotonic() - clock.start < LIMIT_S:
        step(clock)
    tell(clock, source, mark)


def wait_blocked(wait: Callable[[], object], wake: Callable[[], object], state: str, source: str, mark: str) -> None:
    """Block in `wait` all the time; a second thread calls `wake` when standard input is closed."""

    def watch() -> None:
        select.select([sys.stdin], [], [], LIMIT_S)
        wake()

    threading.Thread(target=watch, name="watch", daemon=True).start()
    clock = Clock()
    print("ready", flush=True)
    with clock.timed(state):
        wait()
    tell(clock, source, mark)


def asked_to_end() -> bool:
    """Tell whether standard input was closed."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def tell(clock: Clock, source: str, mark: str = "", **more: object) -> None:
    """Print the truth."""
    wall = round(time.monotonic() - clock.start, 3)
    truth = {"wall": wall, "shares": clock.shares(), "hot": hot(Path(source), mark), **more}
    print(json.dumps(truth), flush=True)


def hot(source: Path, mark: str = "") -> dict[str, object] | None:
    """Return file, line and function of the line marked `# hot MARK`; None when there is no such line."""
    function = "<module>"
    for number, line in enumerate(source.read_text().splitlines(), 1):
        if line.lstrip().startswith(("def ", "async def ")):
            function = line.split("def ", 1)[1].split("(", 1)[0]
        if line.endswith(f"# hot {mark}".rstrip()):
            return {"file": str(source), "line": number, "function": function}
    return None


def compute_python(seconds: float) -> int:
    """Work in the interpreter alone: small integers, no calls into C that last."""
    end = time.monotonic() + seconds
    total = 0
    while time.monotonic() < end:
        for number in range(200):
            total = (total * 31 + number) & 0xFFFF
    return total


_BLOCK = bytes(1 << 19)


def compute_native(seconds: float) -> None:
    """Work in libcrypto, which has let go of the GIL."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        hashlib.sha256(_BLOCK).digest()


def driver(library: str) -> ctypes.CDLL:
    """Load the stand-in for the CUDA driver; each of its functions takes its duration in microseconds."""
    return ctypes.CDLL(library)


def microseconds(seconds: float) -> ctypes.c_long:
    """Convert to what the stand-in's functions take."""
    return ctypes.c_long(int(seconds * 1e6))
