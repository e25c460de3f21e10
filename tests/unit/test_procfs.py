"""The parsers of /proc, on lines as the kernel writes them."""

from __future__ import annotations

import os
import subprocess
import time

import psutil
import pytest

from gputop import procfs

LINE = (
    b"4242 (%b) S 17 4242 99 0 -1 %d 1 0 0 0 150 50 0 0 20 0 7 0 12345 8192 300 18446744073709551615 "
    b"111 112 113 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0 114 115 116 117 118 119 120 0\n"
)


@pytest.mark.parametrize("name", [b"plain", b") R 1 1 (", b"a b\nc)", b"\x1b[2J", b""])
def test_a_name_may_hold_anything(name: bytes) -> None:
    status = procfs.parse_stat(LINE % (name, 4194304))
    assert status.comm == os.fsdecode(name)
    assert (status.state, status.ppid, status.pgrp, status.session) == ("S", 17, 4242, 99)
    assert (status.cpu_s, status.threads, status.started_s, status.core) == (2.0, 7, 123.45, 3)
    assert status.rss_bytes == 300 * os.sysconf("SC_PAGE_SIZE")
    assert status.image == (b"111", b"117")
    assert not status.kernel
    assert not status.dead


def test_kernel_threads_and_the_dead_are_told() -> None:
    assert procfs.parse_stat(LINE % (b"kworker", 0x00200040)).kernel
    zombie = LINE.replace(b") S ", b") Z ") % (b"x", 0)
    assert not procfs.parse_stat(zombie).dead  # its other threads run on
    assert procfs.parse_stat(zombie.replace(b" 20 0 7 ", b" 20 0 1 ")).dead


def test_a_file_emptied_by_the_end_of_its_process_is_no_process() -> None:
    with pytest.raises(ProcessLookupError):
        procfs.parse_stat(b"")


def test_this_process_agrees_with_psutil() -> None:
    process, status = psutil.Process(), procfs.stat(os.getpid())
    assert (status.ppid, status.comm) == (process.ppid(), process.name())
    assert procfs.started_unix(status) == pytest.approx(process.create_time(), abs=1.1)
    assert procfs.strings("/proc/self/cmdline") == tuple(process.cmdline())
    assert procfs.status(os.getpid())["Tgid"] == str(os.getpid())
    assert os.getpid() in procfs.pids()


def test_the_cpu_clock_counts_all_threads_of_a_process() -> None:
    before = procfs.process_cpu_s(os.getpid())
    began = time.process_time()
    while time.process_time() - began < 0.05:
        pass
    assert procfs.process_cpu_s(os.getpid()) - before == pytest.approx(time.process_time() - began, abs=0.02)
    with pytest.raises(OSError, match="Invalid argument"):
        procfs.process_cpu_s(2**22 + 1)


def test_a_new_process_changes_the_mark() -> None:
    before = procfs.newest_pid()
    subprocess.run(["true"], check=True)
    assert procfs.newest_pid() != before


def test_reading_stops_at_the_limit() -> None:
    assert procfs.read("/proc/self/stat", limit=3) == str(os.getpid()).encode()[:3]
