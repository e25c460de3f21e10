"""Keep up with a process tree: who joined, who ended, who became another program."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from gputop import procfs
from gputop.errors import NoProcessError
from gputop.model import Note, ProcessBatch, ProcessInfo
from gputop.target.describe import aliases, command_line, describe, executable
from gputop.target.launch import Launched
from gputop.target.naming import short_name
from gputop.text import printable

#: Processes followed at most.
LIMIT = 256

#: Processes described anew in one poll, so that a storm of children costs a bounded time.
_DESCRIBED_PER_POLL = 16

#: Seconds after which all processes are listed again though no new one is known of: some sandboxes make up the file
#: that tells the newest.
_SCAN_S = 2.0

#: Seconds until a process is described again: frameworks are imported some time after the start.
_FIRST_AGAIN_S, _LAST_AGAIN_S = 1.0, 30.0


@dataclass(slots=True)
class _Member:
    """A process of the tree: what it is, the mark of its program, and when it is described again."""

    info: ProcessInfo
    image: tuple[object, ...]
    due: float
    again_s: float = _FIRST_AGAIN_S


class Follower:
    """The processes of a target: the root and its descendants.

    A process belongs to the tree when its parent does, or when its process group or session was founded by a process
    of the tree (a child that was left behind by its parent between two polls). It stays in it when its parent ends.

    Args:
        root: the target.
        tree: follow its descendants too.
        launched: the root as gputop started it, which knows its exit code.
    """

    def __init__(self, root: ProcessInfo, tree: bool = True, launched: Launched | None = None) -> None:
        self._root = root
        self._tree = tree
        self._launched = launched
        self._members = {root.pid: _Member(root, (), 0.0)}
        self._founders = {root.pid}
        self._seen: set[int] = set()
        self._left_out: set[int] = set()
        self._ours = {os.getpid()}
        self._newest_pid = b""
        self._next_scan = 0.0
        self._told: tuple[ProcessInfo, ...] | None = None
        self._full = False

    @property
    def finished(self) -> bool:
        """Whether no process of the tree is left."""
        return not self._members

    def poll(self, now: float) -> ProcessBatch | None:
        """Look again; returns all processes when something has changed since the poll before, and the first time."""
        ended = self._look_at_members(now)
        if self._tree:
            self._look_for_new(now)
        self._describe_due(now)
        processes = self._ordered()
        if processes == self._told and not ended:
            return None
        self._told = processes
        return ProcessBatch(now, processes, ended)

    def note(self, now: float) -> Note | None:
        """Return a note when the tree has become too big to follow, or small enough again."""
        full = bool(self._left_out)
        if full == self._full:
            return None
        self._full = full
        what = f"the target has more than {LIMIT} processes; the newest are not followed" if full else ""
        return Note(now, "target", "tree", what, "watch one of them by itself: gputop --pid PID" if full else "")

    def _look_at_members(self, now: float) -> tuple[tuple[int, int | None], ...]:
        """Drop those that ended and return them; mark those that run another program now."""
        ended, groups = [], set(self._members)
        for pid, member in list(self._members.items()):
            status = _status(pid)
            if status is None or procfs.started_unix(status) != member.info.started_unix:
                del self._members[pid]
                ended.append((pid, self._exit_code(pid)))
                continue
            groups |= {status.pgrp, status.session}
            if member.image != (image := _image(status)):
                member.image, member.due, member.again_s = image, now, _FIRST_AGAIN_S
        self._founders &= groups
        return tuple(ended)

    def _exit_code(self, pid: int) -> int | None:
        return self._launched.poll() if self._launched and pid == self._root.pid else None

    def _look_for_new(self, now: float) -> None:
        room = LIMIT - len(self._members)
        newest = procfs.newest_pid()
        if newest == self._newest_pid and now < self._next_scan and not (self._left_out and room):
            return
        self._newest_pid, self._next_scan = newest, now + _SCAN_S
        seen = set(procfs.pids())
        fresh = (seen - self._seen) | (self._left_out & seen)
        self._seen = seen
        self._left_out = set()
        self._adopt({pid: status for pid in fresh if (status := _status(pid)) and not status.kernel}, now)

    def _adopt(self, fresh: dict[int, procfs.Stat], now: float) -> None:
        """Take in those that belong to the tree, parents before their children."""
        for pid, status in sorted(fresh.items(), key=lambda item: (item[1].started_s, item[0])):
            if pid in self._members:
                continue
            if not self._belongs(status):
                if status.ppid in self._ours:
                    self._ours.add(pid)
            elif len(self._members) >= LIMIT:
                self._left_out.add(pid)
            elif pid not in self._ours:
                self._members[pid] = self._member(pid, status, now)
                self._founders.add(pid)

    def _belongs(self, status: procfs.Stat) -> bool:
        if status.ppid in self._members or status.ppid in self._left_out:
            return True
        return status.ppid not in self._ours and not self._founders.isdisjoint((status.pgrp, status.session))

    def _member(self, pid: int, status: procfs.Stat, now: float) -> _Member:
        """Make a member: as its parent where it is a copy of it, else by its kernel name until it is described."""
        started = procfs.started_unix(status)
        parent = self._members.get(status.ppid)
        cmdline = command_line(pid)
        if parent and cmdline and cmdline == parent.info.cmdline and printable(executable(pid)) == parent.info.exe:
            name = short_name(cmdline, status.comm)
            info = replace(
                parent.info, pid=pid, ppid=status.ppid, started_unix=started, name=name, aliases=aliases(pid)
            )
            return _Member(info, _image(status), now + _FIRST_AGAIN_S)
        light = ProcessInfo(pid, status.ppid, started, cmdline, name=short_name(cmdline, status.comm))
        return _Member(light, _image(status), now)

    def _describe_due(self, now: float) -> None:
        due = sorted((member for member in self._members.values() if member.due <= now), key=lambda one: one.due)
        for member in due[:_DESCRIBED_PER_POLL]:
            with suppress(NoProcessError):  # the next poll will see that it ended
                info = describe(member.info.pid)
                if info.started_unix == member.info.started_unix:
                    member.info = replace(info, ppid=member.info.ppid)
            member.due = now + member.again_s
            member.again_s = min(member.again_s * 2, _LAST_AGAIN_S)

    def _ordered(self) -> tuple[ProcessInfo, ...]:
        """Return the root first, then the others by age."""
        infos: Iterable[ProcessInfo] = (member.info for member in self._members.values())
        return tuple(sorted(infos, key=lambda info: (info.pid != self._root.pid, info.started_unix, info.pid)))


def _status(pid: int) -> procfs.Stat | None:
    with suppress(OSError):
        status = procfs.stat(pid)
        return None if status.dead else status
    return None


def _image(status: procfs.Stat) -> tuple[object, ...]:
    """Return what changes when a process executes another program, or renames itself."""
    return (status.comm, *status.image)
