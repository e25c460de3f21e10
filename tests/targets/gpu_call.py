"""One call into the stand-in for the CUDA driver, over and over: gpu_call.py LIBRARY FUNCTION [MILLISECONDS]."""

from __future__ import annotations

import sys

from common import Clock, gpu, run


def main() -> None:
    call = gpu(sys.argv[1])
    name, seconds = sys.argv[2], float(sys.argv[3] if len(sys.argv) > 3 else 5) / 1000

    def step(clock: Clock) -> None:
        with clock.timed(name):
            call(name, seconds)  # hot

    run(step, __file__)


if __name__ == "__main__":
    main()
