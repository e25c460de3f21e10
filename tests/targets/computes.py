"""Programs that compute all the time: computes.py busy|hash|recursion|json."""

from __future__ import annotations

import hashlib
import json
import sys

from common import Clock, run

BLOCK = bytes(1 << 20)
DOCUMENT = {"rows": [{"name": f"row {number}", "value": number / 7, "tags": ["a", "b"]} for number in range(400)]}


def busy(clock: Clock) -> None:
    with clock.timed("python"):
        total = 0
        for number in range(200_000):
            total = (total * 31 + number) & 0xFFFF  # hot busy


def hash_blocks(clock: Clock) -> None:
    with clock.timed("native"):
        for _ in range(20):
            hashlib.sha256(BLOCK).digest()  # hot hash


def climb(depth: int) -> int:
    return depth if depth == 0 else climb(depth - 1) + 1  # hot recursion


def recursion(clock: Clock) -> None:
    with clock.timed("python"):
        for _ in range(300):
            climb(300)


def through_json(clock: Clock) -> None:
    with clock.timed("compute"):
        for _ in range(20):
            json.loads(json.dumps(DOCUMENT))


PROGRAMS = {"busy": busy, "hash": hash_blocks, "recursion": recursion, "json": through_json}

if __name__ == "__main__":
    run(PROGRAMS[sys.argv[1]], __file__, sys.argv[1])
