"""States in known shares, one after the other: mix.py LIBRARY PERIOD_MS STATE=SHARE…

States: python, native, gpu_wait, gpu_api, queue_full, copy_to_host, idle. A period holds each of them once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from common import Clock, compute_native, compute_python, driver, microseconds, run


def main() -> None:
    library = driver(sys.argv[1])
    period = float(sys.argv[2]) / 1000
    shares = {state: float(share) for state, share in (word.split("=") for word in sys.argv[3:])}
    actions: dict[str, Callable[[float], object]] = {
        "python": compute_python,
        "native": compute_native,
        "gpu_wait": lambda seconds: library.cuStreamSynchronize(microseconds(seconds)),
        "gpu_api": lambda seconds: library.cuLaunchKernel(microseconds(seconds)),
        "queue_full": lambda seconds: library.cuLaunchKernelEx(microseconds(seconds)),
        "copy_to_host": lambda seconds: library.cuMemcpyDtoHAsync_v2(microseconds(seconds)),
        "idle": time.sleep,
    }

    def step(clock: Clock) -> None:
        for state, share in shares.items():
            with clock.timed(state):
                actions[state](share * period)

    run(step, __file__)


if __name__ == "__main__":
    main()
