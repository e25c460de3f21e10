"""One torch trace from each of several processes that poll: ask, wait, find the file.

The clock here is the Unix clock, which the daemon's events carry too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from gputop import procfs
from gputop.snapshot.flight import Wait
from gputop.snapshot.kineto.client import DaemonProcess, Event
from gputop.snapshot.kineto.detect import inner_pid
from gputop.snapshot.kineto.directory import Shared
from gputop.snapshot.kineto.request import START_DELAY_S, Options
from gputop.snapshot.write import Progress

#: Kineto asks every 5 s by default, and up to 10 s later when it found no daemon before.
SILENCE_S = 30.0

#: A request that Kineto dropped shows by this long (seconds after the recording should have ended) without a file
#: and without the profiler having been busy. It is sent once more.
DROPPED_S = 10.0

#: Kineto gives a whole trace its name before it is free again. Without a file so long after, there is none to come: a
#: torch.profiler of the program's own, started meanwhile, has cancelled ours (kineto's way, it says nothing).
SETTLED_S = 1.0

#: Longest that a target may take to write its file, seconds.
WRITING_S = 120.0

#: When torch.profiler is started in a program whose trace on demand is just being written, torch mixes the two: the
#: program's own then ends with an IndexError (torch 2.13, two of five tries). So a program that is seen to use
#: it is left alone.
_TAKEN = (
    "a profiler records in it already, its own torch.profiler or another tool, and a second one could make that fail"
)

#: A trace that takes longer to be written than this is worth another word, seconds.
_SLOW_S = 8.0

_LOOK_EVERY_S = 0.1
_TRIES = 2


@dataclass(slots=True)
class Recording:
    """How far the trace of one process is.

    Attributes:
        pid: as seen from here; `own_pid` is what it calls itself, and its file.
        sent: when it got the request, None while it has not.
        busy: the profiler was seen at work after that; `freed` is when it was first seen done with it.
        file: name of the whole trace in the shared directory, empty until it is there.
        failure: why there is none and will be none, empty while there may be.
    """

    pid: int
    own_pid: int
    asked_at: float
    tries: int = 0
    sent: float | None = None
    heard: bool = False
    busy: bool = False
    freed: float | None = None
    file: str = ""
    failure: str = ""

    @property
    def open(self) -> bool:
        """Tell whether there is still something to wait for."""
        return not self.file and not self.failure

    def hear(self, event: Event, seconds: float) -> None:
        """Take note of what the daemon saw; the recording takes `seconds`."""
        self.heard = True
        if event.kind == "sent":
            self.sent, self.busy, self.freed = event.unix, False, None
        elif event.kind == "asked" and not event.free:
            self.busy = self.sent is not None
            if self.sent is None and self.tries == 1:
                self.failure = _TAKEN  # after a retry it may be our own request that it still works on
        elif event.kind == "asked" and self.sent is not None and self.freed is None:
            over = event.unix > self.sent + START_DELAY_S + seconds + SETTLED_S
            self.freed = event.unix if self.busy or over else None

    def sentence(self, seconds: float, now: float) -> str:
        """Say what is going on."""
        if self.sent is None:
            return "waiting for torch to ask for work"
        start = self.sent + START_DELAY_S
        if now < start:
            return f"asked: recording starts in {math.ceil(start - now)} s"
        if now < start + seconds:
            return f"recording {seconds:g} s: don't stop the program, start no torch.profiler in it"
        if now < start + seconds + _SLOW_S:
            return "the program is writing its trace"
        return "the program is still writing its trace, or its own torch.profiler has taken over"


@dataclass(slots=True)
class Session:
    """Requests to several processes that share a directory and a daemon."""

    daemon: DaemonProcess
    shared: Shared
    options: Options
    recordings: list[Recording] = field(default_factory=list)

    def run(self, pids: Sequence[int], wait: Wait, progress: Progress) -> list[Recording]:
        """Record; returns how each ended.

        `wait` waits until a monotonic time and returns False when everything should end now; what is being recorded
        is given up then. A target that ends, or never answers, fails alone.
        """
        self.recordings = [Recording(pid, inner_pid(pid), time.time()) for pid in pids]
        for recording in self.recordings:
            self._ask(recording)
        try:
            self._follow(wait, progress)
        finally:
            for recording in self.recordings:
                self.shared.remove(_flag(recording))
        return self.recordings

    def _follow(self, wait: Wait, progress: Progress) -> None:
        told = ""
        while waited_for := [recording for recording in self.recordings if recording.open]:
            for event in self.daemon.events():
                self._hear(event)
            for recording in waited_for:
                self._look(recording, time.time())
            sentence = _together(waited_for, self.options.seconds)
            if sentence != told:
                progress(sentence)
                told = sentence
            if not wait(time.monotonic() + _LOOK_EVERY_S):
                for recording in waited_for:
                    recording.failure = recording.failure or "gputop was stopped"

    def _ask(self, recording: Recording) -> None:
        recording.tries += 1
        recording.asked_at = time.time()
        recording.sent, recording.busy, recording.heard, recording.freed = None, False, False, None
        self.daemon.request(recording.pid, self.options.text(f"{self.shared.inside}/{self._name(recording)}.json"))

    def _name(self, recording: Recording) -> str:
        return f"shot-{recording.pid}-{recording.tries}"

    def _file(self, recording: Recording) -> str:
        """Return the name that Kineto gives the whole trace."""
        return f"{self._name(recording)}_{recording.own_pid}.json"

    def _hear(self, event: Event) -> None:
        for recording in self.recordings:
            if recording.pid == event.pid:
                recording.hear(event, self.options.seconds)
                if recording.failure:
                    self.daemon.withdraw(event.pid)
                if event.kind == "sent":
                    deadline = event.unix + START_DELAY_S + self.options.seconds + DROPPED_S
                    self.shared.write(_flag(recording), f"{deadline:.3f} {self._file(recording)}")

    def _look(self, recording: Recording, now: float) -> None:
        name = self._file(recording)
        if self.shared.exists(name):
            recording.file = name
        elif not _lives(recording.pid):
            recording.failure = "the program ended"
        elif recording.sent is None:
            if not recording.heard and now > recording.asked_at + SILENCE_S:
                recording.failure = f"torch in it did not ask for work within {SILENCE_S:.0f} s"
        elif recording.freed is not None and now > recording.freed + SETTLED_S:
            self._again(recording, "the program's own torch.profiler ended the recording, twice")
        elif now > recording.sent + START_DELAY_S + self.options.seconds + DROPPED_S:
            self._late(recording, now)

    def _late(self, recording: Recording, now: float) -> None:
        """Decide on a recording that should have been there long ago."""
        end = (recording.sent or now) + START_DELAY_S + self.options.seconds
        writing = recording.busy or self.shared.exists(f"{self._file(recording)}.tmp")
        if writing and now < end + WRITING_S:
            return
        if writing:
            recording.failure = f"the program did not finish its trace within {WRITING_S:.0f} s"
        else:
            self._again(recording, "torch dropped the request twice")

    def _again(self, recording: Recording, failure: str) -> None:
        """Ask once more; after that it is a failure."""
        if recording.tries < _TRIES:
            self._ask(recording)
        else:
            recording.failure = failure


def _flag(recording: Recording) -> str:
    """Return the file that the exit guard looks for."""
    return f"tracing-{recording.own_pid}"


def _together(recordings: Sequence[Recording], seconds: float) -> str:
    """Say what the slowest of them does."""
    slowest = min(recordings, key=lambda recording: recording.sent or 0.0)
    sentence = slowest.sentence(seconds, time.time())
    return sentence if len(recordings) == 1 else f"{len(recordings)} processes: {sentence}"


def _lives(pid: int) -> bool:
    try:
        return not procfs.stat(pid).dead
    except OSError:
        return False
