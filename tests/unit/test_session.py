"""The recording: written as it happens, read whatever became of it."""

from __future__ import annotations

import gzip
import json
import signal
import stat
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from gputop.errors import RecordingError
from gputop.model import (
    NA,
    Batch,
    CostBatch,
    Frame,
    GpuBatch,
    GpuReading,
    GpuUse,
    HostBatch,
    NativeFrame,
    Note,
    Observation,
    PeekBatch,
    PeekSample,
    ProcessBatch,
    ProcessInfo,
    ProcessReading,
    Session,
    StackBatch,
    StackSegment,
    ThreadReading,
    Window,
)
from gputop.session import SessionWriter, load, read_session
from gputop.session.codec import encode

ROOT = ProcessInfo(7, 1, 1.7e9, ("python", "train.py"), python="3.11.7", frameworks=("torch 2.11",), rank=0)

#: One batch of every kind, with every kind of value.
BATCHES: tuple[Batch, ...] = (
    Session(ROOT, 1.7e9, "box", 2, "0.1"),
    ProcessBatch(1.0, (ROOT,), ((8, None), (9, -11))),
    StackBatch(
        7, 0.0, 1.0, {7: "MainThread"}, ((Frame("f", "x.py", 3),), ()), (StackSegment(7, 0.0, 0.5, 0),), 99, 1, 100.0
    ),
    PeekBatch(
        7,
        0.0,
        0.5,
        (Observation(True, "", "", (NativeFrame("libc.so.6", "read"),), False), Observation(unreadable="gone")),
        (PeekSample(0.25, 7, 0, 0.25, 0.125), PeekSample(0.5, 7, 1, 0.25, 0.0)),
        {7: "python"},
        3,
        0.25,
        1,
        50.0,
    ),
    HostBatch(
        1.0,
        0.5,
        (0.25, 0.5),
        (0.0, 0.5),
        8e9,
        NA("no limit"),
        (0.5, 1.0, 1.5),
        (ProcessReading(7, 0.75, 1e9, (ThreadReading(7, "python", 0.75, NA("no schedstat"), "R", 1),)),),
    ),
    GpuBatch(
        1.0,
        (GpuReading(0, "GPU-0", "H200", {"utilization": 0.5, "fan": NA("none")}, GpuUse(NA("old"), 0.5, 4e9, True)),),
        {0: ((0.5, 0.25), (0.75, 1.0))},
    ),
    CostBatch(1.0, {"peek": 0.03125}, 0.25, 100.0, 50.0, 0.0, "many threads"),
    Note(1.0, "gpu", "driver", "no driver", "install one"),
)


def write(path: Path, *batches: Batch) -> Path:
    writer = SessionWriter(path)
    for batch in batches:
        writer.write(batch)
    writer.close()
    assert writer.error is None
    return path


def pack(path: Path, *lines: str | bytes, version: list[int] | None = None) -> Path:
    header = json.dumps({"recording": "gputop", "version": version or [1, 0]})
    texts = [line if isinstance(line, bytes) else line.encode() for line in (header, *lines)]
    path.write_bytes(gzip.compress(b"".join(text + b"\n" for text in texts)))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert tuple(read_session(write(tmp_path / "run.gputop", *BATCHES))) == BATCHES


def test_the_file_is_private_json_lines_for_zcat(tmp_path: Path) -> None:
    path = write(tmp_path / "run.gputop", *BATCHES)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    header, *lines = gzip.decompress(path.read_bytes()).splitlines()
    assert json.loads(header) == {"recording": "gputop", "version": [1, 0]}
    assert [json.loads(line)[0] for line in lines] == [type(batch).__name__ for batch in BATCHES]


def test_a_store_is_loaded(tmp_path: Path) -> None:
    store = load(write(tmp_path / "run.gputop", *BATCHES))
    assert store.session == BATCHES[0]
    assert store.threads(Window(0.0, 1.0)) == ((7, 7),)
    assert [note.key for note in store.notes()] == ["driver"]


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "run.gputop"
    path.write_text("precious")
    with pytest.raises(RecordingError, match="exists already") as caught:
        SessionWriter(path)
    assert "another name" in caught.value.remedy
    assert path.read_text() == "precious"


@pytest.mark.parametrize("path", [Path("/dev/null"), Path("/")])
def test_nobody_is_told_to_remove_what_is_no_file(path: Path) -> None:
    with pytest.raises(RecordingError, match="no regular file") as caught:
        SessionWriter(path)
    assert "remove" not in caught.value.remedy


def test_a_dangling_link_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "run.gputop"
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RecordingError):
        SessionWriter(path)
    assert not (tmp_path / "elsewhere").exists()


