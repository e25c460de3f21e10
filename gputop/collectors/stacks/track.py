"""One followed process: its succession of windows, and when each begins and ends.

A window is ended only when the next one has attached, so that nearly no time is lost; what both saw is counted once.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator

from gputop.collectors.stacks.pace import Pace, until_read
from gputop.collectors.stacks.threads import NativeIds
from gputop.collectors.stacks.window import Outcome, Window
from gputop.model import ProcessInfo, StackBatch

#: The first window is short, so that something is on the screen soon.
_FIRST = 0.4
#: How long attaching takes before it was measured; 0.01 to 0.15 s were seen.
_ATTACH = 0.1
#: How long a window goes on when the next one does not attach.
_GRACE = 1.0
#: No py-spy may take longer than this to attach, or (beyond two mean intervals) to write its file.
_ATTACH_LIMIT, _WRITE_LIMIT = 15.0, 3.0

#: Starts a py-spy with this rate and longest life in seconds, if it can be started.
Launch = Callable[[int, int], Window | None]


class Track:
    """The windows over one process.

    Attributes:
        process: whom it watches.
        ids, pace: its threads' native ids; what reading it costs.
        current, following: the py-spy that samples now, and the one that is to take over.
        continuous: whether windows follow each other without a gap; else there is one for each `turn`.
        turn, last_turn: whether a window may be opened when there is none; when that was given last.
        retired: nothing new is opened, and what samples is ended.
        share: of a core, what its py-spys may use.
        not_before: the earliest time of the next try.
        failures: tries without result in a row.
        covered_until: end of the last batch.
    """

    def __init__(self, process: ProcessInfo) -> None:
        self.process = process
        self.ids = NativeIds(process.pid)
        self.pace = Pace(_thread_count(process.pid))
        self.current: Window | None = None
        self.following: Window | None = None
        self.continuous = True
        self.turn = False
        self.last_turn = 0.0
        self.retired = False
        self.share = 0.1
        self.not_before = 0.0
        self.failures = 0
        self.covered_until = 0.0
        self._attach = _ATTACH
        self._pause = 0.0
        self._first = True

    def windows(self) -> Iterator[Window]:
        """Iterate over the py-spys that live now."""
        return (window for window in (self.current, self.following) if window)

    @property
    def who(self) -> str:
        """Return the process in words."""
        return f"{self.process.name or 'process'} (pid {self.process.pid})"

    @property
    def ending(self) -> bool:
        """Say whether a window was ended whose results are still to come."""
        return self.current is not None and self.current.interrupted is not None

    def advance(self, now: float, asked: float, launch: Launch) -> None:
        """Open, end or kill what is due; `asked` is the rate wanted."""
        self._pause = self.pace.pause(asked, self.share)
        for window in self.windows():
            if now >= _hung_at(window):
                window.kill("it wrote no results" if window.interrupted else "it did not attach")
        if self.current is None:
            if self._may_open() and now >= self.not_before:
                self.current = self._open(asked, launch)
        elif self._samples(self.current):
            if self._wants_following() and now >= max(self._due(self.current) - self._attach, self.not_before):
                self.following = self._open(asked, launch)
            if now >= self._ends_at(self.current):
                self.current.interrupt()
                self.not_before = max(self.not_before, now + self._pause)

    def next_due(self) -> float:
        """Return when `advance` has something to do, unless a py-spy says something before."""
        hung = min(map(_hung_at, self.windows()), default=math.inf)
        if self.current is None:
            return self.not_before if self._may_open() else math.inf
        if not self._samples(self.current):
            return hung
        opens = max(self._due(self.current) - self._attach, self.not_before) if self._wants_following() else math.inf
        return min(hung, opens, self._ends_at(self.current))

    def retire(self) -> None:
        """Open nothing new, and end what samples."""
        self.retired = True
        if self.following:
            self.following.kill("it is not needed any more")
        if self.current and self._samples(self.current):
            self.current.interrupt()

    def heard(self, window: Window) -> None:
        """End a window that attached too late."""
        if self.retired and self._samples(window):
            window.interrupt()

    def learn(self, outcome: Outcome, batch: StackBatch) -> None:
        """Take in what a window that brought something took."""
        self.covered_until = batch.end
        self.failures = 0
        if outcome.ready is not None:
            attach = outcome.ready - outcome.spawned
            self._attach += (attach - self._attach) / 2
            self.pace.learn(attach, outcome.cpu_seconds, batch.samples)

    def left(self, window: Window) -> None:
        """Drop a window that has ended; the one after it takes over."""
        if window is self.following:
            self.following = None
            return
        self.current, self.following = self.following, None
        self.turn = self.continuous
        self._first = self._first and window.ready is None

    def _may_open(self) -> bool:
        return self.turn and not self.retired

    def _wants_following(self) -> bool:
        return self.continuous and not self._pause and not self.retired and self.following is None

    @staticmethod
    def _samples(window: Window) -> bool:
        return window.ready is not None and window.interrupted is None

    def _due(self, window: Window) -> float:
        assert window.ready is not None
        seconds = _FIRST if self._first else self.pace.seconds(self.share)
        return window.ready + max(seconds, until_read(window.rate))

    def _ends_at(self, window: Window) -> float:
        """Return when a sampling window ends; its successor is left time for its own first read."""
        due = self._due(window)
        if not self.continuous or self._pause:
            return due
        if self.following is None or self.following.ready is None:
            return due + _GRACE
        return max(due, self.following.ready + 1 / self.following.rate)

    def _open(self, asked: float, launch: Launch) -> Window | None:
        rate = self.pace.rate(asked, self.share)
        longest = max(self.pace.seconds(self.share), until_read(rate)) + _GRACE + 1
        return launch(rate, math.ceil(longest))


def _hung_at(window: Window) -> float:
    if window.cut_short:
        return math.inf
    if window.interrupted is not None:
        return window.interrupted + _WRITE_LIMIT + 2 / window.rate
    return window.spawned + _ATTACH_LIMIT if window.ready is None else math.inf


def _thread_count(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/task"))
    return 1
