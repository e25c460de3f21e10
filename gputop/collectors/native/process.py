"""Looking at the threads of one process."""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from gputop.collectors.native import syscalls
from gputop.collectors.native.arch import Arch
from gputop.collectors.native.memory import FIRST_COPY, MAX_COPY, StackCopy, error_text, read_memory
from gputop.collectors.native.modules import ModuleTable
from gputop.collectors.native.ptrace import Outcome, Tracer, tracer_of
from gputop.collectors.native.python.interpreter import Interpreter
from gputop.collectors.native.space import AddressSpace
from gputop.collectors.native.task import Call, Counters, Look, Task, has_run, parse_call
from gputop.collectors.native.unwind import Unwinder
from gputop.model import Frame, Observation, PeekBatch, PeekSample

_MAX_POLLED = 16
_ATTEMPTS = 2
#: A thread's name is read again after this time: programs name their threads when they run already.
_RENAME_S = 2.0
#: So many threads are taken up at a time: a thousand at once would hold up the looks at the others.
_MAX_NEW = 100
#: Kernel's state letters as `Observation.stopped` gives them.
_STOPPED = {"T": "T", "t": "T", "D": "D", "Z": "Z", "X": "Z"}
#: A process's start time is known to a clock tick, and the wall clock may be stepped.
_START_TOLERANCE_S = 2.0


class Tools(NamedTuple):
    """What the looks at all processes share."""

    arch: Arch
    modules: ModuleTable
    stack: StackCopy
    tracer: Tracer
    unwinder: Unwinder


class Refusal(NamedTuple):
    """Why the kernel does not let us look into a process, and whether more rights would help."""

    reason: str
    permission: bool


class Draft:
    """A batch in the making: samples refer to looks, whose names may not be known yet."""

    def __init__(self, pid: int, start: float) -> None:
        self.pid, self.start = pid, start
        self.end = start
        self.looks: dict[Look, int] = {}
        self.frames: dict[Frame, int] = {}
        self.samples: list[PeekSample] = []
        self.names: dict[int, str] = {}
        self.stops = self.failed = 0
        self.stopped_s = 0.0

    def add(self, task: Task, look: Look, now: float, seconds: float, starved: float) -> None:
        """Add one sample."""
        index = self.looks.setdefault(look, len(self.looks))
        frame = -1 if task.frame is None else self.frames.setdefault(task.frame, len(self.frames))
        self.samples.append(PeekSample(now, task.tid, index, seconds, starved, frame))
        self.names[task.tid] = task.name

    @property
    def named(self) -> bool:
        """Are all symbols known?"""
        return all(look.named for look in self.looks)

    def batch(self, rate_hz: float) -> PeekBatch:
        """Return the batch, with names; equal observations become one."""
        observations: dict[Observation, int] = {}
        place = [observations.setdefault(look.observation(), len(observations)) for look in self.looks]
        return PeekBatch(
            pid=self.pid,
            start=self.start,
            end=self.end,
            observations=tuple(observations),
            samples=tuple(sample._replace(observation=place[sample.observation]) for sample in self.samples),
            names=self.names,
            stops=self.stops,
            stopped_s=self.stopped_s,
            failed=self.failed,
            rate_hz=rate_hz,
            frames=tuple(self.frames),
        )


