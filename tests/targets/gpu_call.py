"""One call into the stand-in for the CUDA driver, over and over: gpu_call.py LIBRARY FUNCTION [MILLISECONDS]."""

from __future__ import annotations

import sys

from common import Clock, driver, microseconds, run


def main() -> None:
    name = sys.argv[2]
    call = driver(sys.argv[1])[name]
    duration = microseconds(float(sys.argv[3] if len(sys.argv) > 3 else 5) / 1000)

    def step(clock: Clock) -> None:
        with clock.timed(name):
            call(duration)  # hot

    run(step, __file__)


if __name__ == "__main__":
    main()
