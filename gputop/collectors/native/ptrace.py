"""Stopping one running thread for as long as it takes to copy its registers and stack, about 0.1 ms.

The thread is seized, interrupted, read and let go again. A tracer that dies in between is detached by the kernel,
which resumes the thread: seizing sets no option that would kill it. See ptrace(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from collections.abc import Callable, Iterator
from enum import Enum
from time import perf_counter
from typing import Any, NamedTuple

from gputop.collectors.native.arch import Arch
from gputop.collectors.native.memory import StackCopy
from gputop.collectors.native.urgency import Urgency

_libc = ctypes.CDLL(None, use_errno=True)
_ptrace = _libc.ptrace
_ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_ptrace.restype = ctypes.c_long

_DETACH, _GETREGSET, _SETREGSET, _SEIZE, _INTERRUPT = 17, 0x4204, 0x4205, 0x4206, 0x4207
_NT_PRSTATUS = 1
_EVENT_STOP = 128
_ALL_CHILDREN = 0x40000000  # __WALL: threads that are nobody's leader too
_CHILD = {signal.SIGCHLD}
#: A stop is waited for this long; a thread that is not on a CPU (starved, uninterruptible) stops later, see `late`.
_PATIENCE_S = 0.001
#: A stop that has not come after this time is waited for without haste, seconds.
_URGENT_S = 0.02
#: Looks for the stop before sleeping: a thread on another CPU stops within microseconds.
_GLANCES = 3


class Outcome(Enum):
    """What became of an attempt to stop a thread."""

    TAKEN = "registers and stack are copied"
    PENDING = "it has not stopped yet; `late` lets it go when it does"
    GONE = "it ended"
    REFUSED = "the kernel refuses"
    TRACED = "another tracer has it"
    FOREIGN = "it has another set of registers: a 32-bit program"


#: Reads something while a thread stands still.
During = Callable[[], object]


class _Asked(NamedTuple):
    """A thread that was asked to stop: its process, what to read then, since when (`perf_counter`).

    `waited` is how long we had been waiting for a CPU by then, in our life.
    """

    pid: int
    during: During | None
    since: float
    waited: float = 0.0


class Tracer:
    """Takes registers and stacks of running threads, one at a time.

    SIGCHLD must be blocked in this process, which must have one thread only.

    Attributes:
        words: the register set of the last stop.
        asked_s: how long before its end the thread was asked to stop.
        held_s: how long of that the thread is known to have stood still.
        unnoticed_s: how long it may have stood still besides, before we knew.
        repaired: how many system calls were made to restart that would have returned EINTR.
    """

    def __init__(self, arch: Arch, stack: StackCopy) -> None:
        self._arch, self._stack = arch, stack
        self.words: Any = (ctypes.c_uint64 * arch.words)()  # an array, whose items read as int
        self._size = ctypes.sizeof(self.words)
        self._vector = (ctypes.c_uint64 * 2)(ctypes.addressof(self.words), self._size)
        self._vector_at = ctypes.byref(self._vector)
        self._pointer = arch.columns[arch.stack_pointer]
        self._pending: dict[int, _Asked] = {}
        self._urgency = Urgency()
        self.asked_s = self.held_s = self.unnoticed_s = 0.0
        self.repaired = 0

    @property
    def pending(self) -> bool:
        """Are there threads that were asked to stop and have not?"""
        return bool(self._pending)

    def is_pending(self, tid: int) -> bool:
        """Was this thread asked to stop, and has not?"""
        return tid in self._pending

    def take(self, pid: int, tid: int, size: int, during: During | None = None) -> Outcome:
        """Stop a thread, copy its registers and up to `size` bytes of its stack, and let it go.

        `during` is called while it stands still; it must not take long.
        """
        if tid in self._pending:
            return Outcome.PENDING
        self._urgency.begin()
        try:
            return self._take(pid, tid, size, during)
        finally:
            self._relax()

    def _take(self, pid: int, tid: int, size: int, during: During | None) -> Outcome:
        if _ptrace(_SEIZE, tid, None, None) < 0:
            return _refusal(pid, tid)
        asked = _Asked(pid, during, perf_counter())
        interrupted = _ptrace(_INTERRUPT, tid, None, None) == 0
        status = self._await(tid, asked.since + _PATIENCE_S) if interrupted else None
        if status is None:
            self._pending[tid] = asked._replace(waited=_waited_s())
            return Outcome.PENDING
        return self._release(tid, status, size, asked)

    def _relax(self) -> None:
        """Be ordinary again, unless a thread may stop any moment; one in uninterruptible sleep may take minutes."""
        if perf_counter() - max((asked.since for asked in self._pending.values()), default=0.0) > _URGENT_S:
            self._urgency.end()

    def _await(self, tid: int, deadline: float) -> int | None:
        for _ in range(_GLANCES):
            status = _wait(tid)
            if status is not None:
                return status
        while (left := deadline - perf_counter()) > 0:
            signal.sigtimedwait(_CHILD, left)
            status = _wait(tid)
            if status is not None:
                return status
        return None

    def _release(self, tid: int, status: int, size: int, asked: _Asked) -> Outcome:
        """Copy what a stopped thread shows and detach; the signal that it was about to get is handed to it."""
        if not os.WIFSTOPPED(status):
            return Outcome.GONE
        noticed = perf_counter()
        deliver = os.WSTOPSIG(status) if status >> 16 != _EVENT_STOP else None
        self._vector[1] = self._size
        known = False
        try:
            known = _ptrace(_GETREGSET, tid, _NT_PRSTATUS, self._vector_at) == 0 and self._vector[1] == self._size
            if known:
                self._stack.fill(asked.pid, self.words[self._pointer], size)
                if asked.during is not None:
                    asked.during()
                if deliver is None and os.WSTOPSIG(status) == signal.SIGTRAP:
                    self._repair(asked.pid, tid)
        finally:
            _ptrace(_DETACH, tid, None, deliver)
        ended = perf_counter()
        self.asked_s, self.held_s, self.unnoticed_s = ended - asked.since, ended - noticed, noticed - asked.since
        if known:
            return Outcome.TAKEN
        return Outcome.GONE if self._vector[1] == self._size else Outcome.FOREIGN

    def _repair(self, pid: int, tid: int) -> None:
        """Let a system call that our interruption broke off begin again.

        The kernel restarts most calls itself, but not epoll_wait, semtimedop, sigtimedwait and their like. A signal
        with a handler that is waiting to be delivered breaks the call off by right.
        """
        words = list(self.words)
        if not self._arch.restart_system_call(words) or _signal_waits(pid, tid):
            return
        before = self.words[:]
        self.words[:] = words
        if _ptrace(_SETREGSET, tid, _NT_PRSTATUS, self._vector_at) == 0:
            self.repaired += 1
        self.words[:] = before

    def late(self, size: int) -> Iterator[tuple[int, int]]:
        """Read and let go the threads that have stopped in the meantime; yield (pid, tid) of each.

        When one stopped is not known. Its stop is noticed at once, unless we have to wait for a CPU; that counts.

        Call it when SIGCHLD came, and now and then.
        """
        for tid, asked in list(self._pending.items()):
            status = _wait(tid)
            if status is None:
                continue
            del self._pending[tid]
            unnoticed = _waited_s() - asked.waited
            outcome = self._release(tid, status, size, asked)
            self.unnoticed_s = unnoticed
            if outcome is Outcome.TAKEN:
                yield asked.pid, tid
        self._relax()

    def sweep(self, ours: bool) -> None:
        """Let go whatever else is stopped by us: a thread that executes another program changes its id.

        Args:
            ours: there are children of ours that must not be waited for here.
        """
        while not ours:
            self._relax()
            try:
                tid, status = os.waitpid(-1, os.WNOHANG | _ALL_CHILDREN)
            except ChildProcessError:
                self._pending.clear()
                self._relax()
                return
            if not tid:
                return
            self._release(
                tid, status, 0, self._pending.pop(tid, _Asked(tid, None, perf_counter()))._replace(during=None)
            )


def _wait(tid: int) -> int | None:
    """Return a thread's wait status, None when it has none; an "exited" status when it is not ours any more."""
    try:
        waited, status = os.waitpid(tid, os.WNOHANG | _ALL_CHILDREN)
    except ChildProcessError:
        return 0
    return status if waited else None


