"""How much of a thread's time each function had, where Python stacks alone would be wrong about it.

py-spy reads stacks while the program runs. The reading of a deep stack takes longer, and fails more often: what
recurses gets too little time, and what comes before and after it gets that. Looks read a thread's frame while the
thread stands still, at any depth alike. They are fewer, so they correct the time of a function only by what is more
than their own scatter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import sqrt

from gputop.analysis.tally import Tally

#: Fewer looks say too little.
_LEAST_LOOKS = 60
#: A function's time is raised to no more than so many times what stacks say.
_MOST = 8.0

#: A function by its name and file.
Function = tuple[str, str]


def seconds(tally: Tally) -> Mapping[int, float]:
    """Return the seconds of all stacks, by the tally's keys; nothing where they are right as they are."""
    factors = _factors(tally)
    if not factors:
        return {}
    found = {
        key: entry.seconds * factors.get(entry.stack[-1][:2] if entry.stack else ("", ""), 1.0)
        for key, entry in tally.stacks.items()
    }
    part = sum(entry.seconds for entry in tally.stacks.values()) / sum(found.values())
    return {key: part * time for key, time in found.items()}


def _factors(tally: Tally) -> Mapping[Function, float]:
    """Return by what to multiply the time of stacks, by the function that they end in; 1 where that is missing."""
    if tally.looks < _LEAST_LOOKS or not tally.lines:
        return {}
    told, own = _compared(tally)
    whole, found = sum(told.values()), sum(own.values())
    if not whole or not found:
        return {}
    own = {function: time * whole / found for function, time in own.items()}
    gains = {function: _gain(told[function], own[function], whole, tally.looks) for function in told if told[function]}
    losses = {function: max(0.0, told[function] - own[function]) for function in told}
    part = min(sum(gains.values()) / (sum(losses.values()) or 1.0), 1.0)
    moved = {function: gains.get(function, 0.0) - part * losses[function] for function in told}
    return {function: 1 + time / told[function] for function, time in moved.items() if time and told[function]}


def _compared(tally: Tally) -> tuple[dict[Function, float], dict[Function, float]]:
    """Return each function's seconds by the stacks, and by the looks' own frames."""
    told: dict[Function, float] = defaultdict(float)
    own: dict[Function, float] = defaultdict(float)
    for entry in tally.stacks.values():
        if entry.stack:
            function = entry.stack[-1][:2]
            told[function] += entry.seconds
            own[function] += sum(entry.seen.values())
    for frame, beside in tally.lines.items():
        if frame[:2] in told:
            own[frame[:2]] += sum(beside.values())
    return told, own


def _gain(told: float, own: float, whole: float, looks: int) -> float:
    """Return the seconds that a function lacks, less a standard deviation of what looks can tell."""
    share = min(own / whole, 1.0)
    lacking = own - told - whole * sqrt(share * (1 - share) / looks)
    return min(max(lacking, 0.0), (_MOST - 1) * told)
