"""Fixtures for every test: nothing may be left behind."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

#: How long threads, children and descriptors of a finished test may take to go away, seconds.
SETTLE = 3.0


def _threads() -> set[str]:
    return {f"thread {thread.name}" for thread in threading.enumerate() if not thread.name.startswith("pytest")}


def _children() -> set[str]:
    found = set()
    for child in psutil.Process().children(recursive=True):
        try:
            found.add(f"child {child.pid} {' '.join(child.cmdline())[:80]}")
        except psutil.NoSuchProcess:
            continue
    return found


def _descriptors() -> set[str]:
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(f"descriptor {number} {os.readlink(f'/proc/self/fd/{number}')}")
        except OSError:
            continue  # the descriptor of the listing itself
    return found


def _alive() -> set[str]:
    return _threads() | _children() | _descriptors()


@pytest.fixture(autouse=True)
def nothing_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a thread, a child process or an open file behind.

    Higher-scoped fixtures a test pulls in first (a compiled stand-in, a shared target) are there before we count.
    """
    before = _alive()
    yield
    deadline = time.monotonic() + SETTLE
    while (left := _alive() - before) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.02)
    assert not left, f"left behind by {request.node.name}: {sorted(left)}"


@pytest.fixture(autouse=True)
def private_directories(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the developer's own settings and state out of the tests."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    for name in [name for name in os.environ if name.startswith("GPUTOP_")]:
        monkeypatch.delenv(name)
