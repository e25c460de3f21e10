"""Slow work off the user interface's thread, on daemon threads: nothing that hangs can keep `q` waiting.

(Textual's thread workers run in asyncio's default executor, which the interpreter waits for at its end.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from gputop.analysis.results import Window
from gputop.tui.source import Thread

Answer = TypeVar("Answer")


class Question(NamedTuple):
    """What `Source.summary` is asked; `until` is the end of what was known then (there is news when it has moved)."""

    window: Window
    columns: int
    thread: Thread | None
    until: float = 0.0
    alone: bool = False
    native: bool = False

    @property
    def of_now(self) -> bool:
        """Tell whether the window ends with what is known: it ends with the last whole step of the timeline."""
        return self.until - self.window.end < 2 * self.window.seconds / max(self.columns, 1)


def spawn(name: str, work: Callable[[], None]) -> threading.Thread:
    """Run `work` once on a daemon thread."""
    thread = threading.Thread(target=work, name=f"gputop-{name}", daemon=True)
    thread.start()
    return thread


class Feed(Generic[Answer]):
    """Asks for something slow, one question at a time; a question that waits is replaced by a newer one."""

    def __init__(
        self, answer: Callable[[Question], Answer], deliver: Callable[[Question, Answer | Exception], object]
    ) -> None:
        self._answer = answer
        self._deliver = deliver
        self._wake = threading.Condition()
        self._question: Question | None = None
        self._stopped = False
        self._asked: Question | None = None
        self._thread = spawn("feed", self._run)

    def ask(self, question: Question) -> bool:
        """Ask, unless this very question was the last one; return whether an answer will come."""
        with self._wake:
            if question == self._asked:
                return False
            self._question = self._asked = question
            self._wake.notify()
        return True

    def stop(self, wait: float = 0.1) -> None:
        """End the thread; one that is busy ends after its answer, which is thrown away."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        self._thread.join(wait)

    def _run(self) -> None:
        while (question := self._next()) is not None:
            try:
                answer: Answer | Exception = self._answer(question)
            except Exception as error:  # shown to the user: a fault in analysis must not end the screen
                answer = error
            if not self._stopped:
                self._deliver(question, answer)

    def _next(self) -> Question | None:
        with self._wake:
            self._wake.wait_for(lambda: self._stopped or self._question is not None)
            question, self._question = self._question, None
            return None if self._stopped else question
