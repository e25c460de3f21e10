"""The process that peeks: one thread, no other work, so that a stop of the target is as short as it can be."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections import deque
from typing import Any

from gputop.collectors.native.agenda import Action, Agenda
from gputop.collectors.native.arch import Arch, here
from gputop.collectors.native.memory import FIRST_COPY, StackCopy
from gputop.collectors.native.modules import ModuleTable
from gputop.collectors.native.pace import Pace
from gputop.collectors.native.process import Draft, Process, Tools
from gputop.collectors.native.ptrace import Tracer
from gputop.collectors.native.symbols import SymbolReader
from gputop.collectors.native.task import Task
from gputop.collectors.native.unwind import Unwinder
from gputop.collectors.native.wire import Receiver, Sender

_PR_SET_PDEATHSIG = 1
_DISCOVER_S, _BATCH_S, _TIDY_S = 0.25, 0.5, 0.1
_FIRST_BATCH_S = 0.15
#: A batch waits this long for its symbols.
_SYMBOLS_S = 1.0
#: While a thread is about to stop, commands are looked for this often.
_WATCHFUL_S = 0.02
_BACKLOG_BYTES = 4 << 20
_MAX_OPEN_FILES = 1 << 16
#: Listing threads may take this share of the time (thousands of threads, slow /proc).
_HOUSEKEEPING_SHARE = 0.005
#: … but once for each process, until all that are there have been taken up, this much, this often.
_SURVEY_SHARE, _SURVEY_S = 0.1, 0.05
#: Descriptors left for everything but threads' /proc files (two each).
_OTHER_FILES = 512


class Worker:
    """The event loop: a queue of actions by time, commands from the collector, stops that came late."""

    def __init__(self, arch: Arch, commands: int, batches: int) -> None:
        self._receiver, self._sender = Receiver(commands), Sender(batches, _BACKLOG_BYTES)
        self._commands_fd = commands
        stack = StackCopy()
        self._tools = Tools(arch, ModuleTable(arch.elf_machine), stack, Tracer(arch, stack), Unwinder(arch))
        # The driver's few names must not wait for the hundred thousands of torch's.
        self._symbols = {large: SymbolReader() for large in (False, True)}
        self._pace = Pace(50.0, 0.01)
        self._processes: dict[int, Process] = {}
        self._waiting: deque[Draft] = deque()
        self._agenda = Agenda()
        self._room = (_raise_file_limit() - _OTHER_FILES) // 2
        self._running = True

    def run(self) -> None:
        """Peek until told to stop, or until the collector is gone."""
        now = time.monotonic()
        actions: tuple[Action, ...] = (self._discover, self._flush, self._tidy)
        for action in actions:
            self._agenda.add(now, action)
        while self._running:
            self._sleep(self._agenda.next_due - time.monotonic())
            for action in self._agenda.due(time.monotonic()):
                again = action(time.monotonic())
                if again is not None:
                    self._agenda.add(again, action)
                if self._tools.tracer.pending:
                    self._late()
        for reader in self._symbols.values():
            reader.close()

    def _sleep(self, seconds: float) -> None:
        """Wait until something is due, a command comes, or a thread stops that was asked to."""
        if self._tools.tracer.pending:
            signal.sigtimedwait({signal.SIGCHLD}, max(min(seconds, _WATCHFUL_S), 0))
            self._late()
            seconds = 0.0
        if select.select([self._commands_fd], [], [], max(seconds, 0))[0]:
            self._obey()

    def _late(self) -> None:
        for pid, tid in self._tools.tracer.late(FIRST_COPY):
            process = self._processes.get(pid)
            if process is not None:
                process.take_late(tid)

    def _obey(self) -> None:
        try:
            for name, value in self._receiver.receive():
                self._command(name, value)
        except EOFError:
            self._running = False

    def _command(self, name: str, value: Any) -> None:
        if name == "follow":
            self._follow(value)
        elif name == "rate":
            self._pace.rate_hz = value
        elif name == "budget":
            self._pace.budget = value
        elif name == "stop":
            self._running = False

    def _follow(self, wanted: tuple[tuple[int, float], ...]) -> None:
        for pid in self._processes.keys() - {pid for pid, _ in wanted}:
            self._processes.pop(pid).close()
        for pid, started_unix in wanted:
            known = self._processes.get(pid)
            if known is not None and known.started_unix != started_unix:
                known.close()
            if known is None or known.started_unix != started_unix:
                self._processes[pid] = Process(pid, started_unix, self._tools)
        self._pace.processes = len(self._processes)
        now = time.monotonic()
        self._discover(now)
        self._agenda.add(now + _FIRST_BATCH_S, self._flush_early)

    def _flush_early(self, now: float) -> None:
        """Send what there is of processes that have just been begun with, so that there is soon something to show."""
        self._flush(now)

    def _discover(self, now: float) -> float:
        """Begin to look at new threads; forget processes that ended."""
        room = self._room - sum(len(process.tasks) for process in self._processes.values())
        for process in self._processes.values():
            for task in process.discover(now, room):
                room -= 1
                self._agenda.add(now, self._looker(process, task))
        self._pace.threads = sum(len(process.tasks) for process in self._processes.values())
        if all(process.surveyed for process in self._processes.values()):
            return _next(now, _DISCOVER_S, _HOUSEKEEPING_SHARE)
        return _next(now, _SURVEY_S, _SURVEY_SHARE)

    def _looker(self, process: Process, task: Task) -> Action:
        main = process.pid == task.tid

        def look(now: float) -> None:
            if not task.alive:
                return
            before, looked = task.counters, task.looked
            process.peek(task, self._pace.budget > 0)
            often, delay = self._pace.after(task, before, now - looked, main)
            self._agenda.add(now + delay, look, patient=not often)

        return look

    def _tidy(self, now: float) -> float:
        """Have symbols read, send what waited for them, let go what was forgotten."""
        for large, reader in self._symbols.items():
            reader.poll()
            reader.read(table for table in self._tools.modules.waiting() if table.large == large)
        self._tools.tracer.sweep(any(reader.child for reader in self._symbols.values()))
        self._send(now)
        return now + _TIDY_S

    def _flush(self, now: float) -> float:
        self._pace.adapt()
        self._sender.send(("alive",))
        for pid, process in list(self._processes.items()):
            if process.draft.samples or process.draft.failed:
                self._waiting.append(process.cut(now))
            ended = process.ended and not process.tasks
            self._sender.send(("refused", pid, None if ended else process.refusal and tuple(process.refusal)))
            if ended:
                del self._processes[pid]
        self._send(now)
        gc.collect(1)
        return now + _BATCH_S

    def _send(self, now: float) -> None:
        """Send batches, in order, once their symbols are known or have taken too long."""
        while self._waiting:
            draft = self._waiting[0]
            if now - draft.end < _SYMBOLS_S and not draft.named:
                break
            self._waiting.popleft()
            self._sender.send(("batch", draft.batch(self._pace.rate_hz)))
        self._sender.flush()


def _next(started: float, interval: float, share: float) -> float:
    """Return when to repeat work that has just been done, so that it takes no more than a share of the time."""
    return max(started + interval, started + (time.monotonic() - started) / share)


def _raise_file_limit() -> int:
    """Allow ourselves as many open files as the system does, within reason; return how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_OPEN_FILES)
    if wanted <= soft:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def _settle(parent: int) -> bool:
    """Tie this process's life to its parent's and make it deaf to the terminal; False when the parent is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    gc.disable()
    return os.getppid() == parent


def main(parent: int) -> None:
    """Run a worker on standard input (commands) and output (batches).

    Args:
        parent: the process that started it; it ends when that one does.
    """
    if not _settle(parent):
        return
    commands, batches = sys.stdin.fileno(), sys.stdout.fileno()
    arch = here()
    if arch is None:
        Sender(batches, _BACKLOG_BYTES).send(("unsupported", os.uname().machine))
        return
    try:
        Worker(arch, commands, batches).run()
    except BrokenPipeError:
        return
    except Exception:
        Sender(batches, _BACKLOG_BYTES).send(("crashed", traceback.format_exc(limit=-3)))
