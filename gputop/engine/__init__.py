"""The composition root: owns the threads, the overhead governor and the hand-over to whoever shows the result."""

from gputop.engine.engine import Engine, new_camera
from gputop.engine.replay import Replay

__all__ = ["Engine", "Replay", "new_camera"]
