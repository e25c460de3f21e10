"""Fixtures for every test: nothing may be left behind."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import psutil
import pytest

#: How long threads, children and descriptors of a finished test may take to go away, seconds.
SETTLE = 3.0
#: The kernel lists the children of each thread (CONFIG_PROC_CHILDREN).
_LISTED = bool(glob("/proc/self/task/*/children"))


def _threads() -> set[str]:
    return {f"thread {thread.name}" for thread in threading.enumerate() if not thread.name.startswith("pytest")}


def _children() -> set[str]:
    found = set()
    for pid in _below(os.getpid()) if _LISTED else [child.pid for child in psutil.Process().children(recursive=True)]:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            found.add(f"child {pid} {words[:80].strip()}")
        except OSError:
            continue  # it has ended meanwhile
    return found


def _below(parent: int) -> Iterator[int]:
    """Yield all below a process by the kernel's lists, which take a tenth of the time of a look at every process."""
    for listed in glob(f"/proc/{parent}/task/*/children"):
        try:
            pids = [int(pid) for pid in Path(listed).read_text().split()]
        except OSError:
            continue
        for pid in pids:
            yield pid
            yield from _below(pid)


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
