"""Notes as a reader wants them: what is much the same of fifty processes is said once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from gputop.model import Note

#: Sources whose keys end in the process that a note is about.
_BY_PROCESS = frozenset({"stacks", "peek"})
_PROCESS = re.compile(r"[:.]\d+$")


def folded(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return the notes with those of one kind about several processes made into one, in the place of the first."""
    kinds: dict[tuple[str, str, str], list[Note]] = {}
    for note in notes:
        kind = _PROCESS.sub("", note.key) if note.source in _BY_PROCESS else note.key
        kinds.setdefault((note.source, kind, note.remedy), []).append(note)
    return tuple(_one(kind, same) for (_, kind, _), same in kinds.items())


def _one(kind: str, same: list[Note]) -> Note:
    first, *others = same
    if not others:
        return first
    more = f"{len(others)} other process" + "es" * (len(others) > 1)
    return replace(first, key=kind, what=f"{first.what}, and much the same of {more}")
