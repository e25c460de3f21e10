"""What a source of GPU numbers looks like, and the list of those there are."""

from __future__ import annotations

import pkgutil
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol, cast

from gputop.collectors.gpu.metrics import DEVICE_METRICS
from gputop.model import NA, GpuReading, GpuUse

#: Pids of the watched processes, each under every name it has.
Watched = frozenset[int]

#: (time, utilisation share) pairs.
Curve = tuple[tuple[float, float], ...]


class Seen(NamedTuple):
    """One GPU as it was read, and its utilisation curve since the reading before."""

    reading: GpuReading
    curve: Curve = ()


class Remark(NamedTuple):
    """What does not work, or works less well than it could, and what helps."""

    what: str
    remedy: str = ""


class Unavailable(Exception):
    """A backend has no GPU to show on this machine, or cannot get at it now.

    Attributes:
        remark: why, and what helps.
        retry_s: seconds after which to try again.
    """

    def __init__(self, what: str, remedy: str = "", *, retry_s: float = 30.0) -> None:
        super().__init__(what)
        self.remark = Remark(what, remedy)
        self.retry_s = retry_s


class Stopping(Exception):
    """The collector was stopped while the driver was being asked."""


class GpuBackend(Protocol):
    """One way to read GPUs; made, used and closed in the sampler thread.

    It is made with an event and a clock. Where a driver can be slow, `probe` and `read` raise `Stopping` before they
    ask it again once the event is set.
    """

    name: str

    def probe(self) -> int:
        """Find the driver and return how many GPUs it has, without asking any of them.

        Raises:
            Unavailable: there is none, or it does not work.
        """

    def read(self, watched: Watched) -> Iterator[Seen]:
        """Yield each GPU as soon as it is read, in the order of their indices.

        A GPU that fails is yielded with `error` and keeps its index.

        Raises:
            Unavailable: the driver went away.
        """

    def remarks(self) -> Mapping[str, Remark]:
        """Return what there is to say now, by a stable key."""

    def close(self) -> None:
        """Give everything back to the driver."""


#: Every backend, one line each: module and class. They are imported in the sampler thread, as pynvml takes 50 ms.
#: The first that has a GPU is used; where none has, the last one's reason is told, so the most common comes last.
BACKENDS: tuple[str, ...] = (
    "gputop.collectors.gpu.tegra:TegraBackend",
    "gputop.collectors.gpu.nvml:NvmlBackend",
)


def make(path: str, stopping: threading.Event, clock: Callable[[], float]) -> GpuBackend:
    """Import a backend of the list and make one."""
    return cast(GpuBackend, pkgutil.resolve_name(path)(stopping, clock))


def unread(index: int, reason: str, *, uuid: str = "", name: str = "", error: str = "") -> GpuReading:
    """Return the row of a GPU of which nothing is known, and why."""
    nothing = NA(reason)
    metrics = dict.fromkeys(DEVICE_METRICS, nothing)
    use = GpuUse(nothing, nothing, nothing)
    return GpuReading(index, uuid, name or f"GPU {index}", metrics, use, others=nothing, error=error)
