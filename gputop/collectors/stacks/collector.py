"""The collector: one thread that runs py-spy windows over the followed processes and emits what they saw."""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gputop import procfs
from gputop.collectors.base import Emit
from gputop.collectors.stacks.chrometrace import Memory
from gputop.collectors.stacks.command import find_binary
from gputop.collectors.stacks.harvest import harvest
from gputop.collectors.stacks.notes import Notes
from gputop.collectors.stacks.roster import Roster
from gputop.collectors.stacks.track import Track
from gputop.collectors.stacks.troubles import is_trouble, recognise
from gputop.collectors.stacks.window import Outcome, Window
from gputop.model import ProcessInfo, StackBatch

#: `stop` gives running py-spys this long to write what they have, and the thread this long to end.
_LAST_WORDS, _STOP = 0.15, 0.28
_RESTART = 1.0
_SHORTEST_WAIT, _LONGEST_WAIT = 0.001, 1.0
_SLOWED = 0.7


class StackCollector:
    """Python stacks of the followed processes.

    Args:
        emit: takes the batches and notes.
        clock: monotonic seconds.
        rate_hz: reads each second of each process, unless that costs too much.
        share: of one core, what all py-spys together may use.
        find: returns the py-spy to run.
    """

    name = "stacks"

    def __init__(
        self,
        emit: Emit,
        clock: Callable[[], float] = time.monotonic,
        *,
        rate_hz: float = 100.0,
        share: float = 0.10,
        find: Callable[[], Path | None] = find_binary,
    ) -> None:
        self._emit = emit
        self._clock = clock
        self._rate = rate_hz
        self._find = find
        self._notes = Notes(emit, clock)
        self._roster = Roster(self._track, share)
        self._memory = Memory()
        self._wanted: tuple[ProcessInfo, ...] = ()
        self._live: dict[int, Window] = {}
        self._ended_cpu_s = 0.0
        self._lock = threading.Lock()
        self._stopping = False
        self._wake: int | None = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="gputop-stacks", daemon=True)

    # ------------------------------------------------------------------------------------- any thread

    def start(self) -> None:
        """Begin to look at the followed processes; returns at once."""
        self._thread.start()

    def follow(self, processes: tuple[ProcessInfo, ...]) -> None:
        """Look at those of the processes that run Python, the first one before all others."""
        self._wanted = tuple(process for process in processes if process.python is not None)
        self._awake()

    def set_rate(self, hz: float) -> None:
        """Read so often each second from the next window on; less where a read is too dear."""
        self._rate = max(hz, 1.0)

    def own_pids(self) -> tuple[int, ...]:
        """Return the py-spys that run now."""
        with self._lock:
            return tuple(self._live)

    def cpu_s(self) -> float:
        """Return the CPU seconds used by all py-spys so far, ended and running."""
        with self._lock:
            total = self._ended_cpu_s
            for pid in self._live:
                with contextlib.suppress(OSError):
                    total += procfs.process_cpu_s(pid)
            return total

    def stop(self) -> None:
        """End all py-spys; what they had seen until now is still emitted, from this collector's thread."""
        self._stopping = True
        self._awake()
        if self._thread.ident is not None:
            self._thread.join(_STOP)
        with self._lock:
            for window in self._live.values():
                window.kill("gputop ends")
            if self._wake is not None:
                os.close(self._wake)
                self._wake = None

    def _awake(self) -> None:
        with self._lock:
            if self._wake is not None:
                os.eventfd_write(self._wake, 1)

    # --------------------------------------------------------------------------- the collector's thread

    def _run(self) -> None:
        try:
            binary = self._find()
            if binary is None:
                self._notes.tell("missing", "py-spy is not installed: no Python functions", "pip install py-spy")
            else:
                self._sample(binary)
        except Exception as error:  # whatever it is, the rest of gputop goes on without us
            self._notes.tell("internal", f"no more Python stacks: {error!r}", "please report this as a bug of gputop")

    def _sample(self, binary: Path) -> None:
        self._binary = binary
        with selectors.DefaultSelector() as self._selector:
            assert self._wake is not None
            self._selector.register(self._wake, selectors.EVENT_READ, partial(os.eventfd_read, self._wake))
            try:
                while not self._stopping:
                    self._step()
                self._last_words()
            finally:
                self._abandon()

    def _step(self) -> None:
        self._roster.update(self._wanted)
        now = self._clock()
        self._tell_turns(*self._roster.take_turns(now))
        for track in self._roster:
            track.advance(now, self._rate)
        due = min((track.next_due() for track in self._roster), default=math.inf) - self._clock()
        self._listen(min(max(due, _SHORTEST_WAIT), _LONGEST_WAIT))

    def _listen(self, seconds: float) -> None:
        """Serve whatever py-spy says first within `seconds`."""
        for key, _ in self._selector.select(seconds):
            key.data()

    def _track(self, process: ProcessInfo) -> Track:
        track = Track(process, lambda rate, seconds: self._launch(track, rate, seconds))
        return track

    def _launch(self, track: Track, rate: int, seconds: int) -> Window | None:
        try:
            window = Window(self._binary, track.process.pid, rate, seconds, self._clock)
        except OSError as error:
            track.not_before = self._clock() + _RESTART
            self._notes.tell("launch", f"py-spy cannot be started: {error.strerror}", "see gputop doctor")
            return None
        self._notes.tell("launch", "")
        with self._lock:
            self._live[window.pid] = window
        self._selector.register(window, selectors.EVENT_READ, partial(self._hear, track, window))
        return window

    def _hear(self, track: Track, window: Window) -> None:
        attached = window.ready is not None
        if not window.listen():
            self._collect(track, window)
        elif window.ready is not None and not attached:
            track.attached(window)

    def _collect(self, track: Track, window: Window) -> None:
        outcome = self._finish(window)
        track.left(window)
        batch = harvest(outcome, track.ids, self._memory, track.covered_until)
        self._memory.trim()
        if batch is not None:
            self._harvested(track, outcome, batch)
        if is_trouble(outcome):
            self._failed(track, outcome, quiet=batch is not None)

    def _finish(self, window: Window) -> Outcome:
        self._selector.unregister(window)
        with self._lock:
            outcome = window.finish()
            del self._live[window.pid]
            self._ended_cpu_s += outcome.cpu_seconds
        return outcome

    def _harvested(self, track: Track, outcome: Outcome, batch: StackBatch) -> None:
        track.covered_until = batch.end
        track.failures = 0
        self._notes.withdraw(f"attach:{batch.pid}")
        if outcome.ready is not None:
            track.pace.learn(outcome.ready - outcome.spawned, outcome.cpu_seconds, batch.samples)
        self._emit(batch)
        self._tell_pace(track)

    def _failed(self, track: Track, outcome: Outcome, quiet: bool) -> None:
        track.failures += 1
        trouble, text = recognise(outcome, track.process)
        track.not_before = self._clock() + trouble.pause(track.failures)
        if not quiet and not track.retired and trouble.patience is not None and track.failures > trouble.patience:
            self._notes.tell(f"attach:{track.process.pid}", *trouble.note(text, track.process))

    def _tell_turns(self, at_once: int, followed: int) -> None:
        what = f"Python stacks of {at_once} of {followed} processes at a time, in turn" if at_once < followed else ""
        self._notes.tell("turns", what, "--no-tree watches the one process" if what else "")

    def _tell_pace(self, track: Track) -> None:
        rate = track.pace.rate(self._rate, track.share)
        who = f"{track.process.name} (pid {track.process.pid})"
        what = f"Python stacks of {who} only {rate} times a second: reading its threads is dear"
        self._notes.tell(f"pace:{track.process.pid}", what if rate < _SLOWED * self._rate else "")

    def _last_words(self) -> None:
        """Let the py-spys that sample write what they have."""
        for track in self._roster:
            track.retired = True
            track.advance(self._clock(), self._rate)
        deadline = self._clock() + _LAST_WORDS
        while any(track.current and track.current.interrupted for track in self._roster) and self._clock() < deadline:
            self._listen(0.01)

    def _abandon(self) -> None:
        with self._lock:
            windows = tuple(self._live.values())
        for window in windows:
            window.kill("gputop ends")
            self._finish(window)
