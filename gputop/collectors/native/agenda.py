"""What is to be done when."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

#: Does something, given the time; returns when to do it again, None for never.
Action = Callable[[float], "float | None"]

#: Actions due within this time are done together, to wake up less often; patient ones within the longer.
_TOGETHER_S, _PATIENT_S = 0.001, 0.02


class Agenda:
    """Actions by time. Patient ones are done somewhat early when there is something else to wake up for."""

    def __init__(self) -> None:
        self._urgent: list[tuple[float, int, Action]] = []
        self._patient: list[tuple[float, int, Action]] = []
        self._count = 0

    def add(self, due: float, action: Action, patient: bool = False) -> None:
        """Do something at a time."""
        self._count += 1
        heapq.heappush(self._patient if patient else self._urgent, (due, self._count, action))

    @property
    def next_due(self) -> float:
        """When there is something to do again; infinity for never."""
        return min((queue[0][0] for queue in (self._urgent, self._patient) if queue), default=float("inf"))

    def due(self, now: float) -> Iterator[Action]:
        """Take out and yield what is to be done now; what is added meanwhile comes at its time."""
        for queue, horizon in ((self._urgent, now + _TOGETHER_S), (self._patient, now + _PATIENT_S)):
            while queue and queue[0][0] <= horizon:
                yield heapq.heappop(queue)[2]
