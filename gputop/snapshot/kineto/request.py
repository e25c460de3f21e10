"""What the target's profiler is asked for."""

from __future__ import annotations

from dataclasses import dataclass

#: Seconds from the target reading a request to the start of its recording, with no warm-up (measured: 2.01).
START_DELAY_S = 2.0

#: Longest torch trace: a busy GPU fills 100 MB a second.
LONGEST_S = 30.0

#: Most that one second of tracing was seen to write, with and without Python stacks (LLM decode, 42 000 kernels/s).
_BYTES_PER_S, _BYTES_PER_S_WITH_STACKS = 100e6, 150e6


@dataclass(frozen=True, slots=True)
class Options:
    """What a torch trace holds.

    Attributes:
        seconds: how long it is.
        stacks: the Python functions, of all threads (3 to 4 times the size).
        shapes: the operators' input shapes.
    """

    seconds: float = 2.0
    stacks: bool = False
    shapes: bool = False

    @property
    def bytes_needed(self) -> float:
        """Return the room that the uncompressed trace may take."""
        return self.seconds * (_BYTES_PER_S_WITH_STACKS if self.stacks else _BYTES_PER_S)

    def text(self, path: str) -> str:
        """Return the configuration that Kineto reads; it appends `_PID` to the name of the file at `path`.

        No key asks for memory events: PROFILE_MEMORY makes the target spin on a core for good, and
        PROFILE_PROFILE_MEMORY records nothing on this way (torch 2.13, 2.14).
        """
        lines = [
            f"ACTIVITIES_LOG_FILE={path}",
            f"ACTIVITIES_DURATION_MSECS={round(self.seconds * 1000)}",
            "ACTIVITIES_WARMUP_PERIOD_SECS=0",
            "PROFILE_START_TIME=0",
        ]
        if self.stacks:
            lines.append("PROFILE_WITH_STACK=true")
        if self.shapes:
            lines.append("PROFILE_REPORT_INPUT_SHAPES=true")
        return "\n".join([*lines, ""])
