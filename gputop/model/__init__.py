"""The nouns of gputop: what was sampled, in frozen dataclasses with units in their docstrings.

Times are `time.monotonic()` seconds. A share is a fraction between 0 and 1. A value that could not be measured is
`NA(reason)`, never an invented 0. All text is printable (see `gputop.text`). Collectors hand over *batches*; the store
keeps them, a recording is a file of them.
"""

from __future__ import annotations

from gputop.model.machine import CpuLimits, GpuBatch, GpuReading, GpuUse, HostBatch, ProcessReading, ThreadReading
from gputop.model.samples import Frame, NativeFrame, Observation, PeekBatch, PeekSample, Stack, StackBatch, StackSegment
from gputop.model.session import CostBatch, Note, ProcessBatch, ProcessInfo, Session
from gputop.model.values import NA, Value, Window, known

Batch = StackBatch | PeekBatch | HostBatch | GpuBatch | ProcessBatch | Note | CostBatch | Session

__all__ = [
    "NA",
    "Batch",
    "CostBatch",
    "CpuLimits",
    "Frame",
    "GpuBatch",
    "GpuReading",
    "GpuUse",
    "HostBatch",
    "NativeFrame",
    "Note",
    "Observation",
    "PeekBatch",
    "PeekSample",
    "ProcessBatch",
    "ProcessInfo",
    "ProcessReading",
    "Session",
    "Stack",
    "StackBatch",
    "StackSegment",
    "ThreadReading",
    "Value",
    "Window",
    "known",
]
