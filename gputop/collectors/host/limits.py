"""What bounds the CPU time of the target: the cores that it may run on, and its control group's quota."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from gputop import procfs
from gputop.collectors.host.machine import CGROUPS, upwards
from gputop.model import NA, CpuLimits, Value

_NO_QUOTA = NA("no CPU quota")
_FIRST = NA("first look")


@dataclass(frozen=True, slots=True)
class _Group:
    """A control group with a CPU quota, in cores."""

    directory: str
    quota: float


class Limits:
    """Reads the limits of one process again and again; its group is looked for when the process changes."""

    def __init__(self) -> None:
        self._pid = 0
        self._group: _Group | None = None
        self._before: tuple[int, int] | None = None

    def read(self, pid: int) -> CpuLimits:
        """Return the limits now, and how often the quota was used up since the reading before."""
        if pid != self._pid:
            self._pid, self._group, self._before = pid, _tightest(pid), None
        allowed = _allowed(pid)
        if self._group is None:
            return CpuLimits(allowed, _NO_QUOTA, _NO_QUOTA)
        return CpuLimits(allowed, self._group.quota, self._throttled(self._group))

    def _throttled(self, group: _Group) -> Value:
        """Return the share of periods in which the quota was used up (nr_throttled of nr_periods in cpu.stat)."""
        try:
            lines = procfs.read_short(f"{group.directory}/cpu.stat").split(b"\n")
            counters = {name: int(value) for name, _, value in (line.partition(b" ") for line in lines if line)}
            now = counters[b"nr_periods"], counters[b"nr_throttled"]
        except (OSError, ValueError, KeyError) as error:
            return NA(f"control group: {error}")
        before, self._before = self._before, now
        if before is None:
            return _FIRST
        periods = now[0] - before[0]
        return min(1.0, (now[1] - before[1]) / periods) if periods > 0 else 0.0


def _allowed(pid: int) -> str:
    """Return the cores that a process's first thread may run on, by its affinity and cpuset, as the kernel lists them
    ("0-3,8"); empty when that cannot be read."""
    with suppress(OSError):
        for line in procfs.read(f"/proc/{pid}/status").split(b"\n"):
            if line.startswith(b"Cpus_allowed_list:"):
                return line.partition(b":")[2].strip().decode("ascii", "replace")
    return ""


def _tightest(pid: int) -> _Group | None:
    """Return the group with the smallest quota among the target's and those above it."""
    with suppress(OSError):
        memberships = procfs.read(f"/proc/{pid}/cgroup").decode("utf-8", "surrogateescape").splitlines()
        groups = [group for line in memberships for group in _limited(*line.split(":", 2)[1:])]
        return min(groups, key=lambda group: group.quota, default=None)
    return None


def _limited(controllers: str, path: str) -> list[_Group]:
    """Return the groups with a quota on the way up from `path` (cgroups(7); cpu.max, and cpu.cfs_quota_us in v1)."""
    if controllers == "":
        mount, names = CGROUPS, ["cpu.max"]
    elif "cpu" in controllers.split(","):
        mount, names = f"{CGROUPS}/{controllers}", ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
    else:
        return []
    found = []
    for directory in upwards(mount, path):
        with suppress(OSError, ValueError):  # "max" or -1 for no quota, or not there
            words = b" ".join(procfs.read_short(os.path.join(directory, name)) for name in names).split()
            quota, period = map(int, words)
            if quota > 0 and period > 0:
                found.append(_Group(directory, quota / period))
    return found
