"""Collapsed stacks (Brendan Gregg's format): one line a stack, `process;thread;frame;…;frame;[state] MICROSECONDS`."""

from __future__ import annotations

from collections.abc import Iterator

from gputop.model import Frame
from gputop.snapshot.shot import Shot, place
from gputop.snapshot.weights import weights


def document(shot: Shot) -> Iterator[str]:
    """Yield the lines; the weight is wall time in microseconds, waiting included."""
    names = {process.pid: process.name for process in shot.processes()}
    for weight in weights(shot):
        microseconds = round(weight.seconds * 1e6)
        if microseconds:
            thread = f"{shot.store.name(weight.key)} ({weight.key.tid})"
            parts = [f"{names.get(weight.key.pid, 'process')} ({weight.key.pid})", thread]
            parts += map(_label, weight.stack)
            parts.append(f"[{weight.state}]")
            yield ";".join(map(_separable, parts)) + f" {microseconds}\n"


def _label(frame: Frame) -> str:
    return f"{frame.name} ({place(frame)})"


def _separable(text: str) -> str:
    """Keep the format's own separators out of a name."""
    return text.replace(";", ":").replace("\n", " ").replace("\r", " ")
