"""Two C functions called by `ctypes` from one line each, three parts of time to one: two_calls.py LIBRARY."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path

from common import Clock, asked_to_end, hot, tell


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    library.grind.argtypes = library.polish.argtypes = [ctypes.c_double]
    grind: Callable[[float], int] = library.grind
    polish: Callable[[float], int] = library.polish
    clock = Clock()
    print("ready", flush=True)
    while not asked_to_end():
        for _ in range(10):
            grind(0.006)  # hot grind
            polish(0.002)  # hot polish
    lines = {mark: hot(Path(__file__), mark) for mark in ("grind", "polish")}
    tell(clock, __file__, "grind", lines=lines)


if __name__ == "__main__":
    main()
