"""Start the user's program so that it runs as it would without gputop, and can be watched.

It gets a session of its own, so that Ctrl-C and a closed terminal reach gputop only, which passes on what it should.
Nothing ties its life to gputop's: killed with -9, gputop leaves it running, its output going on into the file.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gputop import procfs
from gputop.errors import FAILED, SIGNALLED, CommandNotStartedError, GputopError, NoProcessError
from gputop.model import ProcessInfo
from gputop.target import logfile, shim
from gputop.target.command import find_program, not_executable, not_found
from gputop.target.describe import describe
from gputop.target.naming import short_name
from gputop.text import printable

#: Set for the program unless the user set it, to whatever value. Python collects what it prints into blocks of 8 kB
#: when it does not print to a terminal: the output panel would be empty for minutes, and a kill would lose the rest.
#: A pseudo-terminal would cure that too, but stops the program when nobody reads it, and ends with gputop.
DEFAULTS = {"PYTHONUNBUFFERED": "1"}

#: Signals that a terminal sends to all processes of the foreground job; others go to the one process addressed.
_FROM_TERMINAL = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP, signal.SIGWINCH})

_STATUS_FD = 3
_STEP_S = 0.02


class Launched:
    """A program started by gputop.

    An ended program stays in the process table until `wait` or `close`, so that its number cannot become another's
    while signals may still be sent. All methods may be called from any thread.

    Attributes:
        pid: its process, the leader of a session and process group of its own.
        command: argument vector.
        output: file that its standard output and standard error go to.
    """

    def __init__(self, pid: int, command: tuple[str, ...], output: Path) -> None:
        self.pid = pid
        self.command = command
        self.output = output
        self._code: int | None = None
        self._ended_by: int | None = None
        self._collected = False
        self._lock = threading.RLock()  # a signal handler may forward while this thread polls

    def describe(self) -> ProcessInfo:
        """Return what the program is; of one that has ended already, what was asked for."""
        with suppress(NoProcessError):
            return describe(self.pid)
        command = tuple(map(printable, self.command))
        started = procfs.started_unix(procfs.stat(self.pid)) if not self._collected else time.time()
        return ProcessInfo(self.pid, os.getpid(), started, command, name=short_name(command, command[0]))

    def poll(self) -> int | None:
        """Return the exit code when it has ended (128 + n after signal n, as shells do), None while it runs."""
        with self._lock:
            if self._code is None:
                self._code, self._ended_by = _exit_code(self.pid)
            return self._code

    @property
    def ended_by(self) -> int | None:
        """Return the signal that ended it, 0 when it exited by itself; None while it runs or when it is not known."""
        self.poll()
        return self._ended_by

    def wait(self) -> int:
        """Wait until it has ended, take it out of the process table, and return its exit code."""
        code = self._end()
        self.close()
        return code

    def ends_within(self, seconds: float) -> bool:
        """Wait at most so long; tell whether it has ended."""
        return _comes_true(lambda: self.poll() is not None, time.monotonic() + seconds)

    def forward(self, signum: int) -> None:
        """Pass on a signal that gputop got: to the whole job what a terminal would send it, else to the program."""
        with self._lock:
            if self._code is None:
                self._send(signum, signum in _FROM_TERMINAL)

    def terminate(self, grace: float = 5.0) -> int:
        """End the program and what it left in its session: SIGTERM, and SIGKILL after `grace` seconds.

        The program alone is asked first, so that one that saves its state on SIGTERM finds its workers alive.
        """
        deadline = time.monotonic() + grace
        self.forward(signal.SIGTERM)
        self.forward(signal.SIGCONT)
        if not self.ends_within(grace):
            self.forward(signal.SIGKILL)
        self._end()
        self._sweep(deadline)
        return self.wait()

    def close(self) -> None:
        """Take the program out of the process table if it has ended; a running one keeps running."""
        if self.poll() is None:
            return
        with self._lock, suppress(ChildProcessError):
            if not self._collected:
                self._collected = True
                os.waitpid(self.pid, 0)

    def _end(self) -> int:
        while (code := self.poll()) is None:
            time.sleep(_STEP_S)
        return code

    def _send(self, signum: int, to_group: bool) -> None:
        with suppress(ProcessLookupError, PermissionError):
            (os.killpg if to_group else os.kill)(self.pid, signum)

    def _sweep(self, deadline: float) -> None:
        """End what is left in the program's session, within a second after the deadline."""
        for signum in (signal.SIGTERM, signal.SIGKILL):
            for pid in self._session():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signum)
            if _comes_true(lambda: not self._session(), max(deadline, time.monotonic() + 0.5)):
                return

    def _session(self) -> list[int]:
        return [] if self._collected else [pid for pid in procfs.pids() if _in_session(pid, self.pid)]


