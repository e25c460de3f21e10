"""The machine's memory, for GPUs that have none of their own."""

from __future__ import annotations

from pathlib import Path

from gputop.model import NA, Value


def machine_memory(meminfo: Path = Path("/proc/meminfo")) -> tuple[Value, Value]:
    """Return used and total bytes; used is what is not available to new programs (`MemAvailable` of proc(5))."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
        kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        total, available = kib["MemTotal"] * 1024, kib["MemAvailable"] * 1024
    except (OSError, KeyError, ValueError, IndexError):
        missing = NA("/proc/meminfo cannot be read")
        return missing, missing
    return float(total - available), float(total)
