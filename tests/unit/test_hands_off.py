"""While a debugger works on the target, nothing of ours traces it: the kernel allows one tracer."""

from __future__ import annotations

import os
import time
from contextlib import suppress

import pytest

from gputop.engine import hands_off
from gputop.engine.hands_off import Sharing
from gputop.model import ProcessInfo

ME = ProcessInfo(os.getpid(), 1, time.time(), ("python",), python="3.12")


class Follower:
    """A collector that only remembers what it was told; `helpers` live until the test ends them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.told: list[tuple[ProcessInfo, ...]] = []
        self.helpers: tuple[int, ...] = ()

    def follow(self, processes: tuple[ProcessInfo, ...]) -> None:
        self.told.append(processes)

    def own_pids(self) -> tuple[int, ...]:
        return self.helpers


@pytest.fixture
def followers() -> dict[str, Follower]:
    return {name: Follower(name) for name in ("stacks", "peek", "host")}


def test_tracers_follow_nothing_meanwhile_and_the_newest_afterwards(followers: dict[str, Follower]) -> None:
    sharing = Sharing(tuple(followers.values()))  # type: ignore[arg-type]
    sharing.follow((ME,))
    with sharing.hands_off():
        assert [one.told[-1] for one in followers.values()] == [(), (), (ME,)]
        sharing.follow((ME, ME))
        assert [one.told[-1] for one in followers.values()] == [(), (), (ME, ME)]
    assert [one.told[-1] for one in followers.values()] == [(ME, ME)] * 3
    with suppress(ZeroDivisionError), sharing.hands_off():
        raise ZeroDivisionError
    assert [one.told[-1] for one in followers.values()] == [(ME, ME)] * 3, "whatever happened"


def test_helpers_are_waited_for_but_not_for_ever(
    followers: dict[str, Follower], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hands_off, "_PATIENCE_S", 0.3)
    sharing = Sharing(tuple(followers.values()))  # type: ignore[arg-type]
    sharing.follow((ME,))
    followers["stacks"].helpers = (1,)
    start = time.monotonic()
    with sharing.hands_off():
        assert time.monotonic() - start >= 0.3
    followers["stacks"].helpers = ()
    start = time.monotonic()
    with sharing.hands_off():
        assert time.monotonic() - start < 0.2
