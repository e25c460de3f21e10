"""Threads that all want to run Python at once: gil.py [THREADS].

What is neither CPU time nor waiting for a CPU is waiting for the GIL; the truth has each thread's split by native id.
"""

from __future__ import annotations

import sys
import threading
import time

from common import Clock, asked_to_end, starved_s, tell

ended = threading.Event()


def compute(splits: dict[str, dict[str, float]]) -> None:
    start, cpu, starved = time.monotonic(), time.thread_time(), starved_s()
    while not ended.is_set():
        total = 0
        for number in range(20_000):
            total = (total * 31 + number) & 0xFFFF  # hot
    wall = time.monotonic() - start
    cpu, starved = (time.thread_time() - cpu) / wall, (starved_s() - starved) / wall
    splits[str(threading.get_native_id())] = {"python": cpu, "starved": starved, "gil": 1 - cpu - starved}


def main() -> None:
    splits: dict[str, dict[str, float]] = {}
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    threads = [threading.Thread(target=compute, args=(splits,), name=f"worker-{i}") for i in range(count)]
    for thread in threads:
        thread.start()
    clock = Clock()
    print("ready", flush=True)
    with clock.timed("idle"):
        while not asked_to_end():
            time.sleep(0.2)
    ended.set()
    for thread in threads:
        thread.join()
    tell(clock, __file__, threads=splits)


if __name__ == "__main__":
    main()
