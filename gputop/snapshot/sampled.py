"""The sampled trace: a window of the store as Chrome trace events, for Perfetto.

It is a picture made of samples, not a profiler's trace: a call shorter than the sampling interval may be missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from gputop.analysis import tiles
from gputop.snapshot import counters, tracks
from gputop.snapshot.shot import Shot
from gputop.snapshot.track_ids import STACKS_TID, STATES_TID
from gputop.snapshot.tracks import Axis, metadata, named_track

#: Kineto counts from the start of the current quarter of a Gregorian year of 365.2425 days (libkineto's
#: `ChromeTraceBaseTime`), so that microseconds since then keep their fraction in a double. We count from there too.
_QUARTER_S = 7_889_238

#: Process id of the track that holds the verdict, above every real one.
SUMMARY_PID = counters.MACHINE_PID - 1


def base_ns(unix: float) -> int:
    """Return where the trace's clock starts, in Unix nanoseconds, for a trace taken at `unix` seconds."""
    return int(unix) // _QUARTER_S * _QUARTER_S * 10**9


def document(shot: Shot) -> Iterator[str]:
    """Yield a whole trace file: JSON, in pieces, never held in memory."""
    axis = Axis(shot.epoch, base_ns(shot.start_unix))
    head = {"schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": axis.base_ns, "gputop": about(shot)}
    yield json.dumps(head, ensure_ascii=False)[:-1] + ', "traceEvents": [\n'
    separator = ""
    for part in events(shot, axis, {}):
        yield separator + part
        separator = ",\n"
    yield "\n]}\n"


def about(shot: Shot) -> dict[str, object]:
    """Return what the file says of itself."""
    session, verdict = shot.session, shot.verdict
    return {
        "version": session.version,
        "kind": "sampled",
        "host": session.hostname,
        "pid": session.root.pid,
        "command": list(session.root.cmdline),
        "start_unix": shot.start_unix,
        "monotonic_start_s": shot.window.start,
        "duration_s": shot.window.seconds,
        "verdict": {
            "id": verdict.id,
            "title": verdict.title,
            "sentence": verdict.sentence,
            "evidence": list(verdict.evidence),
            "advice": list(verdict.advice),
        },
        "notes": [f"{note.what}; {note.remedy}" if note.remedy else note.what for note in shot.store.notes()],
    }


def events(shot: Shot, axis: Axis, pids: Mapping[int, int]) -> Iterator[str]:
    """Yield the events as JSON text, one or several separated by commas in each piece.

    `pids` maps a pid as seen from here to the one that the trace uses, where they differ (containers).
    """
    yield from _summary(shot, axis)
    yield from counters.machine(shot, axis, pids)
    yield from counters.gpus(shot, axis)
    for process in shot.processes():
        pid = pids.get(process.pid, process.pid)
        yield metadata("process_name", pid, 0, name=process.name or "process")
        yield metadata("process_labels", pid, 0, labels=" ".join(process.cmdline))
    gpu = tiles.of(shot.store).look_for_gpu(shot.store, shot.window)
    for position, key in enumerate(shot.threads()):
        pid = pids.get(key.pid, key.pid)
        name = f"{shot.store.name(key)} ({key.tid})"
        yield from _track(
            list(named_track(pid, STACKS_TID + key.tid, f"{name} stacks", 2 * position - 1000)),
            tracks.stack_track(shot, key, pid, axis),
        )
        yield from _track(
            list(named_track(pid, STATES_TID + key.tid, f"{name} states", 2 * position - 999)),
            tracks.state_track(shot, key, pid, axis, gpu=gpu),
        )


def _track(names: list[str], parts: Iterator[str]) -> Iterator[str]:
    """Name a track only when there is something on it."""
    for part in parts:
        yield from names
        names = []
        yield part


def _summary(shot: Shot, axis: Axis) -> Iterator[str]:
    """The verdict as one slice over the window, with its evidence in the arguments."""
    verdict = shot.verdict
    yield metadata("process_name", SUMMARY_PID, 0, name="gputop")
    yield metadata("process_sort_index", SUMMARY_PID, 0, sort_index=-100)
    yield metadata("thread_name", SUMMARY_PID, 1, name="verdict")
    track = {"pid": SUMMARY_PID, "tid": 1}
    arguments = {"evidence": "; ".join(verdict.evidence), "advice": "; ".join(verdict.advice)}
    name = f"{verdict.title}: {verdict.sentence}"
    start, end = axis.us(shot.window.start), axis.us(shot.window.end)
    yield json.dumps({"ph": "B", **track, "ts": start, "name": name, "cat": "verdict", "args": arguments})
    yield json.dumps({"ph": "E", **track, "ts": end, "name": name})
