"""Numbers that may be missing, and stretches of time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NA:
    """A value that is not available, and why; falsy, so `value or fallback` reads naturally."""

    reason: str

    def __bool__(self) -> bool:
        return False


#: A number, or the reason why there is none.
Value = float | NA


def known(value: Value) -> float | None:
    """Return the number, or None where it is not available (as JSON wants it)."""
    return None if isinstance(value, NA) else value


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, monotonic seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Return its length."""
        return self.end - self.start
