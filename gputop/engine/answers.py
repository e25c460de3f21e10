"""Questions about any window of a store, be it live or recorded.

The analysis and the writers of traces are imported when they are first asked, on the thread that asks: together 60 ms
of CPU time that the first picture need not wait for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gputop.model import Session, Window
from gputop.store import Store

if TYPE_CHECKING:
    from gputop.analysis.results import CallTree, Column, GpuHistory, Summary
    from gputop.snapshot.flight import Saved
    from gputop.snapshot.kineto.request import Options
    from gputop.snapshot.kineto.route import Route
    from gputop.snapshot.kineto.shoot import Consent

#: The snapshot key reaches so far back, seconds.
KEY_SECONDS = 10.0


class Answers(ABC):
    """What the screen and the reports ask.

    Attributes:
        session: what it is about.
        store: where the samples are.
    """

    session: Session
    store: Store

    @property
    def exited(self) -> tuple[int | None] | None:
        """Return None while the target lives, else its exit code (None inside when it cannot be known)."""
        ended = self.store.ended()
        pid = self.session.root.pid
        return (ended[pid],) if pid in ended else None

    def summary(
        self,
        window: Window,
        columns: int,
        thread: tuple[int, int] | None = None,
        *,
        alone: bool = False,
        native: bool = False,
    ) -> Summary:
        """Sum up a window; costs some milliseconds of CPU, twice as many with the native calls of Python lines."""
        from gputop.analysis.summary import summarise

        return summarise(self.store, window, columns=columns, thread=thread, alone=alone, native=native)

    def about_now(self, summary: Summary) -> Summary:
        """Return a summary of a window that ends now, its verdict on the last seconds where these are unlike it."""
        from gputop.analysis import lately

        return lately.about_now(self.store, summary)

    def flame(self, window: Window, thread: tuple[int, int] | None = None, *, alone: bool = False) -> CallTree:
        """Return the call tree of a window; costs some milliseconds of CPU."""
        from gputop.analysis.summary import call_tree

        return call_tree(self.store, window, thread, alone=alone)

    def strips(
        self, window: Window, threads: Sequence[tuple[int, int]], steps: int
    ) -> Mapping[tuple[int, int], tuple[Column, ...]]:
        """Return what each of these threads did in each step of a window; costs some milliseconds of CPU."""
        from gputop.analysis import timeline
        from gputop.store import ThreadKey

        return timeline.strips(self.store, [ThreadKey(*thread) for thread in threads], window, steps)

    def gpu_history(self, window: Window, steps: int) -> tuple[GpuHistory, ...]:
        """Return each GPU with its curves; costs some milliseconds of CPU."""
        from gputop.analysis import gpus

        return gpus.history(self.store, window, steps)

    @abstractmethod
    def snapshot(
        self,
        path: Path | None,
        before: float,
        options: Options,
        progress: Callable[[str], None],
        consent: Consent = lambda question: False,
    ) -> tuple[Saved, ...]:
        """Write a trace that reaches `before` seconds back.

        Raises:
            SnapshotError: it could not be written; nothing half-written is left.
        """

    def snap(self, options: Options, progress: Callable[[str], None], consent: Consent) -> tuple[Saved, ...]:
        """Save a trace of the last and the next seconds under a new name, as the key does.

        Raises:
            SnapshotError: as `snapshot`.
        """
        return self.snapshot(None, KEY_SECONDS, options, progress, consent)

    def reading(self, saved: Saved) -> tuple[str, ...]:
        """Return what a saved trace shows, in sentences; takes about a second for 30 MB."""
        from gputop.snapshot.kineto import apart

        return apart.told(saved.path)

    @abstractmethod
    def route(self) -> Route:
        """Return which trace is possible now; costs some milliseconds for each process."""

    def _save(self, path: Path | None, window: Window, progress: Callable[[str], None]) -> tuple[Saved, ...]:
        """Save a window that has passed."""
        from gputop.snapshot import flight

        return (flight.save(self.store, window, path or flight.default_path(self.session), progress),)
