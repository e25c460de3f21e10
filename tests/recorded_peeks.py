"""The peeks recorded on an H200 (`tests/data/peeks`, made by the first prototype) as observations."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from gputop.model import NativeFrame, Observation

PEEKS = Path(__file__).parent / "data" / "peeks"

#: x86-64 numbers of the calls that occur.
_CALLS = {202: "futex", 230: "clock_nanosleep", 7: "poll", 1: "write"}


def main_thread(job: str) -> tuple[dict[str, float], list[Observation]]:
    """Return the shares that the job timed inside itself, and the looks at its main thread."""
    with gzip.open(PEEKS / f"{job}.json.gz", "rt") as file:
        recorded: dict[str, Any] = json.load(file)
    chains = [tuple(NativeFrame(module, symbol or "") for module, symbol in frames) for frames in recorded["frames"]]
    looks = [
        _look(call, word, recorded["python_rw"], chains[chain] if chain is not None else ())
        for _, tid, _, call, word, chain in recorded["samples"]
        if tid == recorded["main"]
    ]
    truth: dict[str, float] = json.loads(recorded["truth"])["shares"]
    return truth, looks


def _look(call: str | int, word: int | None, interpreter: list[str], chain: tuple[NativeFrame, ...]) -> Observation:
    running = call == "run"
    waits_on = "gil" if word is not None and any(_holds(line, word) for line in interpreter) else ""
    return Observation(running, "" if running else _CALLS[int(call)], waits_on, chain, complete=False)


def _holds(line: str, address: int) -> bool:
    start, end = (int(bound, 16) for bound in line.split()[0].split("-"))
    return start <= address < end
