"""What was sampled, by time, in bounded memory: one writer, any number of readers, any window past or present."""

from gputop.store.records import Cpu, Names, Peek, Segment, ThreadKey
from gputop.store.store import Store

__all__ = ["Cpu", "Names", "Peek", "Segment", "Store", "ThreadKey"]
