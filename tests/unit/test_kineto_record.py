"""How a request goes, from the first question to the whole file, with a daemon that only plays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from gputop.snapshot.kineto import directory, record
from gputop.snapshot.kineto.client import Event
from gputop.snapshot.kineto.directory import Shared
from gputop.snapshot.kineto.record import Recording, Session
from gputop.snapshot.kineto.request import START_DELAY_S, Options

ME = os.getpid()
SECONDS = 1.0


class Scene:
    """A clock that `wait` moves, a daemon whose events come when the story says, and the target's files."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.now = 1000.0
        self.requests: list[tuple[float, int, str]] = []
        self.story: list[tuple[float, Callable[[], None]]] = []
        self.told: list[str] = []
        self.stop_at = 2000.0
        self.withdrawn: list[int] = []
        self._events: list[Event] = []

    def request(self, pid: int, config: str) -> None:
        self.requests.append((self.now, pid, config))

    def withdraw(self, pid: int) -> None:
        self.withdrawn.append(pid)

    def events(self, timeout: float = 0.0) -> list[Event]:
        for at, happen in [item for item in self.story if item[0] <= self.now]:
            self.story.remove((at, happen))
            happen()
        events, self._events = self._events, []
        return events

    def wait(self, until: float) -> bool:
        self.now += 0.1
        return self.now < self.stop_at

    def at(self, seconds: float, kind: str, pid: int = ME, free: bool = True) -> None:
        event = Event(kind, pid, 1000.0 + seconds, free)
        self.story.append((1000.0 + seconds, lambda: self._events.append(event)))

    def file_at(self, seconds: float, tries: int = 1, ending: str = "", pid: int = ME) -> None:
        name = f"shot-{pid}-{tries}_{pid}.json{ending}"
        self.story.append((1000.0 + seconds, lambda: self._write(name)))

    def _write(self, name: str) -> None:
        self.shared.write(name, "{}")

    def run(self, *pids: int) -> list[Recording]:
        session = Session(self, self.shared, Options(SECONDS))  # type: ignore[arg-type]
        return session.run(pids or (ME,), self.wait, self.told.append)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    shared = directory.make(ME)
    playing = Scene(shared)
    monkeypatch.setattr("time.time", lambda: playing.now)
    yield playing
    shared.close()


def test_a_trace_from_question_to_file(scene: Scene) -> None:
    scene.at(0.5, "asked")
    scene.at(0.5, "sent")
    scene.at(2.0, "asked", free=False)
    scene.file_at(4.5)
    (recording,) = scene.run()
    assert (recording.file, recording.failure) == (f"shot-{ME}-1_{ME}.json", "")
    assert scene.now == pytest.approx(1004.5, abs=0.3)
    assert scene.told == [
        "waiting for torch to ask for work",
        "asked: recording starts in 2 s",
        "asked: recording starts in 1 s",
        "recording 1 s: don't stop the program, start no torch.profiler in it",
        "the program is writing its trace",
    ]
    ((_, pid, config),) = scene.requests
    assert pid == ME
    assert f"ACTIVITIES_LOG_FILE={scene.shared.inside}/shot-{ME}-1.json" in config


def test_flag_of_the_exit_guard_is_there_while_it_records(scene: Scene) -> None:
    flags: list[str] = []

    def look() -> None:
        with os.fdopen(scene.shared.open(f"tracing-{ME}")) as file:
            flags.append(file.read())

    scene.at(0.5, "sent")
    scene.story.append((1002.0, look))
    scene.file_at(4.5)
    scene.run()
    deadline, name = flags[0].split(" ")
    assert float(deadline) == 1000.5 + START_DELAY_S + SECONDS + record.DROPPED_S
    assert name == f"shot-{ME}-1_{ME}.json"
    assert not scene.shared.exists(f"tracing-{ME}")


def test_the_programs_own_profiler_is_left_alone(scene: Scene) -> None:
    """torch mixes two recordings that meet: the program's own would fail."""
    scene.at(0.5, "asked", free=False)
    (recording,) = scene.run()
    assert "a profiler records in it already" in recording.failure
    assert scene.withdrawn == [ME], "nor is it asked when that has ended"


def test_dropped_request_is_sent_once_more(scene: Scene) -> None:
    scene.at(0.5, "sent")
    scene.at(20.0, "sent")
    scene.file_at(24.0, tries=2)
    (recording,) = scene.run()
    assert recording.file == f"shot-{ME}-2_{ME}.json"
    again = scene.requests[1][0] - 1000.5
    assert again == pytest.approx(START_DELAY_S + SECONDS + record.DROPPED_S, abs=0.3)


def test_request_dropped_twice_is_given_up(scene: Scene) -> None:
    scene.at(0.5, "sent")
    scene.at(20.0, "sent")
    (recording,) = scene.run()
    assert recording.failure == "torch dropped the request twice"


def test_slow_writer_is_waited_for_but_not_for_ever(scene: Scene) -> None:
    scene.at(0.5, "sent")
    scene.file_at(4.0, ending=".tmp")
    (recording,) = scene.run()
    assert "did not finish its trace" in recording.failure
    assert scene.told[-1] == "the program is still writing its trace, or its own torch.profiler has taken over"
    assert scene.now - 1003.5 == pytest.approx(record.WRITING_S, abs=0.5)


@pytest.mark.parametrize("again", [True, False])
def test_recording_that_the_programs_own_profiler_cancels_is_asked_for_again(scene: Scene, again: bool) -> None:
    """It leaves an empty file of another name, is busy with its own profiling, and then free without a trace."""
    scene.at(0.5, "sent")
    scene.file_at(1.0, ending=".tmp")
    scene.at(2.0, "asked", free=False)
    scene.at(8.0, "asked")
    scene.at(9.5, "sent")
    scene.at(11.0, "asked")
    scene.at(14.0, "asked")
    if again:
        scene.file_at(13.9, tries=2)
    (recording,) = scene.run()
    assert bool(recording.file) is again
    assert recording.failure == ("" if again else "the program's own torch.profiler ended the recording, twice")
    assert scene.requests[1][0] == pytest.approx(1008.0 + record.SETTLED_S, abs=0.3), "as soon as it is known"
    assert scene.now < 1016.0


def test_silent_target_is_given_up(scene: Scene) -> None:
    (recording,) = scene.run()
    assert "did not ask for work within 30 s" in recording.failure
    assert scene.now - 1000 == pytest.approx(record.SILENCE_S, abs=0.3)


def test_target_that_ends_is_told(scene: Scene) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as program:
        assert program.stdin is not None
        pid = program.pid
        scene.story.append((1001.0, lambda: (program.communicate(b"\n"), None)[1]))
        (recording,) = scene.run(pid)
    assert recording.failure == "the program ended"


def test_stopping_gives_up_at_once(scene: Scene) -> None:
    scene.at(0.5, "sent")
    scene.stop_at = 1001.0
    (recording,) = scene.run()
    assert recording.failure == "gputop was stopped"
    assert scene.now < 1001.2


def test_each_rank_succeeds_or_fails_alone(scene: Scene) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        scene.at(0.2, "sent")
        scene.at(0.9, "sent", pid=other.pid)
        scene.at(20.0, "sent", pid=other.pid)
        scene.file_at(4.0)
        mine, theirs = scene.run(ME, other.pid)
        other.communicate(b"\n")
    assert mine.file
    assert not theirs.file
    assert theirs.failure == "torch dropped the request twice"
    assert scene.told[0] == "2 processes: waiting for torch to ask for work"
