"""Every format is read back by other means than wrote it."""

from __future__ import annotations

import gzip
import json
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest

from gputop.errors import UsageError
from gputop.model import Frame
from gputop.snapshot import collapsed, flame, formats, pprof, speedscope, write
from gputop.snapshot.weights import weights
from tests.fakes import shots
from tests.fakes.shots import HOSTILE, PID

SVG = "{http://www.w3.org/2000/svg}"
SPEEDSCOPE = json.loads((Path(__file__).parents[1] / "data" / "speedscope.schema.json").read_text())


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("a.json", "sampled trace"),
        ("A.JSON.GZ", "sampled trace"),
        ("a.speedscope.json", "speedscope profile"),
        ("a.folded", "collapsed stacks"),
        ("a.b.txt.gz", "collapsed stacks"),
        ("a.pb.gz", "pprof profile"),
        ("a.svg", "flame graph"),
        ("a.html", "flame graph page"),
    ],
)
def test_ending_chooses_the_format(name: str, title: str) -> None:
    assert formats.of(Path(name)).title == title


def test_unknown_ending_says_which_there_are() -> None:
    with pytest.raises(UsageError, match="ending") as caught:
        formats.of(Path("a.trace"))
    for item in formats.FORMATS:
        assert all(ending in caught.value.remedy for ending in item.endings)


def test_weights_hold_all_the_time_with_its_state() -> None:
    sums: defaultdict[tuple[str, str], float] = defaultdict(float)
    for weight in weights(shots.shot()):
        sums[weight.stack[-1].name, weight.state] += weight.seconds
    assert {what: round(seconds, 4) for what, seconds in sums.items()} == {
        ("decode_image", "python"): 0.595,
        ("decode_image", "starved"): 0.005,
        ("train_step", "python"): 0.35,
        ("cudaStreamSynchronize", "gpu_wait.sync"): 0.95,
    }


def test_time_without_looks_is_as_the_rest_of_the_stack() -> None:
    store = shots.store()
    shots.add_stacks(store, PID, [(0.0, 1.0, (shots.MAIN,))])
    shots.add_peeks(store, PID, [(0.5, shots.COMPUTING)], 0.2)
    assert [(weight.state, round(weight.seconds, 6)) for weight in weights(shots.shot(store))] == [("python", 1.0)]


def test_speedscope() -> None:
    document = json.loads("".join(speedscope.document(shots.shot())))
    jsonschema.validate(document, SPEEDSCOPE)
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    (profile,) = document["profiles"]
    assert profile["name"] == "MainThread (4121/4121)"
    opened: list[int] = []
    for event in profile["events"]:
        if event["type"] == "O":
            opened.append(event["frame"])
        else:
            assert opened.pop() == event["frame"], "closed in the order of a stack"
    assert opened == []
    entered = [(round(e["at"], 3), frames[e["frame"]]) for e in profile["events"] if e["type"] == "O"]
    assert entered[:3] == [(0.0, "main"), (0.0, "train_step"), (0.0, "decode_image")]
    assert entered[3:] == [(1.05, "main"), (1.05, "train_step"), (1.05, "synchronize"), (1.5, "synchronize")]


def test_collapsed() -> None:
    found = {}
    for line in collapsed.document(shots.shot()):
        stack, _, weight = line.rstrip("\n").rpartition(" ")
        found[stack] = int(weight)
    head = "train.py (4121);MainThread (4121);main (/app/train.py:88)"
    step = f"{head};train_step (/app/train.py:40)"
    call = "cudaStreamSynchronize (libcudart.so.12)"
    sync = f"synchronize (/lib/torch/cuda/__init__.py:1162);{call};[gpu_wait.sync]"
    assert found == {
        f"{step};decode_image (/app/data.py:31);[python]": 595_000,
        f"{step};decode_image (/app/data.py:31);[starved]": 5_000,
        f"{step};[python]": 350_000,
        f"{step};{sync}": 450_000,
        f"{head};{sync}": 500_000,
    }


Field = tuple[int, "int | bytes"]


