"""Stacks as a speedscope file, a profile for each thread: https://www.speedscope.app/file-format-schema.json."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gputop.model import Frame
from gputop.snapshot.shot import Shot, steps
from gputop.store import ThreadKey

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def document(shot: Shot) -> Iterator[str]:
    """Yield the file; the frames come last, since they are only known when all threads were written."""
    frames: dict[tuple[str, str], tuple[int, Frame]] = {}
    head = {
        "$schema": _SCHEMA,
        "exporter": f"gputop {shot.session.version}",
        "name": f"{shot.session.root.name} ({shot.session.root.pid})",
        "activeProfileIndex": 0,
    }
    yield json.dumps(head)[:-1] + ', "profiles": [\n'
    separator = ""
    for key in shot.threads():
        for part in _profile(shot, key, frames):
            yield separator + part
            separator = ""
        separator = ",\n"
    shared = [{"name": frame.name, "file": frame.file, "line": frame.line} for _, frame in frames.values()]
    yield '\n], "shared": {"frames": ' + json.dumps(shared) + "}}\n"


def _profile(shot: Shot, key: ThreadKey, frames: dict[tuple[str, str], tuple[int, Frame]]) -> Iterator[str]:
    window = shot.window
    head = {
        "type": "evented",
        "name": f"{shot.store.name(key)} ({key.pid}/{key.tid})",
        "unit": "seconds",
        "startValue": 0,
        "endValue": round(window.seconds, 6),
    }
    yield json.dumps(head)[:-1] + ', "events": ['
    opened: list[int] = []
    separator = ""
    for step in steps(shot.stacks(key)):
        at = f'"at":{step.time - window.start:.6f}'
        events = [f'{{"type":"C","frame":{opened.pop()},{at}}}' for _ in range(step.closed)]
        for frame in step.opened:
            index, _ = frames.setdefault((frame.name, frame.file), (len(frames), frame))
            opened.append(index)
            events.append(f'{{"type":"O","frame":{index},{at}}}')
        yield separator + ",".join(events)
        separator = ",\n"
    yield "]}"
