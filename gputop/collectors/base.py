"""What every source looks like to the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gputop.model import Batch, ProcessInfo

#: Where collectors put what they sampled; may be called from any thread and never blocks.
Emit = Callable[[Batch], None]


class Collector(Protocol):
    """One source. Owns its threads and helper processes; never raises out of a thread: troubles become `Note`s."""

    #: Part of the cost line that it belongs to ("stacks", "peek", "gpu", "host").
    name: str

    def start(self) -> None:
        """Begin to sample; returns at once, before anything slow (imports, drivers, attaching) has happened."""

    def follow(self, processes: tuple[ProcessInfo, ...]) -> None:
        """Look at these processes from now on (the target first); called whenever the set changes."""

    def set_rate(self, hz: float) -> None:
        """Sample at this rate from the next window on; the governor calls it."""

    def own_pids(self) -> tuple[int, ...]:
        """Return the helper processes that live now, so that their CPU time is counted as ours."""

    def cpu_s(self) -> float:
        """Return the CPU seconds that its helper processes have used so far, those that ended included."""

    def stop(self) -> None:
        """End helpers and threads within 0.3 s, whatever they are doing; may be called twice."""
