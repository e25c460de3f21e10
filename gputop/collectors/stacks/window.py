"""One run of py-spy: started, listened to, ended early by SIGINT, and what it leaves behind collected."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gputop.collectors.stacks.command import ENVIRONMENT, record_arguments

#: From the return of exec to the moment that py-spy counts from (argument parsing), measured on two shared cores.
_START_UP = 0.0008
_CHUNK = 1 << 16
_READY, _WROTE = b"Sampling process", b"Wrote "
_COUNTS = re.compile(r"Samples: (\d{1,15}) Errors: (\d{1,15})")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a finished py-spy leaves behind.

    Attributes:
        pid: the process it looked at.
        rate: reads asked for each second.
        status: its exit code, or minus the signal that ended it.
        said: what it printed.
        trace: the file it wrote, empty when it wrote none.
        spawned, ready, ended: when it was started, was attached (None: never), and had written or ended.
        cpu_seconds: CPU time that it used.
        interrupted: whether it was told to end.
        cut_short: why it was killed by us, empty when it was not.
    """

    pid: int
    rate: int
    status: int
    said: str
    trace: bytes
    spawned: float
    ready: float | None
    ended: float
    cpu_seconds: float
    interrupted: bool = True
    cut_short: str = ""

    def counts(self) -> tuple[int, int]:
        """Return how many stacks of single threads were read, and how many reads of the process failed."""
        found = _COUNTS.search(self.said)
        return (int(found[1]), int(found[2])) if found else (0, 0)

    def origin(self, last: float) -> float:
        """Return the moment that py-spy's times count from; `last` is the last time in its trace.

        It begins to count right after it was started, and took the last time before it had written the file.
        """
        return min(self.spawned + _START_UP, self.ended - last)


class Window:
    """A running py-spy.

    It writes into an anonymous file in memory: no name that could be guessed or left behind, no disk that could be
    full. It is in a session of its own, out of Ctrl-C's reach, and the kernel kills it should we die.

    Attributes:
        rate: reads asked for each second.
        spawned, ready, interrupted: when it was started, had attached, was told to end; None: not yet.
        cut_short: why it was killed by us, empty when it was not.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, binary: Path, pid: int, rate: int, seconds: int, clock: Callable[[], float]) -> None:
        self.rate = rate
        self.ready: float | None = None
        self.interrupted: float | None = None
        self._pid = pid
        self._clock = clock
        self._said = b""
        self._wrote: float | None = None
        self.cut_short = ""
        with contextlib.ExitStack() as resources:
            self._trace = resources.enter_context(_anonymous_file())
            command = record_arguments(binary, pid, rate, seconds, f"/proc/self/fd/{self._trace.fileno()}")
            self._process = _spawn(command, self._trace.fileno(), resources)
            self.spawned = clock()
            self._resources = resources.pop_all()

    @property
    def pid(self) -> int:
        """Return py-spy's own process id."""
        return self._process.pid

    def fileno(self) -> int:
        """Return the descriptor to wait on until there is something to `listen` to."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def listen(self) -> bool:
        """Take in what py-spy printed, without blocking when there is something; False once it has ended."""
        chunk = os.read(self.fileno(), _CHUNK)
        self._said = (self._said + chunk)[-_CHUNK:]
        if self.ready is None and _READY in self._said:
            self.ready = self._clock()
        if self._wrote is None and _WROTE in self._said:
            self._wrote = self._clock()
        return bool(chunk)

    def interrupt(self) -> None:
        """Make it write what it has and end, at its next read."""
        self.interrupted = self._clock()
        os.kill(self.pid, signal.SIGINT)

    def kill(self, why: str) -> None:
        """End it at once, without results; harmless to the target, which it never stops."""
        self.cut_short = why
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def finish(self) -> Outcome:
        """Collect an ended or killed py-spy; to be called once, frees everything."""
        ended = self._wrote or self._clock()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # what has closed its output has nothing left to do
        with self._resources:
            _, status, usage = os.wait4(self.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(status)
            trace = os.pread(self._trace.fileno(), os.fstat(self._trace.fileno()).st_size, 0)
        return Outcome(
            pid=self._pid,
            rate=self.rate,
            status=self._process.returncode,
            said=self._said.decode("utf-8", "replace"),
            trace=trace,
            spawned=self.spawned,
            ready=self.ready,
            ended=ended,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            interrupted=self.interrupted is not None,
            cut_short=self.cut_short,
        )


def _anonymous_file() -> IO[bytes]:
    """Return a private file without a name; a Python built for an old C library has no memfd."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("gputop-stacks"), "rb", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _spawn(command: list[str], trace: int, resources: contextlib.ExitStack) -> subprocess.Popen[bytes]:
    leash, ours = os.pipe()
    resources.callback(os.close, ours)
    with open(leash, "rb", buffering=0):
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=ENVIRONMENT,
            cwd="/",
            pass_fds=(trace, leash),
            start_new_session=True,
        )
        assert process.stdout is not None
        resources.enter_context(process.stdout)
        _tie(leash, process.pid)
    return process


def _tie(leash: int, pid: int) -> None:
    """Have the kernel kill `pid` as soon as the leash's other end, ours, closes: also after a kill -9 of us.

    Signal-driven I/O (fcntl(2), `F_SETSIG`): the child holds the reading end, and the last writer's close signals
    its owner. PR_SET_PDEATHSIG would need code between fork and exec, which is unsafe with threads, and fires when
    the forking thread ends. Where a kernel lacks it, py-spy's own `--duration` bounds its life.
    """
    with contextlib.suppress(OSError):
        fcntl.fcntl(leash, fcntl.F_SETOWN, pid)
        fcntl.fcntl(leash, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(leash, fcntl.F_SETFL, fcntl.fcntl(leash, fcntl.F_GETFL) | os.O_ASYNC)
