"""Time that stacks which could not be read have lost is given back where looks find it, and nowhere else."""

from __future__ import annotations

import random

import pytest

from gputop.analysis.split import thread_states
from gputop.model import Window
from gputop.store import ThreadKey
from tests.unit.analysis_tools import DECODE, MAIN, PID, PYTHON, STEP, looks, stacks, stored

KEY = ThreadKey(PID, PID)
_LENGTH = 0.02


def _step(inside: list[bool], read: list[bool]) -> float:
    """Return the share of STEP, where looks see `inside` and stacks show `read`, look by look."""
    count = len(inside)
    rows = [(_LENGTH * (number + 1), PYTHON, STEP if yes else DECODE) for number, yes in enumerate(inside)]
    stood = [
        (_LENGTH * number, _LENGTH * (number + 1), (MAIN, STEP if yes else DECODE)) for number, yes in enumerate(read)
    ]
    whole = count * _LENGTH
    split = thread_states(stored(looks(PID, rows), stacks(PID, stood)), KEY, Window(0, whole))
    shares = {stack[-1]: sum(time.values()) / whole for stack, time in split.stacks}
    assert sum(shares.values()) == pytest.approx(1.0)
    return shares[STEP]


def _drawn(share: float, count: int, seed: int) -> list[bool]:
    chance = random.Random(seed)
    return [chance.random() < share for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_a_function_whose_stacks_fail_gets_its_time_back(seed: int) -> None:
    inside = _drawn(0.4, 400, seed)
    read = [yes and got for yes, got in zip(inside, _drawn(0.6, 400, seed + 100), strict=True)]
    seen, told = sum(inside) / 400, sum(read) / 400
    assert told < seen - 0.1
    # all but a standard deviation of what 400 looks can tell
    assert _step(inside, read) == pytest.approx(seen - 0.0245, abs=0.001)


def test_few_looks_change_nothing() -> None:
    inside = _drawn(0.6, 50, 1)
    read = [yes and got for yes, got in zip(inside, _drawn(0.3, 50, 2), strict=True)]
    assert _step(inside, read) == pytest.approx(sum(read) / 50)


@pytest.mark.parametrize("seed", range(5))
def test_the_scatter_of_looks_moves_little(seed: int) -> None:
    """Two streams that see the same share at different moments: the result is between them, near the stacks."""
    inside = _drawn(0.3, 250, seed)
    read = [number % 10 < 3 for number in range(250)]
    scatter = abs(sum(inside) / 250 - 0.3)
    assert abs(_step(inside, read) - 0.3) <= max(0.0, scatter - 0.0289) + 0.001


def test_a_seldom_function_that_few_looks_meet_at_its_time_is_not_multiplied() -> None:
    """No look falls on the 6 % that stacks give to it; of the other looks 8 % find it."""
    rows = [
        (_LENGTH * (number + 1), PYTHON, STEP if number % 50 < 4 else DECODE)
        for number in range(500)
        if number % 50 < 47
    ]
    stood = [
        part
        for second in range(10)
        for part in ((second, second + 0.94, (MAIN, DECODE)), (second + 0.94, second + 1, (MAIN, STEP)))
    ]
    split = thread_states(stored(looks(PID, rows), stacks(PID, stood)), KEY, Window(0, 10))
    shares = {stack[-1]: sum(time.values()) / 10 for stack, time in split.stacks}
    assert shares[STEP] == pytest.approx(0.07, abs=0.015)
