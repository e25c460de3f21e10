"""The machine's load and memory, and the CPU use of the target's processes and threads."""

from gputop.collectors.host.collector import HostCollector

__all__ = ["HostCollector"]
