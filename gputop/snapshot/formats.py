"""What a snapshot can be written as; the end of the file's name chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gputop.errors import UsageError
from gputop.snapshot import collapsed, flame, pprof, sampled, speedscope
from gputop.snapshot.shot import Shot


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write a snapshot: its name, the endings that choose it, what opens it, and what writes it."""

    title: str
    endings: tuple[str, ...]
    opens: str
    document: Callable[[Shot], Iterable[str | bytes]]


#: A line makes a format. Any ending may be followed by `.gz`; the longest that fits wins.
FORMATS = (
    Format("sampled trace", (".json",), "open it at ui.perfetto.dev", sampled.document),
    Format("speedscope profile", (".speedscope.json",), "open it at speedscope.app", speedscope.document),
    Format(
        "collapsed stacks", (".folded", ".collapsed", ".txt"), "for flamegraph.pl or speedscope", collapsed.document
    ),
    Format("pprof profile", (".pb", ".pprof"), "open it with: go tool pprof -http=: FILE", pprof.document),
    Format("flame graph", (".svg",), "open it in a browser", flame.svg),
    Format("flame graph page", (".html", ".htm"), "open it in a browser", flame.page),
)


def of(path: Path) -> Format:
    """Return the format that a file's name asks for.

    Raises:
        UsageError: no format has such an ending.
    """
    name = path.name.lower().removesuffix(".gz")
    fitting = [(ending, item) for item in FORMATS for ending in item.endings if name.endswith(ending)]
    if not fitting:
        known = " ".join(ending for item in FORMATS for ending in item.endings)
        raise UsageError(
            f"{path.name}: the name's ending chooses the format, and this one is none",
            f"use one of {known}, each also with .gz",
        )
    return max(fitting, key=lambda pair: len(pair[0]))[1]
