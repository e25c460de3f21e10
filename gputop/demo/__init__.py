"""A built-in image-classification job to look at; needs no GPU.

It tells a story in stages: each removes what the stage before was waiting for, and shows what comes next. What the
screen is expected to show is in each stage's docstring (`gputop.demo.stages`).
"""

from __future__ import annotations

import sys

#: The stages of the story, in order, and what each does.
STAGES = {
    "naive": "loads the model anew for every image",
    "cached": "loads the model once, decodes on one thread",
    "threads": "decodes on several threads, with one lock round the model",
}


def command(stage: str) -> tuple[str, ...]:
    """Return the command that runs a stage as a program of its own."""
    return (sys.executable, "-m", "gputop.demo", stage)
