"""Stacks in pprof's format: the protocol buffer `perftools.profiles.Profile`, encoded by hand.

Field numbers: https://github.com/google/pprof/blob/main/proto/profile.proto. Encoding: varints, and length-delimited
parts (https://protobuf.dev/programming-guides/encoding/). Nothing more is needed, so no dependency is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gputop.model import Frame, Stack
from gputop.snapshot.shot import Shot
from gputop.snapshot.weights import Weight, weights

# Profile's fields, then those of its parts.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING_TABLE = 1, 2, 4, 5, 6
_TIME_NANOS, _DURATION_NANOS, _COMMENT = 9, 10, 13
_TYPE, _UNIT = 1, 2
_LOCATION_IDS, _VALUES, _LABEL = 1, 2, 3
_KEY, _TEXT, _NUMBER = 1, 2, 3
_ID, _LOCATION_LINE = 1, 4
_FUNCTION_ID, _LINE_NUMBER = 1, 2
_NAME, _SYSTEM_NAME, _FILENAME = 2, 3, 4


def varint(number: int) -> bytes:
    """Encode a non-negative integer, seven bits a byte, least significant first."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def integer(field: int, number: int) -> bytes:
    """Encode an integer field; zero is the default and takes no space."""
    return varint(field << 3) + varint(number) if number else b""


def part(field: int, data: bytes) -> bytes:
    """Encode a length-delimited field: a string, a message or packed integers."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def packed(field: int, numbers: Iterable[int]) -> bytes:
    """Encode repeated integers."""
    return part(field, b"".join(map(varint, numbers)))


class _Tables:
    """What samples refer to by number: strings from 0 (the empty one), functions and locations from 1."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {"": 0}
        self.functions: dict[tuple[str, str], int] = {}
        self.locations: dict[tuple[int, int], int] = {}

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def location(self, frame: Frame) -> int:
        function = self.functions.setdefault((frame.name, frame.file), len(self.functions) + 1)
        return self.locations.setdefault((function, frame.line), len(self.locations) + 1)

    def encoded(self) -> Iterator[bytes]:
        for (function, line), number in self.locations.items():
            where = integer(_FUNCTION_ID, function) + integer(_LINE_NUMBER, line)
            yield part(_LOCATION, integer(_ID, number) + part(_LOCATION_LINE, where))
        for (name, file), number in self.functions.items():
            called = self.string(name)
            names = integer(_NAME, called) + integer(_SYSTEM_NAME, called) + integer(_FILENAME, self.string(file))
            yield part(_FUNCTION, integer(_ID, number) + names)
        for text in self.strings:
            yield part(_STRING_TABLE, text.encode("utf-8", "replace"))


def document(shot: Shot) -> Iterator[bytes]:
    """Yield the profile: wall time in nanoseconds for each stack, labelled with thread, process and state."""
    tables = _Tables()
    wall = integer(_TYPE, tables.string("wall")) + integer(_UNIT, tables.string("nanoseconds"))
    yield part(_SAMPLE_TYPE, wall)
    for weight in weights(shot):
        yield part(_SAMPLE, _sample(shot, weight, tables))
    yield integer(_TIME_NANOS, round(shot.start_unix * 1e9))
    yield integer(_DURATION_NANOS, round(shot.window.seconds * 1e9))
    comment = tables.string(f"gputop {shot.session.version}: {' '.join(shot.session.root.cmdline)}")
    yield packed(_COMMENT, [comment])
    yield from tables.encoded()


def _sample(shot: Shot, weight: Weight, tables: _Tables) -> bytes:
    def label(name: str, text: str) -> bytes:
        return part(_LABEL, integer(_KEY, tables.string(name)) + integer(_TEXT, tables.string(text)))

    def number(name: str, value: int) -> bytes:
        return part(_LABEL, integer(_KEY, tables.string(name)) + integer(_NUMBER, value))

    labels = label("thread", shot.store.name(weight.key)) + number("tid", weight.key.tid)
    labels += number("pid", weight.key.pid) + label("state", weight.state)
    nanoseconds = round(weight.seconds * 1e9)
    return packed(_LOCATION_IDS, _leaf_first(weight.stack, tables)) + packed(_VALUES, [nanoseconds]) + labels


def _leaf_first(stack: Stack, tables: _Tables) -> list[int]:
    return [tables.location(frame) for frame in reversed(stack)]
