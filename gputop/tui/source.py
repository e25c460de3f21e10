"""What the screen needs from below: a `Source` (the live engine, or a recording).

The screen calls `summary`, `flame`, `strips`, `gpu_history`, `code`, `route`, `snap` and `reading` from worker threads
of its own; everything else is called from the thread of the user interface and returns at once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gputop.analysis.results import CallTree, Column, GpuHistory, Summary, Window
from gputop.model import Session

if TYPE_CHECKING:
    from gputop.snapshot.flight import Saved
    from gputop.snapshot.kineto.request import Options
    from gputop.snapshot.kineto.route import Route
    from gputop.target.code import Code
    from gputop.target.find import Candidate

#: (pid, tid) of a thread.
Thread = tuple[int, int]


class Outcome(enum.Enum):
    """Why the screen ended; what happens to a launched command is the caller's to do."""

    QUIT = "quit"  # nothing to decide: attached, a recording, or the command has ended
    TERMINATE = "terminate"  # the user wants the launched command ended
    LEAVE = "leave"  # the user wants the launched command to go on
    LOST = "lost"  # the terminal is gone, or a signal asked us to go


class Source(Protocol):
    """Something to look at.

    Attributes:
        session: what it is about; known before anything is sampled.
        live: it still grows; False for a recording.
        launched: gputop started the command itself, so that quitting has to ask what becomes of it.
        output: the file that a launched command prints to, or None.
        exited: None while the target lives; then its exit code, None in the tuple when it is not known.
        ended_by: the signal that ended it, 0 when none did, None when that is not known.
    """

    @property
    def session(self) -> Session: ...
    @property
    def live(self) -> bool: ...
    @property
    def launched(self) -> bool: ...
    @property
    def output(self) -> Path | None: ...
    @property
    def exited(self) -> tuple[int | None] | None: ...
    @property
    def ended_by(self) -> int | None: ...

    def span(self) -> Window | None:
        """Return the time for which anything is kept, None before the first sample."""

    def summary(
        self, window: Window, columns: int, thread: Thread | None = None, *, alone: bool = False, native: bool = False
    ) -> Summary:
        """Sum up a window, with a timeline of `columns` steps of `thread` (None: analysis chooses); may be slow.

        `alone`: functions and lines are of that thread only, instead of all threads' work. `native`: with the native
        functions that Python's lines called.
        """

    def about_now(self, summary: Summary) -> Summary:
        """Return a summary of a window that ends now, its verdict on the last seconds where these are unlike it."""

    def flame(self, window: Window, thread: Thread | None = None, *, alone: bool = False) -> CallTree:
        """Return the call tree of a window; may be slow."""

    def strips(self, window: Window, threads: Sequence[Thread], steps: int) -> Mapping[Thread, tuple[Column, ...]]:
        """Return what each of these threads did in each of `steps` steps of a window; may be slow."""

    def gpu_history(self, window: Window, steps: int) -> tuple[GpuHistory, ...]:
        """Return each GPU with its curves in `steps` steps, the target's first; may be slow."""

    def code(self, file: str) -> Code:
        """Return a source file of the target, or why it cannot be shown; may be slow."""

    def set_rate(self, factor: float) -> None:
        """Sample at `factor` times the configured rates from now on."""

    def route(self) -> Route | None:
        """Return which trace the snapshot key would take now, None when that cannot be said; slow."""

    def reading(self, saved: Saved) -> tuple[str, ...]:
        """Return what a saved trace shows, in sentences; slow."""

    def snap(
        self, options: Options, progress: Callable[[str], None], consent: Callable[[str], bool]
    ) -> tuple[Saved, ...]:
        """Save a trace and return the files written; slow, tells how far it is.

        `consent` is asked, on the calling thread, before anything is run inside the target.

        Raises:
            GputopError: it could not be written; nothing half-written is left.
        """

    def output_lines(self, count: int) -> list[str]:
        """Return the last lines that the launched command printed, made printable."""

    def forward(self, signum: int) -> None:
        """Pass a signal on to the launched command."""

    def terminate(self) -> None:
        """End the launched command."""


#: Lists what can be attached to; may be slow (called from a worker thread).
Find = Callable[[], "Sequence[Candidate]"]
#: Attaches; may be slow and raise `GputopError` (called from a worker thread).
Attach = Callable[[int], Source]
