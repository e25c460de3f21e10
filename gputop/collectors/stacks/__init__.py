"""Python stacks of other processes, read by py-spy from outside in back-to-back windows."""

from __future__ import annotations

from gputop.collectors.stacks.collector import StackCollector

__all__ = ["StackCollector"]
