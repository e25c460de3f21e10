"""Works with torch and marks moments that can be found again.

Each line printed is the name of a `record_function`, its start and its end on the monotonic clock. Ends when standard
input does.
"""

from __future__ import annotations

import select
import sys
import time

import torch
from torch.profiler import record_function


def marked(number: int) -> None:
    name = f"mark {number}"
    start = time.monotonic()
    with record_function(name):
        time.sleep(0.005)
    end = time.monotonic()
    print(name, start, end, sep="\t", flush=True)


def main() -> None:
    matrix = torch.ones(64, 64)
    print("ready", flush=True)
    number = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(10):
            matrix @ matrix
        marked(number)
        number += 1
    print("end", flush=True)


if __name__ == "__main__":
    main()
