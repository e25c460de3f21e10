"""A program's output, as lines for the screen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputop.target.output import Tail, last_lines


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def test_nothing_until_there_is_a_file(log: Path) -> None:
    tail = Tail(log)
    assert (tail.read(), tail.lines(5)) == (False, [])
    append(log, b"one\n")
    assert (tail.read(), tail.read(), tail.lines(5)) == (True, False, ["one"])


def test_lines_come_as_they_grow(log: Path) -> None:
    tail = Tail(log)
    for content, lines in ((b"a\nb", ["a", "b"]), (b"c\n\n", ["a", "bc", ""]), (b"d\r\n", ["a", "bc", "", "d"])):
        append(log, content)
        assert tail.lines(10) == lines
    assert (tail.lines(2), tail.lines(0)) == (["", "d"], [])


def test_the_unfinished_line_counts(log: Path) -> None:
    append(log, b"a\nb\nc")
    assert Tail(log).lines(2) == ["b", "c"]


def test_a_progress_bar_is_one_line(log: Path) -> None:
    tail = Tail(log)
    for percent in range(101):
        append(log, f"\r{percent:3}%|{'█' * (percent // 10)}".encode())
        assert tail.lines(5) == [f"{percent:3}%|{'█' * (percent // 10)}"]
    append(log, b"\ndone\rdone 2\r\n")
    assert tail.lines(5) == ["100%|██████████", "done 2"]


def test_a_bar_that_ends_in_a_carriage_return_is_seen(log: Path) -> None:
    append(log, b"10%\r20%\r")
    assert Tail(log).lines(1) == ["20%"]


def test_text_split_anywhere_is_whole_again(log: Path) -> None:
    tail = Tail(log)
    for byte in "\x1b[1;31mGrüße 🚀\x1b[0m\x1b]0;title\x07 ok\n".encode():
        append(log, bytes([byte]))
        assert not any("�" in line for line in tail.lines(1))
    assert tail.lines(1) == ["Grüße 🚀 ok"]


def test_what_a_terminal_would_obey_is_taken_out(log: Path) -> None:
    append(log, b"\x1b[2J\x1b[31mred\x1b[0m\x1b(B\x1b7 \x07bell\xff \xe2\x80\xae\t|\n\x1b[A\x1b[Kup\n")
    lines = Tail(log).lines(2)
    assert lines == ["red �bell� �    |", "up"]
    assert all(line.isprintable() for line in lines)


def test_memory_is_bounded(log: Path) -> None:
    append(log, b"".join(b"line %d\n" % number for number in range(5000)))
    tail = Tail(log, limit=100)
    assert tail.lines(3000) == [f"line {number}" for number in range(4900, 5000)]


def test_huge_lines_are_cut(log: Path) -> None:
    tail = Tail(log)
    for _ in range(5):
        append(log, b"x" * 1_500_000)
        assert all(len(line) <= 1000 for line in tail.lines(1))
    while tail.read():
        pass
    append(log, b"\nshort\n")
    assert tail.lines(1) == ["short"]


def test_a_flood_is_skipped_and_said(log: Path) -> None:
    append(log, b"0123456789abcde\n" * 640_000)  # 9.8 MB
    tail = Tail(log)
    assert tail.lines(3000)[0] == "0123456789abcde"
    assert tail.read() is False
    assert len(tail.lines(3000)) == 2000
    fresh = Tail(log, limit=100_000)
    assert fresh.lines(100_000)[0] == "… 8.8 MB not shown …"


def test_a_file_that_was_cut_or_replaced_starts_again(log: Path) -> None:
    append(log, b"first\nhalf")
    tail = Tail(log)
    tail.read()
    os.truncate(log, 0)
    append(log, b"new\n")
    assert tail.lines(5) == ["first", "new"]
    other = log.with_suffix(".new")
    append(other, b"another file, longer\n")
    other.rename(log)
    assert tail.lines(5) == ["first", "new", "another file, longer"]


def test_the_last_lines_of_a_file(log: Path) -> None:
    assert last_lines(log, 6) == []
    append(log, b"one\ntwo\n\x1b[31mValueError\x1b[0m: b\xffad\x07\n\n \n")
    assert last_lines(log, 6) == ["one", "two", "ValueError: b\ufffdad\ufffd"]
    assert last_lines(log, 1) == ["ValueError: b\ufffdad\ufffd"]


def test_the_last_lines_of_a_large_file_are_read_from_its_end(log: Path) -> None:
    with log.open("wb") as file:
        file.truncate(1 << 40)  # sparse: to read it would take hours
    append(log, b"\nlast\n")
    assert last_lines(log, 1) == ["last"]
    append(log, b"x" * 100_000)
    (line,) = last_lines(log, 6)
    assert line.startswith("xxx")
    assert len(line) <= 1000


def test_a_pipe_has_no_last_lines(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert last_lines(tmp_path / "pipe", 6) == []
