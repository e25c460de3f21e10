"""One thread as /proc shows it, and what is remembered of it between looks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from gputop.collectors.native import syscalls
from gputop.collectors.native.ledger import Elapsed, Ledger
from gputop.collectors.native.memory import FIRST_COPY
from gputop.collectors.native.modules import Site
from gputop.model import Frame, Observation
from gputop.text import printable

_LINE_BYTES = 512
#: Waits of a thread that are remembered: those of a loop's few places, not of a whole program's.
_MOST_WAITS = 16


class Look(NamedTuple):
    """What one look saw: an `Observation` whose chain is still places, not names."""

    running: bool = False
    syscall: str = ""
    waits_on: str = ""
    sites: tuple[Site, ...] = ()
    complete: bool = True
    stopped: str = ""
    unreadable: str = ""

    @property
    def named(self) -> bool:
        """Are the symbols of all its places known?"""
        return all(site.named for site in self.sites)

    def observation(self) -> Observation:
        """Return it with names."""
        chain = tuple(site.frame() for site in self.sites)
        syscall, waits_on = self.syscall, self.waits_on
        if syscall == syscalls.RESTART and chain:
            # Newer C libraries make their calls in functions of their own, whose symbols are stripped.
            syscall = syscalls.restarted(next((frame.symbol for frame in chain if frame.symbol), ""))
            waits_on = waits_on or syscalls.ON_NAME.get(syscall, "")
        return Observation(self.running, syscall, waits_on, chain, self.complete, self.stopped, self.unreadable)


class Counters(NamedTuple):
    """/proc/PID/task/TID/schedstat: nanoseconds on a CPU, nanoseconds runnable without one, times put on a CPU."""

    run_ns: int
    delay_ns: int
    slices: int


def has_run(before: Counters | None, after: Counters | None) -> bool:
    """Was a thread put on a CPU in between? Where the kernel keeps no counters it is taken not to have been."""
    return before is not None and after is not None and after.slices != before.slices


class Call(NamedTuple):
    """/proc/PID/task/TID/syscall of a thread that is not running; `number` is -1 outside a system call."""

    number: int
    arguments: tuple[int, ...]
    stack_pointer: int
    program_counter: int

    @property
    def place(self) -> tuple[int, int, int]:
        """Where in the program it is: the same function called by the same ones has the same."""
        return self.number, self.stack_pointer, self.program_counter


def parse_call(line: bytes) -> Call | None:
    """Parse the line; None for "running" and what cannot be parsed."""
    try:
        fields = [int(field, 0) for field in line.split()]
    except ValueError:
        return None
    if len(fields) == 9:
        return Call(fields[0], tuple(fields[1:7]), fields[7], fields[8])
    return Call(-1, (), fields[1], fields[2]) if len(fields) == 3 else None


class Task:
    """A thread that is looked at.

    Attributes:
        tid: its native id.
        name: the kernel's name for it, as read at `named`.
        looked: when it was looked at last.
        counters: its counters then; None where the kernel keeps none.
        asked: its counters when it was last asked to stop.
        look: what was seen then; None at first.
        settled: seeing the same again would give the same look.
        copy: bytes of stack to copy.
        busy_until: it is looked at often up to this time.
        wanted: share of the time that it was on a CPU or waited for one, lately.
        owed_s: seconds that it was held up and that its budget has not paid back yet, as of `looked`.
        held_s: seconds that it was held up since its counters were read.
        frame: the Python frame that it was in then; None where that is not known.
        glance: reads where its Python frame is; None where it has none, or that is not known yet.
        alive: it has not ended.
    """

    def __init__(self, pid: int, tid: int, now: float, keep_open: bool) -> None:
        self._directory = f"/proc/{pid}/task/{tid}"
        self._keep_open = keep_open
        self._open: dict[str, int] = {}
        self.tid = tid
        self.name, self.named = self.read_name(), now
        self.looked = now
        self.counters = self.read_counters()
        self.asked: Counters | None = None
        self.look: Look | None = None
        self.settled = False
        self.copy = FIRST_COPY
        self.busy_until = 0.0
        self.wanted = 1.0
        self.owed_s = self.held_s = 0.0
        self.frame: Frame | None = None
        self.glance: Callable[[], None] | None = None
        self._own_tid = 0
        self._waits: dict[tuple[int, int, int], tuple[Look, Frame | None]] = {}
        self._ledger = Ledger()
        self.alive = True

    def stands_for(self, now: float, counters: Counters | None, running: bool) -> tuple[float, float]:
        """Return the seconds that a look stands for, and those of them without a CPU.

        `counters` are those read for the look, before it may have held the thread up.
        """
        seconds, before = now - self.looked, self.counters
        if counters is None or before is None:
            return seconds, 0.0
        on_cpu, starved = (counters.run_ns - before.run_ns) / 1e9, (counters.delay_ns - before.delay_ns) / 1e9
        elapsed = Elapsed(seconds, on_cpu, starved, self.held_s)
        self.held_s = 0.0
        return self._ledger.book(elapsed, running)

    def remember(self, place: tuple[int, int, int], look: Look) -> None:
        """Keep what a wait looked like, with the Python frame of now."""
        self._waits.pop(place, None)
        self._waits[place] = look, self.frame
        if len(self._waits) > _MOST_WAITS:
            del self._waits[next(iter(self._waits))]

    def recall(self, place: tuple[int, int, int]) -> Look | None:
        """Return what a wait looked like when it was seen last, and take its Python frame for that of now."""
        look, frame = self._waits.get(place, (None, None))
        if look is not None:
            self.frame = frame
        return look

    def forget(self) -> None:
        """Forget what was seen: it runs another program now."""
        self.look = self.glance = None
        self._waits.clear()

    def read(self, name: str) -> bytes:
        """Return the beginning of one of its /proc files.

        Raises:
            OSError: it has ended, or the kernel refuses.
        """
        fd = self._open.get(name)
        if fd is not None:
            return os.pread(fd, _LINE_BYTES, 0)
        fd = os.open(f"{self._directory}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        if self._keep_open:
            self._open[name] = fd
            return os.pread(fd, _LINE_BYTES, 0)
        try:
            return os.pread(fd, _LINE_BYTES, 0)
        finally:
            os.close(fd)

    @property
    def own_tid(self) -> int:
        """Its native id as the process itself sees it, in its own PID namespace."""
        if not self._own_tid:
            status = self._read_whole("status")
            ids = next((line for line in status.splitlines() if line.startswith(b"NSpid:")), b"").split()
            self._own_tid = int(ids[-1]) if len(ids) > 1 else self.tid
        return self._own_tid

    def _read_whole(self, name: str) -> bytes:
        try:
            with open(f"{self._directory}/{name}", "rb") as file:
                return file.read()
        except OSError:
            return b""

    def read_name(self) -> str:
        """Return the kernel's name for it, empty when it has ended."""
        try:
            with open(f"{self._directory}/comm", "rb") as file:
                return printable(file.read(64).rstrip(b"\n").decode("utf-8", "replace"))
        except OSError:
            return ""

    def read_counters(self) -> Counters | None:
        """Return its scheduler counters; None where the kernel keeps none, or it has ended."""
        try:
            run, delay, slices = self.read("schedstat").split()
            return Counters(int(run), int(delay), int(slices))
        except (OSError, ValueError):
            return None

    def read_state(self) -> str:
        """Return the kernel's state letter, "X" when it has ended."""
        try:
            with open(f"{self._directory}/stat", "rb") as file:
                return file.read(_LINE_BYTES).rpartition(b")")[2].split()[0].decode("ascii", "replace")
        except (OSError, IndexError):
            return "X"

    def read_channel(self) -> str:
        """Return the kernel's function in which it sleeps; empty or "0" where that is not told."""
        return self._read_whole("wchan").decode("ascii", "replace")

    def close(self) -> None:
        """Forget it: it has ended, or is not followed any more."""
        self.alive = False
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()
