"""Our end of the daemon's process: give it requests, hear what happened."""

from __future__ import annotations

import errno
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from gputop.errors import SnapshotError

_SCRIPT = Path(__file__).with_name("daemon.py")
_START_S = 5.0


class Event(NamedTuple):
    """Something the daemon saw.

    Attributes:
        kind: "asked" (a target polled), "sent" (it has its request), "refused" (another user's process asked),
            "unreachable" (it did not wait for its answer).
        pid: whose; as seen from here.
        unix: when.
        free: with "asked": its profiler is free; when not, it records for us or for the program itself.
    """

    kind: str
    pid: int
    unix: float
    free: bool = True


class DaemonProcess:
    """The daemon, running as the target's user; ends with `close`, or with us.

    Args:
        directory: where the target looks for the socket, by the name that it uses; empty for the abstract name.
        uid, gid: the target's user.
        root, network: the target's root directory and network namespace where they are not ours, else empty; to
            enter them takes root.

    Raises:
        SnapshotError: another daemon has the name, or it could not start.
    """

    def __init__(self, directory: str, uid: int, gid: int, root: str = "", network: str = "") -> None:
        self._buffered = b""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SCRIPT), directory, str(uid), str(gid), root, network],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._await_ready()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Return its process, so that its CPU time is counted as ours."""
        return self._process.pid

    def request(self, pid: int, config: str) -> None:
        """Have the next question of `pid` answered with `config`.

        Raises:
            SnapshotError: the daemon ended.
        """
        self._order(pid, config)

    def withdraw(self, pid: int) -> None:
        """Have the next question of `pid` not answered after all.

        Raises:
            SnapshotError: the daemon ended.
        """
        self._order(pid, None)

    def _order(self, pid: int, config: str | None) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"pid": pid, "config": config}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise SnapshotError("gputop's helper for torch traces ended", "try again") from error

    def events(self, timeout: float = 0.0) -> Iterator[Event]:
        """Yield what has happened since the last call; waits at most `timeout` seconds for the first.

        Raises:
            SnapshotError: the daemon ended.
        """
        for facts in self._lines(timeout):
            yield Event(facts["event"], facts.get("pid", 0), facts["unix"], facts.get("free", True))

    def close(self) -> None:
        """End it; its socket goes with it."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _lines(self, timeout: float) -> Iterator[dict[str, Any]]:
        assert self._process.stdout is not None
        while select.select([self._process.stdout], [], [], timeout)[0]:
            timeout = 0.0
            data = os.read(self._process.stdout.fileno(), 1 << 16)
            if not data:
                raise SnapshotError("gputop's helper for torch traces ended", "try again")
            *lines, self._buffered = (self._buffered + data).split(b"\n")
            yield from map(json.loads, lines)

    def _await_ready(self) -> None:
        for facts in self._lines(_START_S):
            if facts["event"] == "ready":
                return
            raise _not_started(facts)
        raise SnapshotError("gputop's helper for torch traces did not start", "try again")


def _not_started(facts: dict[str, Any]) -> SnapshotError:
    if facts.get("number") == errno.EADDRINUSE:
        return SnapshotError(
            "another program already answers this target's profiler (dynolog, or another gputop)",
            "take the trace with it (dyno gputrace), or end it; to let gputop do it start the target with: gputop -- …",
        )
    return SnapshotError(
        f"the target's profiler cannot be reached: {facts.get('why')}", "run gputop as the target's user"
    )
