"""The codec: whatever the types allow survives the way to JSON and back; nothing else comes in."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop import model
from gputop.analysis.summary import summarise
from gputop.model import NA, Batch, Window
from gputop.session import load
from gputop.session.codec import BATCHES, MalformedError, decode, encode

numbers = st.floats(-1e17, 1e17) | st.integers(0, 2000).map(lambda tick: tick / 16)
texts = st.text("abcxyz ./_<>", max_size=8)
values = numbers | st.builds(NA, texts)
small = st.integers(-(2**40), 2**40)

st.register_type_strategy(float, numbers)
st.register_type_strategy(str, texts)
st.register_type_strategy(int, small)

kinds = st.sampled_from(get_args(Batch))


@given(st.data(), kinds)
def test_every_batch_survives(data: st.DataObject, kind: type[Any]) -> None:
    batch = data.draw(st.from_type(kind))
    assert decode(encode(batch)) == batch


def test_looks_recorded_before_they_had_frames() -> None:
    batch = model.PeekBatch(7, 0.0, 1.0, (model.Observation(),), (model.PeekSample(1.0, 7, 0, 0.5, 0.0),), {})
    name, body = json.loads(encode(batch))
    del body["frames"]
    body["samples"] = [sample[:5] for sample in body["samples"]]
    assert decode(json.dumps([name, body])) == batch


@given(st.lists(kinds.flatmap(st.from_type), max_size=5))
def test_any_well_typed_recording_can_be_stored(batches: list[Batch]) -> None:
    """Numbers may be absurd, names empty, references wrong: the reader refuses it, or the store keeps it, and the
    whole of it can be summed up."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "run.gputop"
        lines = [json.dumps({"recording": "gputop", "version": [1, 0]}), *map(encode, [SESSION, *batches])]
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
        store = load(path)
    window = Window(-1e18, 1e18)
    for key in {*store.threads(window), *store.cpu(window)}:
        assert all(peek.seconds >= 0 for peek in store.peeks(key, window))
        assert all(segment.start <= segment.end for segment in store.segments(key, window))
    assert len(store.gpus(window)) == sum(
        isinstance(batch, model.GpuBatch) and 0 <= batch.time <= 1e9 for batch in batches
    )
    span = store.span() or Window(0.0, 0.0)
    for shown in (span, Window(span.end - 60, span.end), Window(0.0, 1e9)):
        summary = summarise(store, shown)
        assert len(summary.timeline.columns) == 120
        assert all(sum(row.states.values()) == pytest.approx(1.0, abs=1e-9) for row in summary.threads if row.states)


SESSION = model.Session(model.ProcessInfo(7, 1, 1.7e9, ("python",)), 1.7e9, "box", 2, "0.1")


def test_every_kind_of_batch_has_a_line() -> None:
    assert set(BATCHES.values()) == set(get_args(Batch))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(kinds, json_values)
def test_anything_else_is_malformed(kind: type[Any], value: object) -> None:
    """Random JSON is never a batch (each kind has required fields of its own) and raises nothing but MalformedError."""
    with pytest.raises(MalformedError):
        decode(json.dumps([kind.__name__, value]))


@given(st.data(), kinds, json_values)
def test_one_wrong_field_is_malformed_or_still_well_typed(data: st.DataObject, kind: type[Any], value: object) -> None:
    batch = data.draw(st.from_type(kind))
    name, body = json.loads(encode(batch))
    body[data.draw(st.sampled_from(sorted(body)))] = value
    try:
        read = decode(json.dumps([name, body]))
    except MalformedError:
        return
    assert decode(encode(read)) == read


def test_what_cannot_be_recorded_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="object does not belong"):
        encode(object())


def test_all_of_model_is_known() -> None:
    assert decode(encode(model.Note(1.0, "a", "b", "c"))) == model.Note(1.0, "a", "b", "c")
    assert decode('["Unheard", {}]') is None
