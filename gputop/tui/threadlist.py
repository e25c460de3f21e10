"""The threads as a list: filtered, ordered and grouped; pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from gputop.analysis.results import ThreadRow
from gputop.analysis.states import BY_ID
from gputop.model import known
from gputop.tui.cells import percent

#: Roles of the program's own threads; the others are those of libraries and of the driver.
OWN = ("main", "python", "dataloader", "autograd")
#: What each role is, in the order of the list.
GROUPS = {
    "main": "main threads",
    "python": "Python threads",
    "dataloader": "data loader",
    "autograd": "backward pass",
    "nccl": "collectives",
    "cuda": "CUDA driver",
    "pool": "thread pools",
    "native": "native threads",
}
ORDER = {role: place for place, role in enumerate(GROUPS)}

#: What the list can be sorted by, with the keys 1 and up.
SORTS: dict[str, Callable[[ThreadRow], tuple[object, ...]]] = {
    "role": lambda row: (ORDER.get(row.role, len(ORDER)), row.pid, row.tid),
    "thread": lambda row: (row.name.lower(), row.pid, row.tid),
    "pid": lambda row: (row.pid, row.tid),
    "tid": lambda row: (row.tid,),
    "cpu": lambda row: (-round(known(row.cpu) or 0.0, 2), row.pid, row.tid),
    "doing": lambda row: (-round(row.works, 2), row.pid, row.tid),
}

#: A row of the list: a thread, or the head of a group.
Entry = ThreadRow | str


def holds(row: ThreadRow, text: str) -> bool:
    """Return whether a text is in what names a thread, without regard to case."""
    return text.lower() in f"{row.name} {row.role} {row.pid} {row.tid}".lower()


def listed(threads: Sequence[ThreadRow], sort: str, text: str = "", *, own: bool = False) -> list[ThreadRow]:
    """Return the threads that pass the filter, in an order that does not jump."""
    return sorted((row for row in threads if (not own or row.role in OWN) and holds(row, text)), key=SORTS[sort])


def grouped(threads: Sequence[ThreadRow]) -> list[Entry]:
    """Return threads that are in the order of their roles, with the head of each group before it."""
    entries: list[Entry] = []
    for role, rows in groupby(threads, lambda row: row.role):
        members = list(rows)
        idle = sum(row.works < 0.01 for row in members)
        words = f", {'all' if idle == len(members) else idle} waiting all the time" if idle else ""
        entries += [f"{GROUPS.get(role, role)}: {len(members)}{words}", *members]
    return entries


def most(row: ThreadRow) -> str:
    """Say what a thread does most: "gpu wait 61 %"."""
    if not row.states:
        return "not looked at"
    name, share = max(row.states.items(), key=lambda item: item[1])
    return f"{BY_ID[name].label} {percent(share)}"