def fields(data: bytes) -> Iterator[Field]:
    """Decode one protocol buffer message, as https://protobuf.dev/programming-guides/encoding/ says."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            size = varint()
            yield tag >> 3, data[at : at + size]
            at += size
            assert at <= len(data)


def message(data: bytes | int) -> dict[int, list[int | bytes]]:
    assert isinstance(data, bytes)
    found: defaultdict[int, list[int | bytes]] = defaultdict(list)
    for number, value in fields(data):
        found[number].append(value)
    return found


def numbers(data: int | bytes) -> list[int]:
    """Decode packed varints by giving each the tag of a field of its own."""
    assert isinstance(data, bytes)
    unpacked: list[int] = []
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            unpacked.append(value)
            value = shift = 0
    return unpacked


def test_pprof() -> None:
    profile = message(b"".join(pprof.document(shots.shot())))
    strings = [text.decode() for text in profile[6] if isinstance(text, bytes)]
    assert strings[0] == ""
    functions = {message(f)[1][0]: message(f) for f in profile[5]}
    locations = {message(one)[1][0]: message(message(one)[4][0]) for one in profile[4]}

    def text(number: int | bytes) -> str:
        assert isinstance(number, int)
        return strings[number]

    def line(location: int) -> str:
        where = locations[location]
        function = functions[where[1][0]]
        assert function[2] == function[3]
        number = f":{where[2][0]!r}" if 2 in where else ""
        return f"{text(function[2][0])} {text(function[4][0])}{number}"

    found = {}
    for sample in map(message, profile[2]):
        (ids,), (values,) = sample[1], sample[2]
        labels = {
            text(label[1][0]): text(label[2][0]) if 2 in label else label[3][0] for label in map(message, sample[3])
        }
        assert labels["thread"] == "MainThread"
        assert labels["tid"] == labels["pid"] == PID
        found[tuple(map(line, numbers(ids))), labels["state"]] = sum(numbers(values))
    sync, main = "synchronize /lib/torch/cuda/__init__.py:1162", "main /app/train.py:88"
    call = "cudaStreamSynchronize libcudart.so.12"
    assert found[(call, sync, main), "gpu_wait.sync"] == pytest.approx(5e8, abs=1e3)
    assert found[(call, sync, "train_step /app/train.py:40", main), "gpu_wait.sync"] == pytest.approx(4.5e8, abs=1e3)
    assert sum(found.values()) == pytest.approx(1.9e9, abs=1e4)
    kind = message(profile[1][0])
    assert [text(kind[1][0]), text(kind[2][0])] == ["wall", "nanoseconds"]
    assert profile[10] == [2_000_000_000]


@pytest.mark.parametrize(
    ("number", "encoded"), [(0, b"\x00"), (1, b"\x01"), (150, b"\x96\x01"), (2**63, b"\x80" * 9 + b"\x01")]
)
def test_varint(number: int, encoded: bytes) -> None:
    assert pprof.varint(number) == encoded


def test_flame_graph_is_valid_and_as_wide_as_the_time() -> None:
    root = ElementTree.fromstring("".join(flame.svg(shots.shot())))
    widths = {}
    for group in root.iter(f"{SVG}g"):
        title = group.findtext(f"{SVG}title") or ""
        widths[title.split(" ")[0]] = float(group.attrib["data-w"])
    assert widths["main"] == pytest.approx(flame.WIDTH, abs=0.1)
    assert widths["decode_image"] == pytest.approx(flame.WIDTH * 0.6 / 1.9, rel=0.01)
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert "GPU bound: MainThread waits 45 % for the GPU" in texts
    assert "decode_image" in texts


class Page(HTMLParser):
    """Collects the tags, and the text of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._in_script = tag == "script"
        assert not any(name in ("src", "href", "onload", "onclick") for name, _ in attrs), "loads and runs nothing else"

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False


def test_flame_page_has_one_script_whatever_the_names() -> None:
    store = shots.store(name=HOSTILE[2])
    shots.add_stacks(store, PID, [(0.0, 1.0, tuple(Frame(name, name, 1) for name in HOSTILE))], name=HOSTILE[2])
    shots.add_peeks(store, PID, [(1.0, shots.COMPUTING)], 1.0)
    parser = Page()
    parser.feed("".join(flame.page(shots.shot(store))))
    assert parser.tags.count("script") == 1
    assert "alert" not in "".join(parser.scripts)
    assert parser.tags.count("g") == 1 + len(HOSTILE), "a box for each function and one for the whole"
    assert parser.tags.count("title") == 1 + parser.tags.count("g")


@pytest.mark.parametrize("item", formats.FORMATS, ids=lambda item: item.endings[0])
def test_hostile_names_in_every_format(item: formats.Format, tmp_path: Path) -> None:
    store = shots.store(name=HOSTILE[0])
    shots.add_stacks(store, PID, [(0.0, 1.0, tuple(Frame(name, name, 0) for name in HOSTILE))], name=HOSTILE[3])
    shots.add_peeks(store, PID, [(1.0, shots.COMPUTING)], 1.0)
    path = tmp_path / f"a{item.endings[0]}.gz"
    write.write(path, item.document(shots.shot(store)))
    text = gzip.decompress(path.read_bytes())
    assert b"xxxxxxxx" in text
    if item.endings[0].endswith("json"):
        json.loads(text)
    if item.endings[0] == ".svg":
        ElementTree.fromstring(text)
    if item.document is collapsed.document:
        (line,) = text.decode().splitlines()
        assert line.count(";") == 2 + len(HOSTILE)
