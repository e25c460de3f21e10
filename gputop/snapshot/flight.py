"""The flight recorder: the last seconds, and some that are still to come, saved to a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from gputop import config
from gputop.analysis import summary
from gputop.errors import SnapshotError
from gputop.model import Session, Window
from gputop.snapshot import formats, write
from gputop.snapshot.shot import Shot, session_of
from gputop.snapshot.write import Progress
from gputop.store import Store

#: Python stacks come in windows of a second, read after each ends: a moment's stacks are there this much later at most.
LATE_S = 2.5
_LOOK_EVERY_S = 0.1

#: Waits until a monotonic time; returns False when the snapshot should end now (quit, target gone).
Wait = Callable[[float], bool]

#: Makes what is open while nothing of ours traces the target: there can be one tracer only.
HandsOff = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Saved:
    """A file that was written.

    Attributes:
        path, bytes: where it is and its size.
        what: what it is ("sampled trace"), and `opens` what opens it.
        window: the time it covers.
        why: of a sampled trace, why it is not torch's, and what gives more.
    """

    path: Path
    bytes: int
    what: str
    opens: str
    window: Window
    why: str = ""

    @property
    def sentence(self) -> str:
        """Return what the screen says of it, a line or two."""
        size = f"{self.bytes / 1e6:.1f} MB" if self.bytes >= 1e6 else f"{self.bytes / 1e3:.0f} kB"
        why = f"\nno torch trace: {self.why}" if self.why else ""
        return f"{self.what}: {self.path} ({size}); {self.opens}{why}"


def default_path(session: Session, ending: str = ".sampled.json.gz", now: float | None = None) -> Path:
    """Return a new name, `HOST_PID.MILLISECONDS.ENDING`, here or in the state directory when here is read-only."""
    milliseconds = int((time.time() if now is None else now) * 1000)
    host = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in session.hostname)[:64]
    name = f"{host or 'host'}_{session.root.pid}.{milliseconds}{ending}"
    here = Path.cwd() / name
    try:
        write.check(here)
    except SnapshotError:
        return config.state_dir() / name
    return here


def take(
    store: Store,
    seconds_before: float,
    seconds_after: float,
    path: Path,
    wait: Wait,
    progress: Progress = lambda sentence: None,
    clock: Callable[[], float] = time.monotonic,
) -> Saved:
    """Save the last seconds plus the next ones; `path`'s ending chooses the format.

    Raises:
        UsageError: the name has no known ending.
        SnapshotError: the file cannot be written, or nothing was sampled.
    """
    formats.of(path)
    write.check(path)
    session_of(store)
    now = clock()
    window = await_window(store, Window(now - seconds_before, now + seconds_after), wait, progress, clock)
    return save(store, window, path, progress, epoch=time.time() - time.monotonic())


def await_window(
    store: Store, window: Window, wait: Wait, progress: Progress, clock: Callable[[], float] = time.monotonic
) -> Window:
    """Wait until everything sampled in `window` has arrived, and return it.

    Where `wait` gives up before, it is a window of the same length that ends now: what was before is all there is.
    """
    for second in _seconds(clock(), window.end):
        progress(f"recording: {window.end - second:.0f} s left")
        if not wait(min(second + 1.0, window.end)):
            end = min(clock(), window.end)
            return Window(end - window.seconds, end)
    stacks_come = store.stack_quality(window)[0] > 0
    deadline = window.end + LATE_S
    while stacks_come and clock() < deadline and not _stacks_after(store, window.end):
        if not wait(clock() + _LOOK_EVERY_S):
            break
    return window


def _seconds(start: float, end: float) -> Iterator[float]:
    while start < end:
        yield start
        start += 1.0


def _stacks_after(store: Store, time: float) -> bool:
    return store.stack_quality(Window(time, float("inf")))[0] > 0


def save(
    store: Store,
    window: Window,
    path: Path,
    progress: Progress = lambda sentence: None,
    epoch: float | None = None,
) -> Saved:
    """Save a window of the store, of now or of a recording.

    `epoch` is the Unix time at monotonic 0; the session's when not given.

    Raises:
        UsageError: the name has no known ending.
        SnapshotError: the file cannot be written, or nothing was sampled.
    """
    chosen = formats.of(path)
    shot = shoot(store, window, epoch)
    progress(f"writing {path.name}")
    size = write.write(path, chosen.document(shot), progress)
    return Saved(path, size, chosen.title, chosen.opens, shot.window)


def shoot(store: Store, window: Window, epoch: float | None = None) -> Shot:
    """Return what there is of `window`, with its verdict.

    Raises:
        SnapshotError: nothing was sampled.
    """
    session = session_of(store)
    there = store.span() or window
    window = Window(max(window.start, min(there.start, window.end)), window.end)
    verdict = summary.summarise(store, window).verdict
    return Shot(store, window, session, session.epoch if epoch is None else epoch, verdict)
