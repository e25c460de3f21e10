"""Changes between two functions and tells when: `alpha 12.345` or `beta 12.345`, monotonic seconds, a line each."""

import time


def alpha(until: float) -> None:
    while time.monotonic() < until:
        pass


def beta(until: float) -> None:
    while time.monotonic() < until:
        pass


print("ready", flush=True)
start = time.monotonic()
for turn in range(10_000):
    # Uneven lengths from 30 to 70 ms, so that an error of a whole turn cannot hide.
    until = time.monotonic() + 0.030 + turn * 7 % 11 * 0.004
    function = beta if turn % 2 else alpha
    print(function.__name__, time.monotonic(), flush=True)
    function(until)
    if time.monotonic() > start + 60:
        break
