"""What a snapshot is of: a window of the store, and everything a trace says about it besides the samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gputop.analysis import tiles
from gputop.analysis.native import segments
from gputop.analysis.results import Verdict
from gputop.analysis.split import without_python
from gputop.errors import SnapshotError
from gputop.model import Frame, ProcessInfo, Session, Stack, Window
from gputop.store import Segment, Store, ThreadKey

#: Segments this close (seconds) follow each other without a gap; more is time that was not looked at.
ADJACENT = 1e-5


@dataclass(frozen=True, slots=True)
class Shot:
    """A window to be saved.

    Attributes:
        store, window: the samples.
        session: whose samples they are.
        epoch: Unix time at monotonic 0, as of the window; the session's own for a recording.
        verdict: what the analysis says of the window.
        pids: only these processes, or None for all.
    """

    store: Store
    window: Window
    session: Session
    epoch: float
    verdict: Verdict
    pids: frozenset[int] | None = None

    @property
    def start_unix(self) -> float:
        """Return the window's start in seconds since the epoch."""
        return self.window.start + self.epoch

    def processes(self) -> tuple[ProcessInfo, ...]:
        """Return the processes known at the window's end, at least the target itself."""
        known = self.store.processes(self.window.end) or (self.session.root,)
        return tuple(process for process in known if self._shows(process.pid))

    def threads(self) -> tuple[ThreadKey, ...]:
        """Return the threads seen in the window: the target's own first, each process's main thread first."""
        root = self.session.root.pid
        seen = (key for key in self.store.threads(self.window) if self._shows(key.pid))
        return tuple(sorted(seen, key=lambda key: (key.pid != root, key.pid, key.tid != key.pid, key)))

    def stacks(self, key: ThreadKey) -> Iterator[Segment]:
        """Return a thread's stacks in order of time: Python's; of a program without Python, its native calls."""
        if not without_python(self.store, (key.pid,), self.window)[key.pid]:
            return self.store.segments(key, self.window)
        return segments(self.store.peeks(key, self.window), tiles.of(self.store).called)

    def _shows(self, pid: int) -> bool:
        return self.pids is None or pid in self.pids


def session_of(store: Store) -> Session:
    """Return whose samples the store holds.

    Raises:
        SnapshotError: nothing has been sampled yet.
    """
    if store.session is None:
        raise SnapshotError("nothing has been sampled yet, so there is nothing to save", "try again in a second")
    return store.session


class Step(NamedTuple):
    """At `time` the `closed` innermost calls return, then `opened` are entered, outermost first."""

    time: float
    closed: int
    opened: Stack


def steps(segments: Iterable[Segment]) -> Iterator[Step]:
    """Turn stacks into entering and leaving functions, properly nested.

    A function stays open for as long as the same function of the same file is at the same depth; its line may move.
    Time that was not looked at closes everything: nothing is drawn over a gap.
    """
    stack: Stack = ()
    end = float("-inf")
    for segment in segments:
        start = max(segment.start, end)
        if segment.end <= start:
            continue
        if stack and start - end > ADJACENT:
            yield Step(end, len(stack), ())
            stack = ()
        if segment.stack is not stack:
            kept = _common(stack, segment.stack)
            if kept < len(stack) or kept < len(segment.stack):
                yield Step(start, len(stack) - kept, segment.stack[kept:])
            stack = segment.stack
        end = segment.end
    if stack:
        yield Step(end, len(stack), ())


def _common(before: Stack, after: Stack) -> int:
    for depth, (one, other) in enumerate(zip(before, after, strict=False)):
        if one is not other and (one.name != other.name or one.file != other.file):
            return depth
    return min(len(before), len(after))


def place(frame: Frame) -> str:
    """Return where a frame is, as `file:line`, or the file alone when the line is unknown."""
    return f"{frame.file}:{frame.line}" if frame.line else frame.file
