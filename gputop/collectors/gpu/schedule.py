"""When to ask a driver again for something."""

from __future__ import annotations

#: Seconds after which to ask again for what the driver did not have.
ABSENT_S = 30.0

#: Share of the time that one kind of ask may take over all GPUs: where it costs more, it is made more rarely.
COST_SHARE = 0.005
RAREST_S = 30.0

#: What is asked for less often than this waits for the second look, so that the first one comes at once.
PROMPT_S = 1.0


class Schedule:
    """Remembers when each kind of ask is due for one GPU of `sharing` that are asked one after the other."""

    def __init__(self, sharing: int) -> None:
        self._sharing = sharing
        self._due: dict[str, float] = {}

    def is_due(self, key: str, every: float, now: float) -> bool:
        """Tell whether to ask now."""
        due = self._due.get(key)
        if due is None:
            self._due[key] = due = now if every <= PROMPT_S else now + PROMPT_S / 10
        return now >= due

    def done(self, key: str, every: float, began: float, ended: float, *, absent: bool = False) -> None:
        """Set the next time, from what this ask has cost; `absent` when the driver does not have it."""
        rest = min(RAREST_S, (ended - began) * self._sharing / COST_SHARE) if every else 0.0
        self._due[key] = began + (ABSENT_S if absent else max(every, rest))
