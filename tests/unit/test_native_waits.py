"""What a blocked thread waits on: the GIL, a descriptor's kind, a process, a timer."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

import pytest

from gputop.collectors.native import syscalls
from gputop.collectors.native.space import interpreter_data, parse_maps
from gputop.collectors.native.task import parse_call
from tests.interpreters import python
from tests.unit.native_tools import Watch, names, needs_ptrace, running, watching

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15")

CONTENDED = """
import threading
def work():
    while True: pass
for _ in range(2): threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
"""

WAITS = """
import os, select, socket, subprocess, sys, threading, time
terminal = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
pair, event, epoll = socket.socketpair(), os.eventfd(0), select.epoll()
poller = select.poll()
poller.register(pair[0], select.POLLIN)
sleeper = subprocess.Popen(["sleep", "1000"])
waits = {
    "pipe": lambda: os.read(os.pipe()[0], 1),
    "socket": lambda: pair[0].recv(1),
    "poll": lambda: poller.poll(),
    "eventfd": lambda: os.eventfd_read(event),
    "epoll": lambda: epoll.poll(),
    "process": lambda: sleeper.wait(),
    "timer": lambda: time.sleep(1000),
    "tty": lambda: os.read(terminal, 1),
    "lock": lambda: threading.Event().wait(),
}
def named(name, wait):
    with open("/proc/thread-self/comm", "w") as file: file.write(name)
    wait()
for item in waits.items(): threading.Thread(target=named, args=item, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
sleeper.kill()
"""

#: Thread to (system call, what it waits on).
EXPECTED = {
    "pipe": ("read", "pipe"),
    "socket": ("recvfrom", "socket"),
    "poll": ("poll", "socket"),
    "eventfd": ("read", "eventfd"),
    "epoll": ("epoll_wait", "epoll"),
    "process": ("wait4", "process"),
    "timer": ("clock_nanosleep", "timer"),
    "tty": ("read", "tty"),
    "lock": ("futex", ""),
}


@needs_ptrace
@pytest.mark.parametrize("version", VERSIONS)
def test_the_gil_is_told_from_other_locks(version: str, tmp_path: Path) -> None:
    script = tmp_path / "contended.py"
    script.write_text(CONTENDED)
    with running(python(version), str(script)) as target, watching(target.pid) as watch:
        waits = watch.see(lambda seen: seen.waits_on == "gil")
        parked = watch.see(lambda seen: seen.syscall == "futex" and not seen.waits_on, target.pid)
    assert waits.syscall == "futex"
    assert {"PyThread_acquire_lock_timed", "_PySemaphore_Wait"} & set(names(parked))


@needs_ptrace
def test_a_free_threaded_build_has_no_gil_to_wait_for(tmp_path: Path) -> None:
    """Not even where threads fight for one lock and one dictionary."""
    script = tmp_path / "contended.py"
    script.write_text(CONTENDED.replace("while True: pass", "while True: threading.active_count()"))
    with running(python("3.13t"), str(script)) as target, watching(target.pid) as watch:
        watch.wait_for(lambda watch: sum(len(batch.samples) for batch in watch.batches) > 200, "looks")
        waits = {seen.waits_on for batch in watch.batches for seen in batch.observations}
    assert waits == {""}


def _waits(watch: Watch) -> dict[str, tuple[str, str]]:
    """Return what each named thread was seen waiting in and on, last."""
    found = {}
    for batch in watch.batches:
        for sample in batch.samples:
            seen = batch.observations[sample.observation]
            found[batch.names.get(sample.tid, "")] = (seen.syscall, seen.waits_on)
    return {name: what for name, what in found.items() if name in EXPECTED}


@needs_ptrace
def test_what_a_call_concerns(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text(WAITS)
    ours, theirs = pty.openpty()
    with running(sys.executable, str(script), os.ttyname(theirs)) as target, watching(target.pid) as watch:
        watch.wait_for(lambda seen: _waits(seen) == EXPECTED, "every wait")
        target.communicate()
    os.close(ours)
    os.close(theirs)


def test_the_interpreters_data_is_its_file_and_the_memory_right_behind() -> None:
    maps = parse_maps(
        "400000-500000 r-xp 00000000 08:01 11                 /usr/bin/python3.12\n"
        "700000-710000 rw-p 00300000 08:01 11                 /usr/bin/python3.12\n"
        "710000-740000 rw-p 00000000 00:00 0 \n"
        "750000-760000 rw-p 00000000 00:00 0 \n"
        "7f0000000000-7f0000010000 rw-p 00000000 08:01 12     /usr/lib/libpython3.11.so.1.0\n"
        "7f0000010000-7f0000020000 rw-p 00000000 08:01 13     /usr/lib/libpythonic.so\n"
        "7f0000020000-7f0000030000 rw-p 00000000 00:00 0      [heap]\n"
        "not a line of maps\n"
    )
    assert len(maps) == 7
    ranges = ((0x700000, 0x710000), (0x710000, 0x740000), (0x7F0000000000, 0x7F0000010000))
    assert interpreter_data(maps) == ranges


@pytest.mark.parametrize(
    ("link", "kind"),
    [
        ("pipe:[123]", "pipe"),
        ("socket:[1]", "socket"),
        ("anon_inode:[eventpoll]", "epoll"),
        ("anon_inode:[eventfd]", "eventfd"),
        ("/dev/nvidia0", "nvidia"),
        ("/dev/nvidia-uvm", "nvidia"),
        ("/dev/pts/3", "tty"),
        ("/dev/null", ""),
        ("/data/train.bin", "file"),
        ("/memfd:x (deleted)", "file"),
        ("anon_inode:[perf_event]", ""),
    ],
)
def test_kinds_of_descriptors(link: str, kind: str) -> None:
    assert syscalls.kind_of_link(link) == kind


def test_the_system_call_line() -> None:
    call = parse_call(b"202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd00 0x7f00\n")
    assert call is not None
    assert (call.number, call.arguments[:2], call.stack_pointer, call.program_counter) == (
        202,
        (1, 2),
        0x7FFD00,
        0x7F00,
    )
    outside = parse_call(b"-1 0x7ffd00 0x7f00\n")
    assert outside is not None
    assert (outside.number, outside.stack_pointer) == (-1, 0x7FFD00)
    assert parse_call(b"running\n") is None
    assert parse_call(b"") is None
    assert parse_call(b"1 2\n") is None


def test_unknown_numbers_keep_their_number() -> None:
    assert syscalls.name_of(232, "x86_64") == "epoll_wait"
    assert syscalls.name_of(22, "aarch64") == "epoll_pwait"
    assert syscalls.name_of(9999, "x86_64") == "syscall 9999"
    assert syscalls.name_of(1, "riscv64") == "syscall 1"


@pytest.mark.parametrize(
    ("channel", "kind"),
    [
        ("lock_mm_and_find_vma", "memory"),  # Linux 6.18, threads that map memory
        ("folio_wait_bit_common", "file"),  # Linux 6.18, a mapped file that is not in memory
        ("handle_userfault", ""),
        ("0", ""),
        ("", ""),
    ],
)
def test_what_a_page_fault_waits_for_is_told_by_the_kernel(channel: str, kind: str) -> None:
    assert syscalls.kind_of_fault(channel) == kind
