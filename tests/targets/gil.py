"""Threads that all want to run Python at once: gil.py [THREADS]. What is not CPU time is waiting for the GIL."""

from __future__ import annotations

import sys
import threading
import time

from common import Clock, asked_to_end, tell

ended = threading.Event()


def compute(shares: dict[int, float]) -> None:
    start, cpu = time.monotonic(), time.thread_time()
    while not ended.is_set():
        total = 0
        for number in range(20_000):
            total = (total * 31 + number) & 0xFFFF  # hot
    shares[threading.get_native_id()] = (time.thread_time() - cpu) / (time.monotonic() - start)


def main() -> None:
    shares: dict[int, float] = {}
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    threads = [threading.Thread(target=compute, args=(shares,), name=f"worker-{i}") for i in range(count)]
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
    split = {str(tid): {"python": round(cpu, 4), "gil": round(1 - cpu, 4)} for tid, cpu in shares.items()}
    tell(clock, __file__, threads=split)


if __name__ == "__main__":
    main()
