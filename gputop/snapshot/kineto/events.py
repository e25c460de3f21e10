"""The events of a trace file one by one, in constant memory whatever its size."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from gputop.errors import SnapshotError

_ARRAY = re.compile(r'"traceEvents"\s*:\s*\[|\A\s*\[(?=\s*\{)')
_OURS = re.compile(r'"gputop"\s*:\s*(?=\{)')
_BETWEEN = re.compile(r"[\s,]*")
_PIECE = 1 << 20

#: Our own key is among the first of a file.
_NEAR_THE_START = 4096

#: Longest single event; one with a thousand input shapes takes 100 kB.
_LONGEST = 16 << 20


def events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a Chrome trace (JSON, also gzipped).

    Raises:
        SnapshotError: the file cannot be read or is no trace; what came before the damage has been yielded.
    """
    try:
        with _opened(path) as file:
            yield from _events(path, file)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise SnapshotError(f"cannot read {path}: {error}", "take the trace again") from error


def about(path: Path) -> dict[str, Any]:
    """Return what gputop wrote about a trace of its own at the file's start; empty for one of others.

    Raises:
        SnapshotError: the file cannot be read.
    """
    try:
        with _opened(path) as file:
            start = file.read(_PIECE)
        found = _OURS.search(start, 0, _NEAR_THE_START)
        ours = json.JSONDecoder().raw_decode(start, found.end())[0] if found else {}
    except json.JSONDecodeError:
        return {}
    except (OSError, EOFError, zlib.error) as error:
        raise SnapshotError(f"cannot read {path}: {error}", "take the trace again") from error
    return ours if isinstance(ours, dict) else {}


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        plain = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if packed else file
        with io.TextIOWrapper(plain, encoding="utf-8", errors="replace") as text:
            yield text


def _events(path: Path, file: IO[str]) -> Iterator[dict[str, Any]]:
    text = file.read(_PIECE)
    found = _ARRAY.search(text)
    if found is None:
        raise SnapshotError(f"{path} is no Chrome trace: it has no traceEvents", "give a .json or .json.gz trace")
    decode = json.JSONDecoder().raw_decode
    at = found.end()
    while True:
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        if text[at : at + 1] == "]":
            return
        try:
            event, at = decode(text, at)
        except json.JSONDecodeError as error:
            more = file.read(_PIECE)
            if not more or len(text) - at > _LONGEST:
                raise SnapshotError(f"{path} is damaged: an event cannot be read", "take the trace again") from error
            text, at = text[at:] + more, 0
            continue
        if isinstance(event, dict):
            yield event
