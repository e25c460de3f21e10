"""`python -m gputop.demo STAGE`: runs the job until it is interrupted."""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import signal
import sys
import threading
import time

from gputop.demo import STAGES
from gputop.demo.pictures import make_pictures
from gputop.demo.stages import BY_NAME, Answers, Load

_PICTURES = 8


def main() -> None:
    """Run a stage; Ctrl-C and SIGTERM end it, the end of whoever started it does not."""
    flags = _parser().parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    load_model, what = _plain_model() if flags.no_torch or not importlib.util.find_spec("torch") else _torch_model()
    answers = BY_NAME[flags.stage](make_pictures(_PICTURES), load_model)
    say(f"{flags.stage}: {STAGES[flags.stage]} ({what})")
    count = count_answers(flags.stage, answers, flags.seconds, stop)
    say(f"{flags.stage}: {count} images in all")


def count_answers(stage: str, answers: Answers, seconds: float, stop: threading.Event) -> int:
    """Take answers for so long or until `stop`, tell once a second how fast they come, and return how many came."""
    count, told, told_at = 0, 0, time.monotonic()
    end = told_at + seconds
    for count, _ in enumerate(answers, 1):
        now = time.monotonic()
        if now - told_at >= 1:
            say(f"{stage}: {(count - told) / (now - told_at):6.1f} images/s")
            told, told_at = count, now
        if now >= end or stop.is_set():
            break
    answers.close()
    return count


def say(line: str) -> None:
    """Print a line; the job goes on when nobody takes its output any more."""
    try:
        print(line, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plain_model() -> tuple[Load, str]:
    from gputop.demo.model import load_model

    return load_model, "plain Python"


def _torch_model() -> tuple[Load, str]:
    from gputop.demo.torch_model import DEVICE, load_model

    return load_model, f"torch on {DEVICE}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gputop demo", description=__doc__)
    parser.add_argument("stage", nargs="?", default="naive", choices=STAGES, help="which part of the story")
    parser.add_argument("--seconds", type=float, default=math.inf, help="how long to run (default: for ever)")
    parser.add_argument("--no-torch", action="store_true", help="use the model in plain Python")
    return parser


if __name__ == "__main__":
    main()