def test_a_directory_that_is_missing_has_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="No such file") as caught:
        SessionWriter(tmp_path / "no" / "run.gputop")
    assert caught.value.remedy


def test_cut_anywhere_what_is_before_can_be_read(tmp_path: Path) -> None:
    """At every byte: batches come back in order, none invented, only what was cut off is missing, and that is said."""
    whole = write(tmp_path / "whole.gputop", *BATCHES).read_bytes()
    path, read = tmp_path / "cut.gputop", []
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        try:
            *found, note = read_session(path)
        except RecordingError:
            found = []
        else:
            assert isinstance(note, Note)
            assert (note.key, "gputop was killed" in note.what) == ("cut", True)
        assert tuple(found) == BATCHES[: len(found)]
        read.append(len(found))
    assert read == sorted(read)
    assert read[0] == 0
    assert read[-1] == len(BATCHES)


def test_any_byte_damaged_does_no_harm(tmp_path: Path) -> None:
    """Either the file is refused, or what is read of it can be stored."""
    whole = write(tmp_path / "whole.gputop", *BATCHES).read_bytes()
    path = tmp_path / "damaged.gputop"
    outcomes: set[bool | None] = set()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            outcomes.add(load(path).session == BATCHES[0])
        except RecordingError:
            outcomes.add(None)
    assert outcomes >= {True, None}


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"",
        b"\xff\xfe",
        b"[]",
        b"3",
        b'["PeekBatch"]',
        b'["PeekBatch", {}]',
        b'["PeekBatch", 5]',
        b'[["PeekBatch"], {}]',
        b"[" * 100_000,
        b'["Note", {"time": 1e999, "source": "a", "key": "b", "what": "c"}]',
        b'["Note", {"time": NaN, "source": "a", "key": "b", "what": "c"}]',
        b'["Note", {"time": 1e30, "source": "a", "key": "b", "what": "c"}]',
        b'["Note", {"time": true, "source": "a", "key": "b", "what": "c"}]',
        b'["Note", {"time": "1", "source": "a", "key": "b", "what": "c"}]',
        b'["Note", {"time": 1, "source": null, "key": "b", "what": "c"}]',
        b'["Note", {"time": ' + b"9" * 5000 + b', "source": "a", "key": "b", "what": "c"}]',
        encode(BATCHES[6]).replace("0.03125", '"much"'),
        encode(PeekBatch(7, 0, 1, (), (PeekSample(1.0, 7, 0, 0.5, 0.0),), {})),
        encode(PeekBatch(7, 0, 1, (Observation(),), (PeekSample(1.0, 7, -1, 0.5, 0.0),), {})),
        encode(PeekBatch(7, 0, 1, (Observation(),), (PeekSample(1.0, 7, 0, -0.5, 0.0),), {})),
        encode(PeekBatch(7, 0, 1, (Observation(),), (PeekSample(1.0, 7, 0, 0.5, 0.0, 0),), {})),
        encode(PeekBatch(7, 0, 1, (Observation(),), (PeekSample(1.0, 7, 0, 0.5, 0.0, -2),), {})),
        encode(StackBatch(7, 0, 1, {}, ((),), (StackSegment(7, 2.0, 1.0, 0),), 1, 0, 1.0)),
        encode(StackBatch(7, 0, 1, {}, ((),), (StackSegment(7, 0.0, 1.0, 9),), 1, 0, 1.0)),
        encode(HostBatch(1e10, 0.5, (), (), 0.0, 0.0, (), ())),
        encode(HostBatch(1.0, 1.5, (), (), 0.0, 0.0, (), ())),
        encode(ProcessBatch(-1.0, ())),
        encode(BATCHES[2]).replace('"7":', '"seven":'),
    ],
)
def test_a_line_that_makes_no_sense_is_skipped_and_counted(tmp_path: Path, line: str | bytes) -> None:
    path = pack(tmp_path / "odd.gputop", encode(BATCHES[0]), line, encode(BATCHES[1]))
    first, second, note = read_session(path)
    assert (first, second) == BATCHES[:2]
    assert isinstance(note, Note)
    assert "1 line skipped" in note.what
    load(path)


def test_an_endless_line_is_skipped(tmp_path: Path) -> None:
    """20 MB of zeros are 20 kB in the file."""
    path = pack(tmp_path / "bomb.gputop", encode(BATCHES[0]), b"0" * (20 << 20), encode(BATCHES[1]))
    first, second, note = read_session(path)
    assert (first, second) == BATCHES[:2]
    assert isinstance(note, Note)


def test_names_from_a_file_are_made_printable(tmp_path: Path) -> None:
    note = Note(1.0, "gpu", "k", "\x1b]0;owned\x07 \u202e" + "x" * 10_000)
    (read,) = read_session(pack(tmp_path / "evil.gputop", encode(note)))
    assert isinstance(read, Note)
    assert read.what.isprintable()
    assert len(read.what) <= 400


