"""Two windows side by side: what changed, by how much, and whether that is more than chance.

Shares are compared, not speeds: how many steps a second a program makes is not known here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from os.path import basename
from statistics import fmean, stdev

from gputop.analysis.findings import percent
from gputop.analysis.results import FunctionRow, States, Summary
from gputop.analysis.states import STATES
from gputop.model import NA, Value

#: Functions below this share in both windows are not listed.
_LEAST = 0.005
#: Changes smaller than this are not worth a sentence, whatever statistics say.
_WORTH = 0.03
#: Smaller ones are none.
_SEEN = 0.005
#: Fewer steps of the timeline than this tell nothing about how much a share varies.
_FEWEST = 8


@dataclass(frozen=True, slots=True)
class Change:
    """A share before and after.

    Attributes:
        name: a state's id, or a function.
        file, line: where a function is, as the later window has it; empty for states.
        before, after: shares; None where it was not seen.
        noise: the difference that chance alone would make in one of twenty cases, from how much the share varies along
            the window (batch means over the timeline's steps); None where that is not known.
        states: what a function's time goes into, in the window that has more of it.
    """

    name: str
    before: float | None
    after: float | None
    file: str = ""
    line: int = 0
    noise: float | None = None
    states: States | None = None

    @property
    def place(self) -> str:
        """Return where a function is, in one word; a native one is in its module, on no line."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def points(self) -> float:
        """Return the difference, as a share (0.01 is one point)."""
        return (self.after or 0.0) - (self.before or 0.0)

    @property
    def clear(self) -> bool:
        """Return whether the difference is more than chance makes, as far as that is known."""
        return self.noise is None or abs(self.points) > self.noise

    @property
    def remark(self) -> str:
        """Return what to know about a difference that can be seen but may be chance; empty for others."""
        return "" if self.clear or abs(self.points) < _SEEN else "within chance"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed from one window to another.

    Attributes:
        gpu: how busy the target's GPUs were; None where either window does not know.
        states: of the headline's thread, what changed most first.
        functions: by self time, what changed most first.
        answer: one sentence.
        better: the GPU does more (True) or less (False); None where it cannot be told or is as before.
    """

    before: Summary
    after: Summary
    gpu: Change | None
    states: tuple[Change, ...]
    functions: tuple[Change, ...]
    answer: str
    better: bool | None


def compare(before: Summary, after: Summary) -> Comparison:
    """Compare two windows of one program, or of two runs of it."""
    gpu, states, functions = _gpu(before, after), _states(before, after), _functions(before.functions, after.functions)
    moved = gpu is not None and gpu.clear and abs(gpu.points) >= _WORTH
    better = gpu.points > 0 if gpu is not None and moved else None
    answer = [*_of_thread(before, after, states), *_of_functions(functions)]
    if gpu is not None:
        answer.insert(0, _of_gpu(gpu, better))
    elif before.gpus or after.gpus:
        answer.append("how busy the GPU was is not known for both")
    return Comparison(before, after, gpu, states, functions, "; ".join(answer) or "nothing to compare", better)


# ------------------------------------------------------------------------------------------- what is compared


def _gpu(before: Summary, after: Summary) -> Change | None:
    """Return how busy the target's GPUs were."""
    one, other = _busy(before), _busy(after)
    if not one or not other:
        return None
    return Change("GPU busy", fmean(one), fmean(other), noise=_noise(one, other))


def _busy(summary: Summary) -> list[float]:
    """Return the mean use of the target's GPUs (of all where it is not known to use any) for each step."""
    series = summary.timeline.gpus
    if len(series) == len(summary.gpus):
        own = [curve for curve, gpu in zip(series, summary.gpus, strict=True) if gpu.target.present]
        series = tuple(own) or series
    steps = [_known(values) for values in zip(*(curve.values for curve in series), strict=True)]
    return [fmean(values) for values in steps if values]


def _known(values: Iterable[Value]) -> list[float]:
    return [value for value in values if not isinstance(value, NA)]


def _states(before: Summary, after: Summary) -> tuple[Change, ...]:
    one, other = (summary.headline.states if summary.headline else {} for summary in (before, after))
    changes = [
        Change(state.id, one.get(state.id, 0.0), other.get(state.id, 0.0), noise=_state_noise(before, after, state.id))
        for state in STATES
        if state.id in one or state.id in other
    ]
    return _by_size(changes)


def _state_noise(before: Summary, after: Summary, state: str) -> float | None:
    one, other = (
        [column.states.get(state, 0.0) for column in summary.timeline.columns if column.states]
        for summary in (before, after)
    )
    return _noise(one, other)


def _noise(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Return twice the standard error of the difference of two means, by the method of batch means."""
    if min(len(before), len(after)) < _FEWEST:
        return None
    return 2 * sqrt(sum(stdev(values) ** 2 / len(values) for values in (before, after)))


def _functions(before: Sequence[FunctionRow], after: Sequence[FunctionRow]) -> tuple[Change, ...]:
    changes = [_change(one, other) for one, other in _paired(before, after)]
    listed = [change for change in changes if max(change.before or 0.0, change.after or 0.0) >= _LEAST]
    return _by_size(listed)


def _by_size(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return changes, largest first; equal ones as they came."""
    return tuple(sorted(changes, key=lambda change: -round(abs(change.points), 6)))


def _change(before: FunctionRow | None, after: FunctionRow | None) -> Change:
    row = after or before
    assert row is not None, "a pair has at least one row"
    larger = max((item for item in (before, after) if item), key=lambda item: item.self_share)
    shares = [item.self_share if item else None for item in (before, after)]
    return Change(row.name, shares[0], shares[1], row.file, row.line, states=larger.states)


def _paired(
    before: Sequence[FunctionRow], after: Sequence[FunctionRow]
) -> list[tuple[FunctionRow | None, FunctionRow | None]]:
    """Return the same functions side by side: by name and file; another checkout's by name and file name."""
    left = {(row.name, row.file): row for row in before}
    pairs: list[tuple[FunctionRow | None, FunctionRow | None]] = []
    rest: list[FunctionRow] = []
    for row in after:
        same = left.pop((row.name, row.file), None)
        if same is None:
            rest.append(row)
        else:
            pairs.append((same, row))
    elsewhere: dict[tuple[str, str], list[FunctionRow]] = defaultdict(list)
    for row in left.values():
        elsewhere[row.name, basename(row.file)].append(row)
    for row in rest:
        found = elsewhere.get((row.name, basename(row.file)), [])
        pairs.append((found.pop() if len(found) == 1 else None, row))
    return [*pairs, *((row, None) for rows in elsewhere.values() for row in rows)]


# --------------------------------------------------------------------------------------------------- in words


def _of_gpu(gpu: Change, better: bool | None) -> str:
    shares = f"{percent(gpu.before or 0.0)} → {percent(gpu.after or 0.0)}"
    if better is None:
        chance = f", {gpu.remark}" if gpu.remark else ""
        return f"the GPU is as busy as before{chance} ({shares})"
    return f"the GPU is {'busier' if better else 'less busy'}: {shares}"


def _of_thread(before: Summary, after: Summary, states: Sequence[Change]) -> list[str]:
    """Say what the headline's thread does more or less of."""
    if before.headline is None or after.headline is None:
        return []
    moved = next((change for change in states if change.clear and abs(change.points) >= _WORTH), None)
    if moved is None:
        return [f"{after.headline.name} does the same as before"]
    label = next(state.label for state in STATES if state.id == moved.name)
    return [f"{after.headline.name} {label} {percent(moved.before or 0.0)} → {percent(moved.after or 0.0)}"]


def _of_functions(functions: Sequence[Change]) -> list[str]:
    """Name the function that changed most."""
    if not functions or abs(functions[0].points) < _WORTH:
        return []
    most = functions[0]
    return [f"{most.name} {percent(most.before or 0.0)} → {percent(most.after or 0.0)}"]
