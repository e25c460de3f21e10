"""What readers of the store get."""

from __future__ import annotations

from typing import NamedTuple

from gputop.model import Frame, Observation, Stack, Value


class ThreadKey(NamedTuple):
    """One thread of the target."""

    pid: int
    tid: int


class Names(NamedTuple):
    """What Python and the kernel call a thread; empty while unknown."""

    python: str
    kernel: str


class Peek(NamedTuple):
    """A thread was in the observed state for the `seconds` before `time`, except `starved` of them without a CPU.

    Looks that follow each other and saw the same are one Peek.

    Attributes:
        looks: how many they are.
        frame: the Python frame that it was in, None where that is not known.
        held: the same was seen at both ends of these seconds; otherwise, what was seen is sure for `time` only.
    """

    time: float
    seconds: float
    starved: float
    observation: Observation
    looks: int = 1
    frame: Frame | None = None
    held: bool = False


class Segment(NamedTuple):
    """A thread had one Python stack from `start` to `end`."""

    start: float
    end: float
    stack: Stack


class Cpu(NamedTuple):
    """A thread's mean CPU use over a window: shares of one core, over the `seconds` that were measured."""

    name: str
    cpu: Value
    starved: Value
    seconds: float
