"""Exact native call chains of any process's threads, sampled from outside.

`PeekCollector` runs a worker process (`worker`), which looks at each thread through /proc (`task`, `process`), stops
the running ones for a moment (`ptrace`), and unwinds (`unwind`, `cfi`) by the modules' own tables (`space`,
`modules`, `elf`, `symbols`).
"""

from gputop.collectors.native.client import PeekCollector

__all__ = ["PeekCollector"]
