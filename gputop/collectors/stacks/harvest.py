"""From a finished py-spy to a batch: its times put on our clock, its threads named as the kernel names them."""

from __future__ import annotations

from collections.abc import Mapping

from gputop.collectors.stacks.chrometrace import Label, Memory, Span, read
from gputop.collectors.stacks.threads import NativeIds
from gputop.collectors.stacks.window import Outcome
from gputop.model import Stack, StackBatch, StackSegment


def harvest(outcome: Outcome, ids: NativeIds, memory: Memory, not_before: float) -> StackBatch | None:
    """Return what py-spy saw after `not_before`, the end of the batch before; None when it looked at nothing.

    A window whose every read failed is a batch without segments: the failures count.
    """
    spans, last, torn = read(outcome.trace, memory)
    read_threads, failed = outcome.counts()
    if outcome.ready is None or not (spans or failed):
        return None
    origin = outcome.origin(last)
    first = origin + min((span.start for span in spans), default=outcome.ready - origin)
    start = max(first, not_before)
    end = max(origin + last if spans else outcome.ended, start)
    native = ids.resolve({span.label for span in spans})
    reads = _reads(spans, read_threads, last)
    stacks, segments = _segments(spans, native, origin, start)
    return StackBatch(
        pid=outcome.pid,
        start=start,
        end=end,
        threads={tid: label.name or _unnamed(tid, outcome.pid) for label, tid in native.items()},
        stacks=stacks,
        segments=segments,
        samples=reads + failed,
        failed=failed + min(torn, reads),
        rate_hz=float(outcome.rate),
    )


def _unnamed(tid: int, pid: int) -> str:
    """Name a thread of a program that has not imported `threading`."""
    return "MainThread" if tid == pid else ""


def _segments(
    spans: list[Span], native: Mapping[Label, int], origin: float, start: float
) -> tuple[tuple[Stack, ...], tuple[StackSegment, ...]]:
    """Number the stacks and put the spans on our clock, without what lies before `start`."""
    numbers: dict[Stack, int] = {}
    segments = []
    for span in spans:
        begin, end = max(origin + span.start, start), origin + span.end
        if end > begin:
            number = numbers.setdefault(span.stack, len(numbers))
            segments.append(StackSegment(native[span.label], begin, end, number))
    return tuple(numbers), tuple(segments)


def _reads(spans: list[Span], read_threads: int, last: float) -> int:
    """Return how often the process was read: py-spy counts each thread of each read.

    The number of threads is averaged over the window, each from when it was first seen.
    """
    seen: dict[Label, float] = {}
    for span in spans:
        seen[span.label] = min(span.start, seen.get(span.label, span.start))
    presence = sum(last - since for since in seen.values())
    length = last - min(seen.values(), default=last)
    return round(read_threads * length / presence) if presence > 0 else read_threads