def launch(
    command: Sequence[str],
    output: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Launched:
    """Start a program; returns when it has been executed.

    Args:
        command: argument vector; the first word is looked for as a shell does.
        output: file for its output, emptied first; None makes a private one in the state directory.
        environ: variables to add to the user's own.

    Raises:
        CommandNotStartedError: no such command, or it cannot be executed; carries the shell's exit code.
        GputopError: the output file cannot be written.
    """
    whole = DEFAULTS | _user_environ() | dict(environ or {})
    program = find_program(command[0], whole)
    path, descriptor = logfile.create(output)
    try:
        pid = _spawn(program, command, whole, descriptor)
    finally:
        os.close(descriptor)
    return Launched(pid, tuple(command), path)


def _user_environ() -> dict[str, str]:
    """Return the environment without the LC_CTYPE that Python adds for itself in the C locale (PEP 538)."""
    environ = dict(os.environ)
    if environ.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8") and not _given("LC_CTYPE"):
        del environ["LC_CTYPE"]
    return environ


def _given(name: str) -> bool:
    return any(pair.startswith(f"{name}=") for pair in procfs.strings("/proc/self/environ", limit=1 << 22))


def _spawn(program: str, command: Sequence[str], environ: Mapping[str, str], output: int) -> int:
    """Start the shim and wait until it has become the program."""
    told, tell = os.pipe()
    try:
        pid = _start_shim(program, command, environ, output, tell)
    finally:
        os.close(tell)
    with os.fdopen(told, "rb") as status:
        try:
            failure = status.read()
        except BaseException:  # Ctrl-C while it starts: nothing half-started stays behind
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
    if failure:
        os.waitpid(pid, 0)
        raise _refused(command[0], int(failure))
    return pid


def _start_shim(program: str, command: Sequence[str], environ: Mapping[str, str], output: int, tell: int) -> int:
    script = [sys.executable, "-I", "-S", shim.__file__, str(_STATUS_FD), str(os.getpid()), program, *command]
    descriptors = (
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
        (os.POSIX_SPAWN_DUP2, tell, _STATUS_FD),
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
    )
    try:
        return os.posix_spawn(sys.executable, script, environ, file_actions=descriptors, setsid=True)
    except (OSError, ValueError) as error:
        raise GputopError(f"cannot start {command[0]!r}: {error}") from error


def _refused(name: str, number: int) -> CommandNotStartedError:
    """Say why the kernel would not execute a file that was there a moment ago."""
    if number == errno.ENOENT and not os.path.exists(name):
        return not_found(name)
    why = "the program named in its first line (#!) does not exist" if number == errno.ENOENT else os.strerror(number)
    return not_executable(name, why)


def _exit_code(pid: int) -> tuple[int | None, int | None]:
    """Return the exit code, None while it runs; and the signal that ended it, 0 for none, None when not known."""
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # somebody else collected it
        return FAILED, None
    if ended is None:
        return None, None
    if ended.si_code == os.CLD_EXITED:
        return ended.si_status, 0
    return SIGNALLED + ended.si_status, ended.si_status


def _comes_true(condition: Callable[[], bool], deadline: float) -> bool:
    while not (true := condition()) and time.monotonic() < deadline:
        time.sleep(_STEP_S)
    return true


def _in_session(pid: int, session: int) -> bool:
    with suppress(OSError):
        status = procfs.stat(pid)
        return status.session == session and not status.dead
    return False
