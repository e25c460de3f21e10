"""Chrome traces of py-spy become spans: known answers, recordings of real jobs, and broken files of every kind."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.collectors.stacks.chrometrace import Label, Memory, Span, Trace, read
from gputop.collectors.stacks.harvest import harvest
from gputop.collectors.stacks.threads import NativeIds
from gputop.collectors.stacks.window import Outcome
from gputop.model import Frame

DATA = Path(__file__).parent.parent / "data" / "pyspy"
MAIN = Label(574, True, "MainThread")
Raw = tuple[str, str, int]


def event(phase: str, frame: Raw, at_us: float, tid: int = 77) -> dict[str, Any]:
    name, file, line = frame
    args = {"filename": file, "line": line}
    return {"args": args, "cat": "py-spy", "name": name, "ph": phase, "pid": 574, "tid": tid, "ts": at_us}


ROOT: Raw = ("thread (574): MainThread", "", 0)
MODULE, LOAD, STEP = ("<module>", "/app/a.py", 9), ("load", "/app/a.py", 3), ("step", "/app/b.py", 5)

#: load under <module> from 1 to 3 s, step from 3 to 4, its next line until the end at 6.
KNOWN = [
    event("B", ROOT, 1e6),
    event("B", MODULE, 1e6),
    event("B", LOAD, 1e6),
    event("E", LOAD, 3e6),
    event("B", STEP, 3e6),
    event("E", STEP, 4e6),
    event("B", ("step", "/app/b.py", 6), 4e6),
    event("E", ("step", "/app/b.py", 6), 6e6),
    event("E", MODULE, 6e6),
    event("E", ROOT, 6e6),
]
SPANS = [
    Span(MAIN, 1, 3, (Frame(*MODULE), Frame(*LOAD))),
    Span(MAIN, 3, 4, (Frame(*MODULE), Frame(*STEP))),
    Span(MAIN, 4, 6, (Frame(*MODULE), Frame("step", "/app/b.py", 6))),
]


def traced(events: Any) -> Trace:
    return read(json.dumps(events).encode(), Memory())


def spans_of(events: Any) -> list[Span]:
    return traced(events).spans


def test_known_trace() -> None:
    assert read(json.dumps(KNOWN).encode(), Memory()) == (SPANS, 6.0, 0)


def test_threads_are_told_apart() -> None:
    other = [dict(event, tid=78, name=event["name"].replace("574): Main", "580): Pump")) for event in KNOWN]
    mixed = [event for pair in zip(KNOWN, other, strict=True) for event in pair]
    assert spans_of(mixed) == SPANS + [span._replace(label=Label(580, True, "PumpThread")) for span in SPANS]


def test_a_thread_id_used_again_is_another_thread() -> None:
    second = [dict(event, ts=event["ts"] + 6e6) for event in KNOWN]
    for one in second:
        one["name"] = one["name"].replace("574", "999")
    assert {span.label.ident for span in spans_of(KNOWN + second)} == {574, 999}


@pytest.mark.parametrize(
    ("root", "label"),
    [
        ("thread (574): MainThread", MAIN),
        ("thread (574)", Label(574, True, "")),
        ("thread (0x7F4FD1860B80): MainThread", Label(0x7F4FD1860B80, False, "MainThread")),
        ("thread (12): a): b\nc", Label(12, True, "a): b c")),
        ("thread (12): \x1b[31mred\u202e", Label(12, True, "�[31mred�")),
    ],
)
def test_root_frame(root: str, label: Label) -> None:
    events = [event("B", (root, "", 0), 0), event("B", STEP, 0), event("E", STEP, 1e6)]
    assert [span.label for span in spans_of(events)] == [label]


def test_thread_without_python_frames_has_no_spans() -> None:
    assert spans_of([event("B", ROOT, 0), event("E", ROOT, 1e6)]) == []


def test_main_thread_seen_without_frames_was_read_torn() -> None:
    torn = [event("E", LOAD, 2e6), event("E", MODULE, 2e6), event("B", MODULE, 2.5e6), event("B", LOAD, 2.5e6)]
    seen = traced([*KNOWN[:3], *torn, *KNOWN[3:]])
    first, second = seen.spans[:2]
    assert seen.torn == 1
    assert (first.end, second.start) == (2.5, 2.5)
    assert first.stack == second.stack == SPANS[0].stack


def test_a_stack_that_begins_in_the_midst_of_others_was_read_torn() -> None:
    """`step` is called by the module everywhere else; a root of its own, never called by another, stays."""
    torn = [event("E", LOAD, 2e6), event("E", MODULE, 2e6), event("B", STEP, 2e6), event("B", LOAD, 2e6)]
    back = [event("E", LOAD, 2.5e6), event("E", STEP, 2.5e6), event("B", MODULE, 2.5e6), event("B", LOAD, 2.5e6)]
    seen = traced([*KNOWN[:3], *torn, *back, *KNOWN[3:]])
    first, second, *rest = seen.spans
    assert seen.torn == 1
    assert (first.start, first.end, second.start, second.end) == (1, 2.5, 2.5, 3)
    assert first.stack == second.stack == SPANS[0].stack
    assert rest == SPANS[1:]
    own = [{**one, "name": "at_exit"} if one["name"] == "step" else one for one in [*torn, *back]]
    apart = traced([*KNOWN[:3], *own, *KNOWN[3:]])
    assert Frame("at_exit", *STEP[1:]) in [span.stack[0] for span in apart.spans]
    assert apart.torn == 0


def test_torn_reads_count_as_failed() -> None:
    torn = [event("E", LOAD, 2e6), event("E", MODULE, 2e6), event("B", MODULE, 2.5e6), event("B", LOAD, 2.5e6)]
    trace = json.dumps([*KNOWN[:3], *torn, *KNOWN[3:]]).encode()
    said = "Wrote chrome trace to '/proc/self/fd/3'. Samples: 500 Errors: 7"
    batch = harvest(Outcome(574, 100, 0, said, trace, 0.0, 0.01, 6.0, 0.1), NativeIds(574), Memory(), 0.0)
    assert batch is not None
    assert (batch.samples, batch.failed) == (507, 8)


def test_names_are_made_printable_and_short() -> None:
    names = ["\x1b]0;owned\x07", "x" * 10_000, "a\u202eb", "<lambda>", "f.<locals>.<listcomp>", "naïve_名前"]
    events = [event("B", ROOT, 0), *(event("B", (name, "/e\x1bvil.py", 1), 0) for name in names), event("E", ROOT, 1e6)]
    (span,) = spans_of(events)
    assert span.stack[2].name == "a�b"
    assert max(len(frame.name) for frame in span.stack) <= 400
    assert not any("\x1b" in frame.name + frame.file for frame in span.stack)
    assert [frame.name for frame in span.stack[3:]] == names[3:]


def test_unknown_lines_are_zero() -> None:
    events = [event("B", ROOT, 0), event("B", ("f", "a.py", 4294967295), 0), event("B", ("g", "a.py", 0), 0)]
    (span,) = spans_of([*events, event("E", ROOT, 1e6)])
    assert [frame.line for frame in span.stack] == [0, 0]


def test_missing_end_of_a_callee() -> None:
    events = [one for one in KNOWN if (one["ph"], one["name"]) != ("E", "load")]
    assert spans_of(events)[0] == SPANS[0]
    assert spans_of(events)[-1].end == 6


def test_end_without_begin_is_ignored() -> None:
    assert spans_of([event("E", STEP, 5e5), *KNOWN]) == SPANS


def test_trace_without_any_end_lasts_until_its_last_time() -> None:
    assert spans_of([*KNOWN[:3], event("E", ("nobody", "", 0), 4e6)]) == [SPANS[0]._replace(end=4)]


def test_cut_off_anywhere_gives_a_beginning_of_the_whole() -> None:
    data = json.dumps(KNOWN).encode()
    for cut in range(len(data)):
        spans, last, _ = read(data[:cut], Memory())
        for mine, whole in itertools.zip_longest(spans, SPANS[: len(spans)]):
            assert mine.start == whole.start
            assert mine.end <= whole.end
        assert last <= 6


BROKEN = {
    "empty": b"",
    "no array": b'{"ph": "B"}',
    "number": b"17",
    "null": b"null",
    "not JSON": b"\x00\xff\xfe garbage [",
    "not events": b'[1, null, "x", [], {}, {"ph": "B"}]',
    "deep": b"[" * 100_000,
    "not a number": json.dumps([event("B", ROOT, float("nan")), event("B", STEP, float("inf"))]).encode(),
    "negative": json.dumps([event("B", ROOT, -5), event("B", STEP, -1)]).encode(),
    "wrong types": json.dumps([{**event("B", STEP, 1), "name": ["x"]}, {**event("B", STEP, 1), "tid": {}}]).encode(),
    "args": json.dumps(
        [{**event("B", STEP, 1), "args": None}, {**event("B", STEP, 1), "args": {"line": "1"}}]
    ).encode(),
    "huge id": json.dumps([event("B", (f"thread ({'9' * 5000}): x", "", 0), 0), event("B", STEP, 0)]).encode(),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_broken_files_give_nothing_and_raise_nothing(data: bytes) -> None:
    assert read(data, Memory())[0] == []


def test_broken_events_between_good_ones_are_left_out() -> None:
    assert spans_of([KNOWN[0], {"ph": "B"}, None, *KNOWN[1:], "x"]) == SPANS


FRAMES = st.sampled_from([ROOT, MODULE, LOAD, STEP, ("thread (0x7F): w", "", 0)])
EVENTS = st.builds(
    event, st.sampled_from("BEXM"), FRAMES, st.floats(0, 5e6) | st.integers(-3, 10**13), st.integers(0, 2)
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["ph", "ts", "tid", "name", "args"]), inner),
    max_leaves=8,
)


@given(st.lists(EVENTS | JUNK, max_size=40))
def test_any_events_give_spans_within_the_trace(events: list[Any]) -> None:
    spans, last, _ = read(json.dumps(events).encode(), Memory())
    for span in spans:
        assert 0 <= span.start < span.end <= last
        assert span.stack


@given(st.binary(max_size=300))
def test_any_bytes_are_read(data: bytes) -> None:
    spans, last, _ = read(b'[{"ph":"B",' + data, Memory())
    assert spans == [] or last > 0


@pytest.mark.parametrize(
    ("name", "line", "file", "truth"),
    [("copies", 7, "copies.py", 0.7336), ("gpubound", 9, "gpubound.py", 0.6494)],
)
def test_recorded_jobs_agree_with_their_own_clocks(name: str, line: int, file: str, truth: float) -> None:
    """The share of the line that the job itself timed: within 4 standard errors of 300 samples."""
    spans, last, _ = read(gzip.decompress((DATA / f"{name}.python.json.gz").read_bytes()), Memory())
    total = sum(span.end - span.start for span in spans)
    there = sum(span.end - span.start for span in spans if span.stack[-1][1:] == (f"/app/{file}", line))
    assert total == pytest.approx(last - spans[0].start)  # no hole and no overlap
    assert there / total == pytest.approx(truth, abs=4 * (truth * (1 - truth) / 300) ** 0.5)


def test_equal_stacks_are_one_object() -> None:
    memory = Memory()
    data = gzip.decompress((DATA / "llm.python.json.gz").read_bytes())
    first, second = read(data, memory)[0], read(data, memory)[0]
    assert all(mine.stack is yours.stack for mine, yours in zip(first, second, strict=True))


def test_memory_forgets_before_it_grows_without_bound() -> None:
    memory = Memory()
    for number in range(60_000):
        memory.frame((f"f{number}", "a.py", 1))
    memory.trim()
    assert not memory.frames
