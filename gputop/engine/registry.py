"""The sources, one line each."""

from __future__ import annotations

from collections.abc import Callable

from gputop.collectors.base import Collector, Emit
from gputop.collectors.gpu.collector import GpuCollector
from gputop.collectors.host import HostCollector
from gputop.collectors.native.client import PeekCollector
from gputop.collectors.stacks.collector import StackCollector
from gputop.config import Settings
from gputop.engine.governor import QUOTAS

#: Every collector, in the order in which they are started: what the user wants to see first comes first.
COLLECTORS: tuple[Callable[[Emit, Settings], Collector], ...] = (
    lambda emit, settings: PeekCollector(emit, rate=settings.peek_rate, budget=settings.budget / 100),
    lambda emit, settings: StackCollector(
        emit, rate_hz=settings.stack_rate, share=settings.own_budget / 100 * QUOTAS["py-spy"]
    ),
    lambda emit, settings: HostCollector(emit, tree=settings.tree),
    lambda emit, settings: GpuCollector(emit),
)


def build_collectors(emit: Emit, settings: Settings) -> tuple[Collector, ...]:
    """Make one of each."""
    return tuple(make(emit, settings) for make in COLLECTORS)
