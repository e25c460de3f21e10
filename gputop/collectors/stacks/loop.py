"""Opens, hears and collects py-spy windows over the followed processes, in one thread, and emits what they saw."""

from __future__ import annotations

import math
import selectors
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gputop.collectors.base import Emit
from gputop.collectors.stacks.chrometrace import Memory
from gputop.collectors.stacks.harvest import harvest
from gputop.collectors.stacks.notes import Notes
from gputop.collectors.stacks.roster import Roster
from gputop.collectors.stacks.running import Running
from gputop.collectors.stacks.track import Track
from gputop.collectors.stacks.troubles import is_trouble, recognise
from gputop.collectors.stacks.window import Outcome, Window
from gputop.model import ProcessInfo, StackBatch

#: At the end, running py-spys have this long to write what they have, seconds.
_LAST_WORDS = 0.15
_RESTART = 1.0
#: The longest wait bounds how late wishes from other threads are noticed, seconds.
_SHORTEST_WAIT, _LONGEST_WAIT = 0.001, 0.05
#: A rate below this part of what was asked for is worth a note.
_SLOWED = 0.7


class Loop:
    """One thread's work; the attributes may be set from any thread.

    Attributes:
        wanted: the processes to look at, the target first.
        rate_hz: reads asked for each second.
        stopping: makes `run` return soon.
        running: the py-spys that live.
    """

    def __init__(self, emit: Emit, notes: Notes, clock: Callable[[], float], rate_hz: float, share: float) -> None:
        self.wanted: tuple[ProcessInfo, ...] = ()
        self.rate_hz = rate_hz
        self.stopping = False
        self.running = Running()
        self._emit = emit
        self._notes = notes
        self._clock = clock
        self._roster = Roster(share)
        self._memory = Memory()

    def run(self, binary: Path) -> None:
        """Sample with this py-spy until `stopping`; leaves no py-spy behind."""
        with selectors.DefaultSelector() as selector:
            try:
                while not self.stopping:
                    self._step(binary, selector)
                self._last_words(selector)
            finally:
                self.running.kill("gputop ends")
                for window in self.running.all():
                    self.running.finish(window)

    def _step(self, binary: Path, selector: selectors.BaseSelector) -> None:
        now = self._clock()
        for track in self._roster.follow(self.wanted):
            self._forget(track.process.pid)
        self._tell_turns(*self._roster.take_turns(now))
        for track in self._roster:
            track.advance(now, self.rate_hz, partial(self._launch, binary, selector, track))
        due = min((track.next_due() for track in self._roster), default=math.inf)
        self._hear(selector, min(max(due - now, _SHORTEST_WAIT), _LONGEST_WAIT))

    def _launch(
        self, binary: Path, selector: selectors.BaseSelector, track: Track, rate: int, seconds: int
    ) -> Window | None:
        try:
            window = Window(binary, track.process.pid, rate, seconds, self._clock)
        except OSError as error:
            track.not_before = self._clock() + _RESTART
            self._notes.tell("launch", f"py-spy cannot be started: {error.strerror}", "see gputop doctor")
            return None
        self._notes.tell("launch", "")
        self._notes.tell(f"pace:{track.process.pid}", *self._slowed(track))
        self.running.add(window)
        selector.register(window, selectors.EVENT_READ, track)
        return window

    def _hear(self, selector: selectors.BaseSelector, seconds: float) -> None:
        """Take in what py-spys say, for at most `seconds` until the first does."""
        for key, _ in selector.select(seconds):
            window, track = key.fileobj, key.data
            assert isinstance(window, Window)
            if window.listen():
                track.heard(window)
            else:
                selector.unregister(window)
                self._collect(track, window)

    def _collect(self, track: Track, window: Window) -> None:
        outcome = self.running.finish(window)
        track.left(window)
        batch = harvest(outcome, track.ids, self._memory, track.covered_until)
        self._memory.trim()
        if batch is not None:
            self._keep(track, outcome, batch)
        if is_trouble(outcome) or not (batch or outcome.interrupted):
            self._back_off(track, outcome, quiet=batch is not None or track.retired)

    def _keep(self, track: Track, outcome: Outcome, batch: StackBatch) -> None:
        track.learn(outcome, batch)
        self._notes.tell(f"attach:{batch.pid}", "")
        self._emit(batch)
        self._notes.tell(f"pace:{batch.pid}", *self._slowed(track))

    def _slowed(self, track: Track) -> tuple[str, str]:
        """Return what to tell about a process that cannot be read as often as asked for, and the remedy."""
        rate = track.pace.rate(self.rate_hz, track.share)
        if track.pace.pause(self.rate_hz, track.share):
            often = "only now and then"
        elif rate < _SLOWED * self.rate_hz:
            often = f"only {rate} times a second"
        else:
            return "", ""
        return f"Python stacks of {track.who} {often}: reading them costs much CPU", "--own-budget allows gputop more"

    def _back_off(self, track: Track, outcome: Outcome, quiet: bool) -> None:
        track.failures += 1
        trouble, text = recognise(outcome, track.process)
        track.not_before = self._clock() + trouble.pause(track.failures)
        if not quiet and trouble.patience is not None and track.failures > trouble.patience:
            self._notes.tell(f"attach:{track.process.pid}", *trouble.note(text, track.who))

    def _forget(self, pid: int) -> None:
        self._notes.tell(f"attach:{pid}", "")
        self._notes.tell(f"pace:{pid}", "")

    def _tell_turns(self, at_once: int, followed: int) -> None:
        what = f"Python stacks of {at_once} of {followed} processes at a time, in turn" if at_once < followed else ""
        self._notes.tell("turns", what, "--no-tree watches the one process" if what else "")

    def _last_words(self, selector: selectors.BaseSelector) -> None:
        """Let the py-spys that sample write what they have."""
        deadline = self._clock() + _LAST_WORDS
        for track in self._roster:
            track.retire()
        while any(track.ending for track in self._roster) and self._clock() < deadline:
            self._hear(selector, 0.01)
