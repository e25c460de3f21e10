"""The target's share of the CPUs over a window: what it used, what others did, what bounds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gputop.analysis.facts import CpuFacts, mean
from gputop.model import HostBatch, known


def facts(hosts: Sequence[HostBatch]) -> CpuFacts | None:
    """Return who had the CPUs; None when no reading tells, or not what the target used."""
    read = [host for host in hosts if host.cores]
    if not read:
        return None
    limits = read[-1].limits
    machine = len(read[-1].cores)
    allowed = numbers(limits.allowed, machine) if limits else list(range(machine))
    mine = known(mean(host.target_cpu for host in read))
    if mine is None:
        return None
    used = sum(_at(host.cores, allowed) for host in read) / len(read)
    everywhere = sum(sum(host.cores) for host in read) / len(read)
    elsewhere = machine - len(allowed) - (everywhere - used)
    bare = CpuFacts(machine, len(allowed), mine, max(0.0, used - mine), max(0.0, elsewhere))
    if limits is None:
        return bare
    return replace(bare, quota=limits.quota, throttled=mean(host.limits.throttled for host in read if host.limits))


def numbers(listed: str, machine: int) -> list[int]:
    """Return the core numbers of a list as the kernel writes it ("0-3,8"); all cores when it is empty or no list."""
    found: set[int] = set()
    for part in listed.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            return list(range(machine))
        found.update(range(int(first), min(int(last or first), machine - 1) + 1))
    return sorted(core for core in found if core < machine)


def _at(shares: Sequence[float], cores: Sequence[int]) -> float:
    return sum(shares[core] for core in cores if core < len(shares))
