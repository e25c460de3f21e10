"""Notes that are told once, and taken back when they no longer hold."""

from __future__ import annotations

from collections.abc import Callable

from gputop.collectors.base import Emit
from gputop.model import Note


class Notes:
    """What this collector has told the user and not withdrawn."""

    def __init__(self, emit: Emit, clock: Callable[[], float]) -> None:
        self._emit = emit
        self._clock = clock
        self._told: dict[str, tuple[str, str]] = {}

    def tell(self, key: str, what: str, remedy: str = "") -> None:
        """Emit a note unless exactly this was told already; an empty `what` withdraws it."""
        if self._told.get(key, ("", "")) == (what, remedy):
            return
        self._told[key] = (what, remedy)
        if not what:
            del self._told[key]
        self._emit(Note(self._clock(), "stacks", key, what, remedy))
