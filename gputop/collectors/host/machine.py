"""Load of each core, and memory of the machine or of the control group that bounds the target."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from gputop import procfs
from gputop.model import NA, Value

CGROUPS = "/sys/fs/cgroup"


class Cores:
    """Shares in use of each core between two readings."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, int]] = {}

    def read(self) -> tuple[float, ...]:
        """Return each core's share in use since the reading before, by core number; empty the first time.

        Time waiting for a disk counts as free, time stolen by other guests of the hypervisor as used. A core that is
        switched off is 0.
        """
        now = _core_ticks()
        before, self._before = self._before, now
        if not before:
            return ()
        shares = {core: _share(before.get(core, ticks), ticks) for core, ticks in now.items()}
        return tuple(shares.get(core, 0.0) for core in range(max(shares) + 1))


def _core_ticks() -> dict[int, tuple[int, int]]:
    """Return (used, all) ticks of each core from /proc/stat; guest time is part of user time already (proc(5))."""
    cores = {}
    for line in procfs.read("/proc/stat").split(b"\n"):
        if line.startswith(b"cpu") and line[3:4].isdigit():
            name, *fields = line.split()
            user, nice, system, idle, wait, *rest = map(int, fields[:8])
            used = user + nice + system + sum(rest)
            cores[int(name[3:])] = (used, used + idle + wait)
    return cores


def _share(before: tuple[int, int], now: tuple[int, int]) -> float:
    used, total = now[0] - before[0], now[1] - before[1]
    return min(max(used / total, 0.0), 1.0) if total > 0 else 0.0


@dataclass(frozen=True, slots=True)
class _Group:
    """A control group with a memory limit, and the names of its files in its cgroup version."""

    directory: str
    limit: int
    usage: str
    reclaimable: bytes


class Memory:
    """Memory used and there in all: of the machine, or of the tightest control group that bounds the target."""

    def __init__(self) -> None:
        self._pid = 0
        self._group: _Group | None = None

    def read(self, pid: int) -> tuple[Value, Value]:
        """Return (used, total) bytes as process `pid` has them; file cache that can be dropped counts as free."""
        used, total = _machine_memory()
        if pid != self._pid:
            self._pid, self._group = pid, _tightest(pid)
        group = self._group
        if group is None or (not isinstance(total, NA) and group.limit >= total):
            return used, total
        try:
            return _group_memory(group), float(group.limit)
        except (OSError, ValueError) as error:
            return NA(f"control group: {error}"), float(group.limit)


def _machine_memory() -> tuple[Value, Value]:
    try:
        lines = procfs.read_short("/proc/meminfo").split(b"\n")
        kilobytes = {name: int(value.split()[0]) for name, _, value in (line.partition(b":") for line in lines[:3])}
        total, free = kilobytes[b"MemTotal"] << 10, kilobytes[b"MemAvailable"] << 10
    except (OSError, ValueError, KeyError, IndexError) as error:
        return NA(f"/proc/meminfo: {error}"), NA(f"/proc/meminfo: {error}")
    return float(total - free), float(total)


def _tightest(pid: int) -> _Group | None:
    """Return the group with the lowest limit among the target's and those above it."""
    with suppress(OSError):
        memberships = procfs.read(f"/proc/{pid}/cgroup").decode("utf-8", "surrogateescape").splitlines()
        groups = [group for line in memberships for group in _limited(*line.split(":", 2)[1:])]
        return min(groups, key=lambda group: group.limit, default=None)
    return None


def _limited(controllers: str, path: str) -> list[_Group]:
    """Return the limited groups on the way up from `path`; the hierarchy's files tell its version (cgroups(7))."""
    if controllers == "":
        names = (CGROUPS, "memory.max", "memory.current", b"inactive_file")
    elif "memory" in controllers.split(","):
        names = (f"{CGROUPS}/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file")
    else:
        return []
    mount, limit_name, usage, reclaimable = names
    found = []
    for directory in upwards(mount, path):
        with suppress(OSError, ValueError):  # "max", or not there
            limit = int(procfs.read_short(f"{directory}/{limit_name}"))
            found.append(_Group(directory, limit, usage, reclaimable))
    return found


def upwards(mount: str, path: str) -> list[str]:
    """Return the directories of a group and those above it; a group outside our cgroup namespace has only the root."""
    parts = [] if ".." in path else [part for part in path.split("/") if part]
    return [os.path.join(mount, *parts[:depth]) for depth in range(len(parts), -1, -1)]


def _group_memory(group: _Group) -> float:
    """Return used bytes less the inactive file cache: what the kernel would have to give up before killing."""
    usage = int(procfs.read_short(f"{group.directory}/{group.usage}"))
    lines = procfs.read(f"{group.directory}/memory.stat").split(b"\n")
    cache = next((int(line.split()[1]) for line in lines if line.startswith(group.reclaimable + b" ")), 0)
    return float(max(usage - cache, 0))
