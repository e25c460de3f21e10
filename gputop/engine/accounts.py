"""The account book: what sampling cost over the last second, from what the batches and the kernel say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gputop.collectors.base import Collector
from gputop.engine.cost import OwnCpu
from gputop.engine.governor import Rates
from gputop.model import Batch, CostBatch, PeekBatch, StackBatch

#: Part of the cost line for each collector's helper processes.
_PARTS = {"stacks": "py-spy", "peek": "peek"}


@dataclass(frozen=True, slots=True)
class Load:
    """One second's cost: own CPU by part (share of a core), share of time the target was held up, failed reads."""

    own_cpu: Mapping[str, float]
    stopped: float
    failed: float

    def batch(self, now: float, rates: Rates) -> CostBatch:
        """Return it as the batch that the store keeps."""
        return CostBatch(now, self.own_cpu, self.stopped, rates.stacks, rates.peek, self.failed, rates.limited)


class Accounts:
    """Adds up batches between two closings."""

    def __init__(self, collectors: Sequence[Collector], clock: Callable[[], float]) -> None:
        self._collectors = collectors
        self._cpu = OwnCpu()
        self._closed_at = clock()
        self._stopped: dict[int, float] = {}
        self._reads = self._failed = 0
        self._last = (0.0, 0.0)

    def add(self, batch: Batch) -> None:
        """Count a batch's stops and failures."""
        if isinstance(batch, PeekBatch):
            length = max(batch.end - batch.start, 1e-3)
            self._stopped[batch.pid] = batch.stopped_s / length
            self._count(len(batch.samples), batch.failed)
        elif isinstance(batch, StackBatch):
            self._count(batch.samples, batch.failed)

    def _count(self, reads: int, failed: int) -> None:
        self._reads += reads
        self._failed += failed

    def close(self, now: float) -> Load:
        """Return the cost since the last closing and begin anew.

        A second in which no batch arrived (they come in windows) repeats the last known values.
        """
        helpers = dict.fromkeys(_PARTS.values(), 0.0)
        for collector in self._collectors:
            if collector.name in _PARTS:
                helpers[_PARTS[collector.name]] += collector.cpu_s()
        own_cpu = self._cpu.since_last(max(now - self._closed_at, 1e-3), helpers)
        stopped = max(self._stopped.values(), default=self._last[0])
        failed = self._failed / self._reads if self._reads else self._last[1]
        self._closed_at, self._last = now, (stopped, failed)
        self._stopped.clear()
        self._reads = self._failed = 0
        return Load(own_cpu, stopped, failed)