class Process:
    """One followed process.

    Attributes:
        pid: as seen from here.
        started_unix: when it started; 0 when that is not known.
        tasks: its live threads by native id.
        draft: the samples since the last batch.
        surveyed: the threads that were there at first have all been taken up.
    """

    def __init__(self, pid: int, started_unix: float, tools: Tools) -> None:
        self.pid, self.started_unix = pid, started_unix
        self._tools = tools
        self._space = AddressSpace(pid, tools.arch, tools.modules)
        self._python = Interpreter(pid, self._space)
        self._program = _program(pid)
        self._gone = not _is_the_one(pid, started_unix)
        self.tasks: dict[int, Task] = {}
        self.surveyed = False
        self._refusals: dict[str, Refusal] = {}
        self.draft = Draft(pid, time.monotonic())

    def discover(self, now: float, room: int) -> Iterator[Task]:
        """List the threads again; yield those that are new.

        Args:
            now: the time.
            room: how many more threads may keep their /proc files open.
        """
        tids = self._list()
        for tid in self.tasks.keys() - tids:
            self.tasks.pop(tid).close()
        if tids:
            self._notice_exec()
            self._space.refresh_if_old()
        new = sorted(tids - self.tasks.keys())
        self.surveyed = self.surveyed or len(new) <= _MAX_NEW
        for tid in new[:_MAX_NEW]:
            task = self.tasks[tid] = Task(self.pid, tid, now, keep_open=room > 0)
            room -= 1
            yield task
        self._python.locate(self.tasks.values())

    def _list(self) -> set[int]:
        if self._gone:
            return set()
        try:
            return {int(name) for name in os.listdir(f"/proc/{self.pid}/task")}
        except OSError:
            self._gone = True
            return set()

    @property
    def refusal(self) -> Refusal | None:
        """Why the kernel does not let us look into it, None when it does."""
        return next(iter(self._refusals.values()), None)

    @property
    def ended(self) -> bool:
        """Has it ended?"""
        return self._gone

    def _notice_exec(self) -> None:
        program = _program(self.pid)
        if program != self._program:
            self._program = program
            self._space.forget()
            self._python.forget()
            for task in self.tasks.values():
                task.forget()

    def close(self) -> None:
        """Follow it no longer."""
        for task in self.tasks.values():
            task.close()
        self.tasks.clear()

    def peek(self, task: Task, may_stop: bool) -> None:
        """Look at one thread and add a sample.

        None is added when it has ended, or cannot be stopped yet (`take_late` adds it then).

        Args:
            task: the thread.
            may_stop: may it be stopped for a moment if it is running?
        """
        counters = task.read_counters()
        try:
            look = self._see(task, counters, may_stop)
        except OSError as error:
            look = self._refused(task, error)
        if look is None:
            self.draft.failed += not self._tools.tracer.is_pending(task.tid)
            return
        self._record(task, look, counters)

    def take_late(self, tid: int) -> None:
        """Add the sample of a thread that has stopped later than `peek` wanted to wait."""
        task = self.tasks.get(tid)
        if task is not None:
            self._account(task, task.asked, late=True)
            self._record(task, self._stopped_look(task), task.read_counters())

    def _record(self, task: Task, look: Look, counters: Counters | None) -> None:
        now = time.monotonic()
        seconds, starved = task.stands_for(now, counters, look.running)
        self.draft.add(task, look, now, seconds, starved)
        task.looked, task.counters = now, counters
        task.look = look
        if now - task.named > _RENAME_S:
            task.named, task.name = now, task.read_name() or task.name

    def _see(self, task: Task, counters: Counters | None, may_stop: bool) -> Look | None:
        """Return what the thread does now, None when that cannot be told (yet)."""
        line = task.read("syscall")
        self._refusals.pop("read", None)
        if line.startswith(b"running"):
            return self._running(task, counters, may_stop)
        if self._slept_on(task, counters):
            return task.look
        return self._blocked(task, line, counters)

    def _slept_on(self, task: Task, counters: Counters | None) -> bool:
        """Has it not run since it was last looked at, blocked?"""
        look, before = task.look, task.counters
        if look is None or look.running or not task.settled or counters is None or before is None:
            return False
        return counters.slices == before.slices

    def _running(self, task: Task, counters: Counters | None, may_stop: bool) -> Look | None:
        task.frame = None
        if not may_stop:
            return Look(running=True, complete=False, unreadable="the budget allows no stops")
        task.asked = counters
        outcome = self._tools.tracer.take(self.pid, task.tid, task.copy, task.glance)
        if outcome is Outcome.TAKEN:
            self._refusals.pop("stop", None)
            self._account(task, counters)
            return self._stopped_look(task)
        if outcome in (Outcome.PENDING, Outcome.GONE):
            return None
        return self._untouchable(task, outcome)

    def _account(self, task: Task, before: Counters | None, late: bool = False) -> None:
        """Count a stop, less the time in which the thread ran on, or could not have run anyway, for want of a CPU.

        Of one that came at once the counter of time on a CPU is not used: it may be a tick behind.
        """
        tracer, after = self._tools.tracer, task.read_counters()
        unnoticed = tracer.unnoticed_s
        if before is not None and after is not None:
            elsewhere = after.delay_ns - before.delay_ns + (after.run_ns - before.run_ns if late else 0)
            unnoticed = max(min(unnoticed, tracer.asked_s - tracer.held_s - elsewhere / 1e9), 0.0)
        held = tracer.held_s + unnoticed
        task.owed_s += held
        task.held_s += held
        self.draft.stops += 1
        self.draft.stopped_s += held

    def _stopped_look(self, task: Task) -> Look:
        """Unwind what the tracer has just copied."""
        tools = self._tools
        task.frame = self._python.frame(task)
        registers = tools.arch.registers(tools.tracer.words)
        chain = tools.unwinder.chain(self._space, registers, tools.stack)
        used = (registers[tools.arch.stack_pointer] or 0) - tools.stack.base
        if tools.stack.short:
            task.copy = min(2 * task.copy, MAX_COPY)
        elif used < task.copy // 4:
            task.copy = max(task.copy // 2, FIRST_COPY)
        # Asked to stop it may still have gone to sleep: what it was about to wait in is not what it did.
        asleep = tools.arch.asleep(tools.tracer.words)
        syscall = syscalls.name_of(asleep, tools.arch.name) if asleep is not None else ""
        return Look(running=True, syscall=syscall, sites=chain.sites, complete=chain.complete)

    def _untouchable(self, task: Task, outcome: Outcome) -> Look | None:
        reason = error_text() if outcome is Outcome.REFUSED else outcome.value
        if task.read_state() in "ZX":
            return None
        if outcome is Outcome.TRACED:
            reason = f"traced by process {tracer_of(self.pid, task.tid)}"
        if outcome is Outcome.REFUSED:
            self._refusals["stop"] = Refusal(f"ptrace: {reason}", permission=True)
        return Look(running=True, complete=False, unreadable=reason)

    def _blocked(self, task: Task, line: bytes, counters: Counters | None) -> Look:
        """Return what a blocked thread waits in, which `line` tells and its stack more precisely.

        It may wake up while its stack is read. It was blocked all the same when it was looked at: to look again until
        it holds still would find it in what follows its waits too often. Its stack is then that of the same wait, seen
        again now or at an earlier look.
        """
        task.settled = False
        call = parse_call(line)
        if call is None or not call.stack_pointer:
            stopped = _STOPPED.get(task.read_state(), "")
            return Look(complete=False, stopped=stopped, unreadable="" if stopped == "Z" else "no system call shown")
        for _ in range(_ATTEMPTS):
            if task.glance is not None:
                task.glance()
            copied = self._tools.stack.fill(self.pid, call.stack_pointer, task.copy, grows=True)
            if not copied:
                return self._without_stack(task)
            after = task.read_counters()
            if not has_run(counters, after):
                return self._waiting(task, call, after)
            again = parse_call(task.read("syscall"))
            if again is None or again.place != call.place:
                break
            counters = after
        return self._as_before(task, call)

    def _waiting(self, task: Task, call: Call, counters: Counters | None) -> Look:
        """Unwind the stack that has just been copied; remember what the call looks like."""
        tools = self._tools
        self._refusals.pop("memory", None)
        task.frame = self._python.frame(task)
        registers = tools.arch.blocked_registers(call.stack_pointer, call.program_counter)
        chain = tools.unwinder.chain(self._space, registers, tools.stack)
        # What was read beyond the copy may be another moment's; whoever sleeps on is known by its counters.
        complete = chain.complete and not (tools.stack.grew and has_run(counters, task.read_counters()))
        task.settled = not chain.lost
        stopped = _STOPPED.get(task.read_state(), "")
        look = Look(False, self._name(call), self._waits_on(task, call), chain.sites, complete, stopped)
        task.remember(call.place, look)
        return look

    def _as_before(self, task: Task, call: Call) -> Look:
        """Return a look at a wait that was over too soon: as it looked at an earlier time, if it was ever seen."""
        known = task.recall(call.place)
        if known is None:
            task.frame = None
            known = Look(complete=False)
        return known._replace(syscall=self._name(call), waits_on=self._waits_on(task, call), stopped="")

    def _name(self, call: Call) -> str:
        return syscalls.name_of(call.number, self._tools.arch.name) if call.number >= 0 else ""

    def _without_stack(self, task: Task) -> Look:
        task.frame = None
        reason, refused = error_text(), ctypes.get_errno() in (errno.EPERM, errno.EACCES, errno.ENOSYS)
        if refused:
            self._refusals["memory"] = Refusal(f"process_vm_readv: {reason}", permission=True)
        stopped = _STOPPED.get(task.read_state(), "")
        return Look(complete=False, stopped=stopped, unreadable=f"stack: {reason}")

    def _waits_on(self, task: Task, call: Call) -> str:
        name = self._name(call)
        if not name:
            return syscalls.kind_of_fault(task.read_channel())
        if name in ("futex", "futex_wait", syscalls.RESTART):
            address = call.arguments[0]
            return "gil" if self._space.is_interpreter_data(address) or self._python.is_gil(address) else ""
        if name in syscalls.ON_DESCRIPTOR:
            return syscalls.kind_of_descriptor(self.pid, call.arguments[0] & 0xFFFFFFFF)
        if name in syscalls.ON_POLL:
            count = min(call.arguments[1], _MAX_POLLED)
            polled = read_memory(self.pid, call.arguments[0], 8 * count)
            numbers = [int.from_bytes(polled[at : at + 4], "little") for at in range(0, len(polled), 8)]
            return syscalls.kind_of_descriptors(self.pid, numbers)
        return syscalls.ON_NAME.get(name, "")

    def _refused(self, task: Task, error: OSError) -> Look | None:
        """Return what can be seen without the right to look into the process; None when the thread has ended."""
        state = task.read_state()
        if state in "ZX" or error.errno == errno.ESRCH:
            return None
        if error.errno == errno.ENOENT:
            reason = "this kernel does not show what its threads wait in (/proc/PID/task/TID/syscall)"
        else:
            reason = error.strerror or "refused"
        task.frame = None
        self._refusals["read"] = Refusal(reason, permission=error.errno in (errno.EPERM, errno.EACCES))
        return Look(running=state == "R", complete=False, stopped=_STOPPED.get(state, ""), unreadable=reason)

    def cut(self, now: float) -> Draft:
        """Return the samples so far and begin a new batch."""
        done, self.draft = self.draft, Draft(self.pid, now)
        done.end = now
        return done


def _program(pid: int) -> tuple[str, bytes]:
    """Return what changes when a process executes another program: its file, and the random bytes' address."""
    try:
        with open(f"/proc/{pid}/auxv", "rb") as file:
            auxiliary = file.read(1024)
        return os.readlink(f"/proc/{pid}/exe"), auxiliary
    except OSError:
        return "", b""


def _is_the_one(pid: int, started_unix: float) -> bool:
    """Is the process with this id the one that started then? (0 means that the start is not known.)"""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        with open("/proc/stat", "rb") as file:
            boot = next(int(line.split()[1]) for line in file if line.startswith(b"btime"))
    except (OSError, ValueError, IndexError, StopIteration):
        return False
    started = boot + ticks / os.sysconf("SC_CLK_TCK")
    return not started_unix or abs(started - started_unix) < _START_TOLERANCE_S
