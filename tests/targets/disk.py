"""Writes that wait for the disk: disk.py FOLDER. The thread's CPU time is the kernel's own work, the rest waiting."""

from __future__ import annotations

import os
import sys
import time

from common import Clock, run, starved_s

BLOCK = os.urandom(1 << 20)


def main() -> None:
    path = os.path.join(sys.argv[1], "written")
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)

    def step(clock: Clock) -> None:
        start, cpu, starved = time.monotonic(), time.thread_time(), starved_s()
        os.pwrite(file, BLOCK, 0)
        os.fsync(file)  # hot
        worked, starved = time.thread_time() - cpu, starved_s() - starved
        clock.add("native", worked)
        clock.add("io", time.monotonic() - start - worked, starved)

    try:
        run(step, __file__)
    finally:
        os.unlink(path)


if __name__ == "__main__":
    main()
