"""Torch's trace and ours in one file: our events are put in front of torch's, as text, in constant memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from gputop.errors import SnapshotError
from gputop.model import ProcessInfo
from gputop.snapshot import sampled
from gputop.snapshot.shot import Shot
from gputop.snapshot.tracks import Axis

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')
_DISTRIBUTED = b'"distributedInfo"'

#: Kineto's head holds the devices' properties: some kB, even with sixteen GPUs.
_LONGEST_HEAD = 1 << 20
_PIECE = 1 << 20


def document(trace: BinaryIO, shot: Shot, process: ProcessInfo, own_pid: int, world: int) -> Iterator[str | bytes]:
    """Yield torch's trace with our tracks in it.

    Args:
        trace: torch's file, read from its start.
        shot: our samples of the same time and before.
        process: whose trace it is; `own_pid` is what it calls itself, and so does its trace.
        world: number of processes of its job.

    Raises:
        SnapshotError: the file is no Kineto trace.
    """
    head, rest = _split(trace)
    base = _BASE.search(head)
    axis = Axis(shot.epoch, int(base[1]) if base else 0)
    opened, _, others = head.partition(b"{")
    yield opened + b"{"
    yield from _metadata(head, shot, process, world)
    yield others
    separator = "\n"
    for part in sampled.events(shot, axis, {process.pid: own_pid}):
        yield separator + part
        separator = ",\n"
    if not rest.lstrip().startswith(b"]"):
        yield ",\n"
    while rest:
        yield rest
        rest = trace.read(_PIECE)


def _split(trace: BinaryIO) -> tuple[bytes, bytes]:
    """Return what stands before the first event, and what follows in the first read."""
    start = trace.read(_LONGEST_HEAD)
    found = _EVENTS.search(start)
    if found is None or not start.lstrip().startswith(b"{"):
        raise SnapshotError("what torch wrote is no trace", "try again")
    return start[: found.end()], start[found.end() :]


def _metadata(head: bytes, shot: Shot, process: ProcessInfo, world: int) -> Iterator[str]:
    """Yield our own key, and the rank, which HTA wants and traces on demand lack."""
    about: Mapping[str, object] = {**sampled.about(shot), "kind": "torch", "traced_pid": process.pid}
    keys: dict[str, object] = {"gputop": about}
    if _DISTRIBUTED not in head:
        keys["distributedInfo"] = {"rank": process.rank or 0, "world_size": world}
    yield "\n" + json.dumps(keys, ensure_ascii=False)[1:-1] + ","
