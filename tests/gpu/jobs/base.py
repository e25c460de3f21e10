"""What all jobs share: the ledger of a thread's time, the loop, and work in fixed amounts."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "targets"))

from common import Clock, asked_to_end, starved_s, tell

__all__ = ["DISPATCH", "LIMIT_S", "Ledger", "asked_to_end", "finish", "native_work", "python_work", "run"]

#: A job that nobody ends goes by itself after so many seconds.
LIMIT_S = 900.0
#: A ledger has a row for so many seconds: finer than any window, small enough to be printed.
_ROW_S = 0.05

#: Dispatching eager operations is interpreter, torch's own code and CUDA calls by turns, within microseconds.
DISPATCH = "python+native+gpu_api"

_BLOCK = bytes(1 << 18)


class Ledger(Clock):
    """A clock that also keeps how much it showed when.

    The states are ids of `gputop.analysis.states`, with a kind where one is known ("gpu_wait.event"), or a sum of
    states that cannot be told apart from inside ("python+native").
    """

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[tuple[float, dict[str, float]]] = [(self.start, {})]
        self._last = _moment()

    @contextmanager
    def timed(self, state: str) -> Iterator[None]:
        """Time a phase from the end of the one before, so that nothing is lost between them."""
        yield
        wall, _, starved = self._passed()
        self.add(state, wall, starved)

    @contextmanager
    def waited(self, state: str, work: str) -> Iterator[None]:
        """Time a phase that blocks in `state`; what it spends on a CPU all the same is `work`."""
        yield
        wall, cpu, starved = self._passed()
        self.add(work, cpu)
        self.add(state, wall - cpu, starved)

    def divided(self, waited: float, state: str, work: str) -> None:
        """End a phase of which so many seconds were spent in `state`, and the rest at `work`."""
        wall, _, starved = self._passed()
        self.add(state, waited, starved)
        self.add(work, wall - waited)

    def _passed(self) -> tuple[float, float, float]:
        last, self._last = self._last, _moment()
        wall, cpu, starved = (now - then for now, then in zip(self._last, last, strict=True))
        return wall, cpu, starved

    def keep(self) -> None:
        """End a step: keep what the clock shows, if it is time for a row."""
        now = time.monotonic()
        if now - self._rows[-1][0] >= _ROW_S:
            self._rows.append((now, dict(self.seconds)))

    def truth(self) -> dict[str, object]:
        """Return it as data: the states, and rows of a time and the seconds of each state until then."""
        states = sorted(self.seconds)
        rows = [[round(at, 6), *(round(seen.get(state, 0.0), 6) for state in states)] for at, seen in self._rows]
        return {"states": states, "rows": rows}


def _moment() -> tuple[float, float, float]:
    """Return now, and the seconds that this thread was on a CPU and waited for one so far."""
    starved = starved_s()
    return time.monotonic(), time.thread_time(), starved


def run(step: Callable[[Ledger], object], warm_up: int = 3) -> None:
    """Repeat `step` until standard input is closed, then print the truth."""
    for _ in range(warm_up):
        step(Ledger())
    ledger, marks = Ledger(), [time.monotonic()]
    print("ready", flush=True)
    while not asked_to_end() and marks[-1] - ledger.start < LIMIT_S:
        step(ledger)
        ledger.keep()
        marks.append(time.monotonic())
    finish(ledger, marks, {})


def finish(ledger: Ledger, marks: list[float], others: dict[int, Ledger]) -> None:
    """Print the truth: the main thread's ledger, the others' by thread id, and when the steps ended."""
    rate = (len(marks) - 1) / (time.monotonic() - ledger.start)
    ledgers = {str(tid): other.truth() for tid, other in others.items()}
    times = [round(mark, 6) for mark in marks]
    tell(ledger, __file__, rate=rate, marks=times, ledger=ledger.truth(), ledgers=ledgers)


def python_work(units: int) -> int:
    """Work in the interpreter alone; a unit is about a millisecond."""
    total = 0
    for number in range(20_000 * units):
        total = (total * 31 + number) & 0xFFFF
    return total


def native_work(units: int) -> None:
    """Work in libcrypto without the GIL; a unit is a fraction of a millisecond."""
    for _ in range(units):
        hashlib.sha256(_BLOCK).digest()