def _waited_s() -> float:
    """Return how long this process, of one thread, has waited for a CPU so far; 0 where the kernel does not count."""
    try:
        with open("/proc/self/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _refusal(pid: int, tid: int) -> Outcome:
    number = ctypes.get_errno()
    if number == errno.ESRCH:
        return Outcome.GONE
    return Outcome.TRACED if tracer_of(pid, tid) else Outcome.REFUSED


def tracer_of(pid: int, tid: int) -> int:
    """Return the process that traces a thread, 0 when none does."""
    return int(_status(pid, tid).get("TracerPid", "0"))


def _signal_waits(pid: int, tid: int) -> bool:
    """Is a signal that the thread handles and does not block about to be delivered to it?"""
    status = _status(pid, tid)
    waiting, blocked, handled = (
        (int(status.get("SigPnd", "0"), 16) | int(status.get("ShdPnd", "0"), 16)),
        int(status.get("SigBlk", "0"), 16),
        int(status.get("SigCgt", "0"), 16),
    )
    return bool(waiting & ~blocked & handled)


def _status(pid: int, tid: int) -> dict[str, str]:
    try:
        with open(f"/proc/{pid}/task/{tid}/status", encoding="utf-8", errors="replace") as file:
            return {key: value.strip() for key, _, value in (line.partition(":") for line in file)}
    except OSError:
        return {}
