"""Backends without a driver, for tests of what stands above them; the collector finds them by their dotted path."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from gputop.collectors.gpu.backend import Remark, Seen, Stopping, Unavailable, Watched, unread
from gputop.model import NA, GpuReading, GpuUse


def reading(index: int, metrics: Mapping[str, float], *, error: str = "", present: bool = False) -> GpuReading:
    """Return the reading of a GPU that has these metrics."""
    empty = unread(index, "not in this test", uuid=f"GPU-{index}", name="Fake", error=error)
    use = GpuUse(NA("not in this test"), NA("not in this test"), NA("not in this test"), present)
    return GpuReading(index, empty.uuid, empty.name, {**empty.metrics, **metrics}, use, error=error)


class FakeBackend:
    """Two GPUs; what was asked for is kept for the test to look at."""

    name = "fake"
    watched: ClassVar[list[Watched]] = []
    closed: ClassVar[threading.Event] = threading.Event()

    def __init__(self, stopping: threading.Event, clock: Callable[[], float]) -> None:
        type(self).watched, type(self).closed = [], threading.Event()
        self.stopping = stopping

    def probe(self) -> int:
        """Find two GPUs."""
        return 2

    def read(self, watched: Watched) -> Iterator[Seen]:
        """Yield both."""
        self.watched.append(watched)
        for index in range(2):
            yield Seen(reading(index, {"utilization": 0.5}), ((float(index), 0.5),))

    def remarks(self) -> Mapping[str, Remark]:
        """Say nothing."""
        return {}

    def close(self) -> None:
        """Remember it."""
        self.closed.set()


class MissingBackend(FakeBackend):
    """A driver that is not there."""

    def probe(self) -> int:
        """Refuse."""
        raise Unavailable("no driver in this test", "install one")


class LateBackend(FakeBackend):
    """A driver that is loaded later."""

    refusals: ClassVar[int] = 1

    def probe(self) -> int:
        """Refuse once."""
        if LateBackend.refusals:
            LateBackend.refusals -= 1
            raise Unavailable("not loaded yet", "load it", retry_s=0.01)
        LateBackend.refusals = 1
        return 2


class BrokenBackend(FakeBackend):
    """A backend with a fault of ours in it."""

    def read(self, watched: Watched) -> Iterator[Seen]:
        """Fail."""
        raise ZeroDivisionError("a bug")


class SlowBackend(FakeBackend):
    """Eight GPUs that take 0.2 s each."""

    def probe(self) -> int:
        """Find eight GPUs."""
        return 8

    def read(self, watched: Watched) -> Iterator[Seen]:
        """Yield one after the other."""
        for index in range(8):
            if self.stopping.wait(0.2):
                raise Stopping
            yield Seen(reading(index, {"utilization": 0.5}))
