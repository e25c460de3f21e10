"""Names of the target that are made to harm: nothing of them reaches a terminal, everything else is right."""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.harness import GPUTOP, document, gputop, noted, states, together
from tests.fixtures_targets import start_target
from tests.tui.terminal import Terminal

ARGUMENTS = ("\x1b[31mred\x1b]0;owned\x07", "\u202egnp.exe\n\r", "\x9b2J", "a" * 10_000)

#: What a terminal may act on: controls, format characters, surrogates, separators.
UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}

#: Sequences that only the target's names hold; what the screen writes itself has none of them.
THEIRS = (b"owned\x07", b"\x1b]0;owned", b"\x1b[2J) R", b"\xc2\x9b", "\u202e".encode(), "\u2066".encode())


@contextmanager
def hostile() -> Iterator[int]:
    with start_target("hostile.py", *ARGUMENTS) as target:
        yield target.pid


def unsafe(text: str) -> set[str]:
    return {hex(ord(letter)) for letter in text if letter != "\n" and unicodedata.category(letter) in UNSAFE}


def strings(value: object) -> Iterator[str]:
    """Yield every text in a JSON document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


@pytest.mark.timeout(90)
def test_reports_traces_and_recordings_are_clean_and_right(tmp_path: Path) -> None:
    recording, trace = tmp_path / "r.gputop", tmp_path / "t.json"
    with hostile() as pid:
        attached = ("--pid", pid, "--duration", 2)
        printed, as_json, recorded, snapped = together(
            ("report", *attached),
            ("report", *attached, "--json"),
            ("record", *attached, "-o", recording),
            ("snapshot", *attached, "-o", trace),
        )
    assert {run.returncode for run in (printed, as_json, recorded, snapped)} == {0}
    assert unsafe(printed.stdout + printed.stderr + snapped.stderr + recorded.stderr) == set()
    assert max(map(len, printed.stdout.splitlines())) < 700
    check_report(document(as_json), pid)
    check_report(document(gputop("report", recording, "--json")), pid)
    for text in (*strings(json.loads(trace.read_text())), *strings(json.loads(as_json.stdout))):
        assert unsafe(text) == set()
    assert unsafe(gzip.decompress(recording.read_bytes()).decode()) == set()


def check_report(seen: dict[str, object], pid: int) -> None:
    """Demand that the two functions share the time, by names that are safe and can be told apart."""
    assert isinstance(seen["functions"], list)
    shares = {row["name"]: row["self"] for row in seen["functions"] if row["self"] > 0.05}
    assert len(shares) == 2
    assert all(share > 0.2 for share in shares.values()), shares
    long, evil = sorted(shares, key=len, reverse=True)
    assert re.fullmatch("n{399}…", long)
    assert "gnp.exe" in evil
    busy = states(seen, pid)
    assert busy["python"] + busy.get("starved", 0) > 0.8  # the four watchers stand in each other's way
    assert all(len(text) <= 400 for text in strings(seen["threads"]))


@pytest.mark.parametrize("command", ["--pid", "replay"])
def test_the_screen_lets_none_of_it_through(command: str, tmp_path: Path) -> None:
    recording = tmp_path / "r.gputop"
    with hostile() as pid:
        if command == "replay":
            gputop("record", "--pid", pid, "-o", recording, "--duration", 1.2)
        words = ["replay", str(recording)] if command == "replay" else ["--pid", str(pid)]
        with Terminal([*GPUTOP, *words], 160, 48) as terminal:
            written = terminal.expect("gnp.exe")
            terminal.press("t")
            written += terminal.expect("threads")
    assert [sequence for sequence in THEIRS if sequence in written] == []


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a recording of `computes.py busy`."""
    path = tmp_path_factory.mktemp("good") / "r.gputop"
    with start_target("computes.py", "busy") as target:
        gputop("record", "--pid", target.pid, "-o", path, "--duration", 1.5)
    return path.read_bytes()


def test_a_recording_made_to_harm_is_clean_when_it_is_shown(good: bytes, tmp_path: Path) -> None:
    """Not all recordings come from gputop: the names in one are cleaned when it is read."""
    path, content = tmp_path / "r.gputop", gzip.decompress(good)
    evil = content.replace(b'"busy"', rb'"\u001b]0;owned\u0007\u202ebusy"').replace(b'"MainThread"', rb'"\u009b2J"')
    assert evil != content
    path.write_bytes(gzip.compress(evil))
    printed, as_json = together(("report", path), ("report", path, "--json"))
    assert unsafe(printed.stdout + printed.stderr) == set()
    assert unsafe("".join(strings(json.loads(as_json.stdout)))) == set()
    assert "busy" in printed.stdout


def test_a_damaged_recording_shows_what_can_be_read_or_says_what_is_wrong(good: bytes, tmp_path: Path) -> None:
    lines = gzip.decompress(good).splitlines(keepends=True)
    harms = {
        "cut": good[: len(good) * 2 // 3],
        "garbled": gzip.compress(b"".join([*lines[:-2], bytes(range(11, 256)) + b"\n", *lines[-2:]])),
        "shuffled": gzip.compress(b"".join(lines[:1] + lines[:0:-1])),
        "bomb": gzip.compress(lines[0] + b"[" * (200 << 20), 1),
        "text": b"a,b,c\n",
        "empty": b"",
    }
    for name, data in harms.items():
        (tmp_path / name).write_bytes(data)
    runs = dict(zip(harms, together(*(("report", tmp_path / name, "--json") for name in harms)), strict=True))
    for name in ("cut", "garbled", "shuffled"):
        seen = document(runs[name])
        assert seen["headline"]["name"] == "MainThread"
        assert ("damaged" in noted(seen, "recording")) == (name == "garbled")
        assert ("has no end" in noted(seen, "recording")) == (name == "cut")
    for name in ("bomb", "text", "empty"):
        assert (runs[name].returncode, runs[name].stdout) == (1, "")
        assert runs[name].stderr.startswith("gputop: ")
        assert "gputop record --pid PID -o FILE.gputop" in runs[name].stderr
