"""The composition root: owns the threads, the overhead governor and the hand-over to whoever shows the result."""

from gputop.engine.engine import Engine, new_camera

__all__ = ["Engine", "new_camera"]