def test_a_newer_minor_version_is_read_without_its_news(tmp_path: Path) -> None:
    news = encode(BATCHES[7]).replace("{", '{"mood": [1, {}], ', 1)
    kind = '["MoodBatch", {"time": 1}]'
    longer = encode(BATCHES[3]).replace("[0.25,7,0,0.25,0.125]", '[0.25,7,0,0.25,0.125,"new"]')
    path = pack(tmp_path / "new.gputop", news, kind, longer, version=[1, 7])
    assert tuple(read_session(path)) == (BATCHES[7], BATCHES[3])


def test_a_newer_major_version_says_upgrade(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="newer gputop") as caught:
        read_session(pack(tmp_path / "new.gputop", version=[2, 0]))
    assert "upgrade" in caught.value.remedy


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", gzip.compress(b"hello\n"), gzip.compress(b'{"recording": 1}\n')]
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match="not a gputop recording") as caught:
        read_session(path)
    assert "a recording is made by: gputop record --pid PID" in caught.value.remedy
    assert "again" not in caught.value.remedy


def test_a_missing_file_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="No such file"):
        read_session(tmp_path / "none")


ENDLESS = """
import itertools, sys
from pathlib import Path
from gputop.model import Note
from gputop.session import SessionWriter
writer = SessionWriter(Path(sys.argv[1]))
for number in itertools.count():
    writer.write(Note(float(number), "engine", str(number), "x" * 50))
    if number % 100 == 99:
        print(number, flush=True)
        sys.stdin.readline()
"""


def test_kill_9_leaves_all_that_was_flushed(tmp_path: Path) -> None:
    """More is written until some of it can be read, which takes a flush; then the writer is killed while it writes."""
    path = tmp_path / "run.gputop"
    command = [sys.executable, "-c", ENDLESS, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while not (before := _notes(path)):
            process.stdout.readline()
            process.stdin.write("more\n")
            process.stdin.flush()
        process.send_signal(signal.SIGKILL)
    numbers = _notes(path)
    assert numbers[: len(before)] == before
    assert all(earlier < later for earlier, later in pairwise(numbers))  # some may be lost to a disk too slow


def _notes(path: Path) -> list[int]:
    """Return the numbers of the notes that can be read now."""
    try:
        return [int(batch.key) for batch in read_session(path) if isinstance(batch, Note) and batch.source == "engine"]
    except RecordingError:
        return []  # not even its first line is there yet


FULL = """
import os, resource, sys
from pathlib import Path
from gputop.model import Note
from gputop.session import SessionWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
writer = SessionWriter(Path(sys.argv[1]))
for number in range(1000):
    writer.write(Note(float(number), "engine", str(number), os.urandom(100).hex()))
writer.close()
writer.write(Note(1.0, "engine", "late", "ignored"))
print(writer.error.what, "|", writer.error.remedy)
"""


def test_a_full_disk_ends_the_recording_only(tmp_path: Path) -> None:
    """A limit on the file's size stands in for the disk: the write comes back short, the next one fails."""
    path = tmp_path / "run.gputop"
    said = subprocess.run([sys.executable, "-c", FULL, str(path)], check=True, capture_output=True, text=True).stdout
    assert "ends early: File too large" in said
    assert "make room" in said
    assert path.stat().st_size == 20_000
    *numbers, cut = [batch.key for batch in read_session(path) if isinstance(batch, Note)]
    assert cut == "cut"
    assert list(map(int, numbers)) == list(range(len(numbers)))
    assert len(numbers) > 50


def test_a_slow_disk_never_blocks_and_what_is_lost_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck, going = threading.Event(), threading.Event()
    put = SessionWriter._put

    def slow(self: SessionWriter, data: bytes) -> None:
        stuck.set()
        going.wait()
        put(self, data)

    monkeypatch.setattr(SessionWriter, "_put", slow)
    path = tmp_path / "run.gputop"
    writer = SessionWriter(path)
    stuck.wait()
    for number in range(2100):
        writer.write(Note(float(number), "engine", str(number), "x"))
    going.set()
    writer.close()
    *notes, last = read_session(path)
    assert [batch.key for batch in notes if isinstance(batch, Note)] == [str(number) for number in range(2000)]
    assert isinstance(last, Note)
    assert "100 batches are missing" in last.what


def test_close_twice_and_write_after_it_are_harmless(tmp_path: Path) -> None:
    path = tmp_path / "run.gputop"
    writer = SessionWriter(path)
    writer.close()
    writer.close()
    writer.write(BATCHES[0])
    assert tuple(read_session(path)) == ()
