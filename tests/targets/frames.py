"""Python frames of many kinds in two threads, one short piece after the other, until it is killed."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any


def generated(count: int) -> Iterator[int]:
    for number in range(count):
        yield number * number


EMPTY: dict[int, int] = {}


class Räum:
    """A name that is not ASCII."""

    def __init__(self) -> None:
        self.values = [number for number in range(300) if number >= 0]

    @property
    def total(self) -> int:
        return sum(value for value in self.values if value % 3)

    def deep(self, number: int) -> int:
        @functools.lru_cache(maxsize=2)
        def inner(depth: int) -> int:
            return depth and inner(depth - 1)

        return inner(60) + number


async def step(number: int) -> int:
    await asyncio.sleep(0)
    return sum(range(number))


async def steps() -> None:
    await asyncio.gather(*(step(number) for number in range(20)))


def raising(count: int) -> int:
    caught = 0
    for number in range(count):
        try:
            EMPTY[number]
        except KeyError as error:
            caught += len(
                str(error),
            )
        finally:
            caught += 1
    return caught


def compiled(round_: int) -> None:
    """A code object that is new each time, and freed again."""
    names: dict[str, Any] = {}
    source = f"def fresh_{round_}(n):\n" + "\n" * (round_ % 7) + "    while n: n -= 1\n"
    exec(compile(source, f"<made {round_ % 5}>", "exec"), names)
    names[f"fresh_{round_}"](2000)


def once(round_: int) -> None:
    room = Räum()
    sum(generated(300))
    room.total + room.deep(round_)
    sorted(
        range(300),
        key=lambda number: -number,
        reverse=bool(
            round_ % 2,
        ),
    )
    raising(100)
    json.loads(json.dumps({str(number): [number] * 3 for number in range(100)}))
    re.sub(r"\d+", lambda match: match.group() * 2, "1 22 333 " * 50)
    compiled(round_)


def work(with_loop: bool) -> None:
    for round_ in range(10**9):
        once(round_)
        if with_loop and not round_ % 5:
            asyncio.run(steps())


if __name__ == "__main__":
    sys.setswitchinterval(1e-4)
    threading.Thread(target=work, args=(False,), daemon=True).start()
    print("ready", flush=True)
    work(True)
