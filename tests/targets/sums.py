"""Computes numbers that only come out right when every step was done once, until its standard input is closed.

Prints `ready`; four threads work in Python, in libcrypto and asleep; then, for each, the steps done and the result.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time

_BLOCK = bytes(1 << 16)


def step(digest: bytes) -> bytes:
    """Do one step of the chain."""
    return hashlib.sha256(_BLOCK + digest + str(sum(range(200))).encode()).digest()


def chain(seed: int, steps: int) -> str:
    """Return the result that is right after so many steps."""
    digest = bytes([seed])
    for _ in range(steps):
        digest = step(digest)
    return digest.hex()


def main() -> None:
    ended = threading.Event()
    results: dict[int, tuple[int, str]] = {}

    def work(seed: int) -> None:
        digest, steps = bytes([seed]), 0
        while not ended.is_set():
            digest = step(digest)
            steps += 1
            if steps % 20 == 0:
                time.sleep(0.01)
        results[seed] = steps, digest.hex()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    print("ready", flush=True)
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    print(json.dumps([results[seed] for seed in range(4)]), flush=True)


if __name__ == "__main__":
    main()
