"""The machine's load and the target's threads, against known answers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gputop import procfs
from gputop.collectors.host import HostCollector, collector, machine
from gputop.collectors.host.machine import Cores, Memory
from gputop.collectors.host.threads import ProcessReader, has_schedstat
from gputop.model import NA, Batch, HostBatch, Note, ProcessInfo, ProcessReading, ThreadReading
from tests.fakes.programs import READY, python, running

SPIN = "import os, threading\ndef spin():\n    while True: pass\n"


def info(pid: int) -> ProcessInfo:
    return ProcessInfo(pid, 0, procfs.started_unix(procfs.stat(pid)), ())


def number(value: float | NA) -> float:
    assert not isinstance(value, NA), value
    return value


def read(reader: ProcessReader, limit: int = 100) -> ProcessReading:
    """Read a process that lives."""
    reading = reader.read(time.monotonic(), limit)
    assert reading is not None
    return reading


def read_twice(reader: ProcessReader) -> ProcessReading:
    """Read, wait and read again."""
    read(reader)
    time.sleep(0.4)
    return read(reader)


def test_what_a_thread_does_adds_up() -> None:
    if not has_schedstat():
        pytest.skip("this kernel keeps no run-queue counters")
    # Two threads that always want to run, of programs bound to one core: each runs or waits for a CPU all the time.
    bound = (
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nthreading.Thread(target=spin, daemon=True).start()\n"
    )
    with running(python(SPIN + bound)) as one, running(python(SPIN + bound)) as two:
        readers = [ProcessReader(info(process.pid), True) for process in (one, two)]
        for reader in readers:
            read(reader)
        time.sleep(1.2)
        readings = [read(reader) for reader in readers]
    spinning = [max(reading.threads, key=lambda thread: number(thread.cpu)) for reading in readings]
    parked = [min(reading.threads, key=lambda thread: number(thread.cpu)) for reading in readings]
    for thread in spinning:
        # The kernel adds a wait when it ends: one slice (some ms) may be missing or too much.
        assert number(thread.cpu) + number(thread.starved) == pytest.approx(1, abs=0.25)
        assert (thread.state, thread.core) == ("R", min(os.sched_getaffinity(0)))
    assert sum(number(thread.cpu) for thread in spinning) < 1.05
    # The main thread only has to reach its wait for input, with the interpreter's lock given to it now and then.
    assert all(number(thread.cpu) < 0.1 and thread.state == "S" for thread in parked)


def test_cpu_of_a_process_is_that_of_its_clock() -> None:
    with running(python(SPIN + "threading.Thread(target=spin, daemon=True).start()\n")) as process:
        reader = ProcessReader(info(process.pid), True)
        began, before = time.monotonic(), procfs.process_cpu_s(process.pid)
        reading = read_twice(reader)
        truth = (procfs.process_cpu_s(process.pid) - before) / (time.monotonic() - began)
        assert number(reading.cpu) == pytest.approx(truth, abs=0.1)
        assert number(reading.rss_bytes) > 1 << 20


def test_the_first_look_gives_no_number() -> None:
    reading = read(ProcessReader(info(os.getpid()), True))
    assert reading.cpu == reading.threads[0].cpu == reading.threads[0].starved == NA("first look")


def test_without_run_queue_counters_the_clock_ticks_count() -> None:
    with running(python(SPIN + "threading.Thread(target=spin, daemon=True).start()\n")) as process:
        reading = read_twice(ProcessReader(info(process.pid), False))
        busiest = max(reading.threads, key=lambda thread: number(thread.cpu))
        assert number(busiest.cpu) == pytest.approx(number(reading.cpu), abs=0.15)
        assert isinstance(busiest.starved, NA)
        assert "run-queue" in busiest.starved.reason


def test_many_idle_threads_take_turns_and_a_busy_one_is_always_read() -> None:
    parked = "for _ in range(30): threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    code = SPIN + parked + "threading.Thread(target=spin, daemon=True, name='busy').start()\n"
    with running(python(code)) as process:
        reader = ProcessReader(info(process.pid), True)
        for _ in range(12):
            time.sleep(0.05)
            reading = read(reader, 8)
            assert len(reading.threads) == 32
        assert not [thread for thread in reading.threads if isinstance(thread.cpu, NA)]
        busy = max(reading.threads, key=lambda thread: number(thread.cpu))
        assert number(busy.cpu) > 0.05
        time.sleep(0.2)
        pairs = zip(reading.threads, read(reader, 8).threads, strict=True)
        changed = [new.tid for old, new in pairs if new is not old]
        assert busy.tid in changed
        assert len(changed) <= 1 + 8


def test_threads_come_and_go() -> None:
    code = "import threading\ngo = threading.Event()\n"
    code += "threads = [threading.Thread(target=go.wait) for _ in range(5)]\nfor thread in threads: thread.start()\n"
    code += (
        "print('ready', flush=True)\nimport sys; sys.stdin.readline(); go.set()\nfor thread in threads: thread.join()\n"
    )
    with running(python(code)) as process:
        reader = ProcessReader(info(process.pid), True)
        first = read(reader)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        assert len(first.threads) == 6
        deadline = time.monotonic() + 20
        while len(read(reader).threads) != 1:  # a joined thread has left Python, the kernel's part of it follows
            assert time.monotonic() < deadline


def test_hostile_thread_names_come_out_printable() -> None:
    with running(python("open('/proc/self/comm', 'wb').write(b'\\x1b[2J\\xff\\n')\n")) as process:
        reading = read(ProcessReader(info(process.pid), True))
        assert reading.threads[0].name == "�[2J� "


def test_an_ended_process_and_a_number_used_again_give_nothing() -> None:
    with running(python("")) as process:
        known = info(process.pid)
        assert ProcessReader(replace(known, started_unix=known.started_unix - 1), True).read(0.0, 100) is None
        reader = ProcessReader(known, True)
        assert reader.read(0.0, 100) is not None
    assert reader.read(1.0, 100) is None


def test_another_users_process_can_be_read() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    code = "import os, sys, time; from gputop import procfs; from gputop.model import NA, ProcessInfo\n"
    code += "from gputop.collectors.host.threads import ProcessReader\nos.setgroups([]); os.setuid(65534)\n"
    code += "pid = int(sys.argv[1]); info = ProcessInfo(pid, 0, procfs.started_unix(procfs.stat(pid)), ())\n"
    code += "reader = ProcessReader(info, True); reader.read(0.0, 9); reading = reader.read(1.0, 9)\n"
    code += "print(reading.threads[0].cpu, reading.cpu)\n"
    with running([sys.executable, "-I", "-S", "-c", READY]) as process:
        command = [sys.executable, "-c", code, str(process.pid)]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == "0.0 0.0\n"


CPU_BEFORE = b"cpu  1 1 1 1\ncpu0 100 0 100 800 0 0 0 0 50 0\ncpu2 0 0 0 0 0 0 0 0 0 0\nintr 1\n"
CPU_AFTER = b"cpu  9 9 9 9\ncpu0 130 10 105 825 20 5 3 2 80 0\ncpu2 0 0 0 90 10 0 0 0 0 0\nintr 2\n"


def test_load_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = iter((CPU_BEFORE, CPU_AFTER, CPU_AFTER))
    monkeypatch.setattr(procfs, "read", lambda path: next(texts))
    cores = Cores()
    assert cores.read() == ()
    # cpu0: 30 + 10 + 5 + 5 + 3 + 2 = 55 used of 100; cpu1 is switched off; cpu2 waited for a disk.
    assert cores.read() == (0.55, 0.0, 0.0)
    assert cores.read() == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("membership", "names"),
    [
        ("0::/job/step\n", ("", "memory.max", "memory.current", "inactive_file")),
        (
            "3:cpu:/else\n4:memory:/job/step\n",
            ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ),
    ],
)
def test_memory_is_that_of_the_tightest_control_group(
    membership: str, names: tuple[str, str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount, limit, usage, cache = names
    for group, bound, used in (("job", str(512 << 20), 300 << 20), ("job/step", "max", 1), ("", "max", 2)):
        directory = tmp_path / mount / group
        directory.mkdir(parents=True, exist_ok=True)
        (directory / limit).write_text(bound + "\n")
        (directory / usage).write_text(f"{used}\n")
        (directory / "memory.stat").write_text(f"anon 5\n{cache} {100 << 20}\n")
    real = procfs.read
    monkeypatch.setattr(machine, "CGROUPS", str(tmp_path))
    monkeypatch.setattr(procfs, "read", lambda path: membership.encode() if path == "/proc/7/cgroup" else real(path))
    assert Memory().read(7) == (200 << 20, 512 << 20)


def test_memory_of_the_machine() -> None:
    used, total = map(number, machine._machine_memory())
    assert total == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < used < total
    assert machine.upwards("/m", "/../outside") == ["/m"]


def test_cores_of_the_target() -> None:
    def thread(cpu: float | NA, core: int) -> ThreadReading:
        return ThreadReading(1, "", cpu, 0.0, "R", core)

    threads = (thread(0.5, 0), thread(0.25, 0), thread(0.9, 1), thread(NA("first look"), 1), thread(0.5, 9))
    readings = (ProcessReading(1, 1.0, 1.0, threads),)
    assert collector._by_core(readings, (0.8, 0.6, 1.0)) == (0.75, 0.6, 0.0)


def until(batches: list[Batch], count: int) -> None:
    deadline = time.monotonic() + 20
    while len(batches) < count:
        assert time.monotonic() < deadline, batches
        time.sleep(0.01)


def test_the_first_batch_comes_soon_and_the_rate_can_be_set() -> None:
    batches: list[Batch] = []
    host = HostCollector(batches.append, rate_hz=2.0)
    host.follow((info(os.getpid()),))
    began = time.monotonic()
    host.start()
    until(batches, 1)
    host.set_rate(50.0)
    until(batches, 6)
    host.stop()
    host.stop()
    times = [batch.time - began for batch in batches if isinstance(batch, HostBatch)]
    assert len(times) == len(batches)
    assert times[0] < 0.45  # 0.15 when the machine is free, 0.5 with no early reading
    first = batches[0]
    assert isinstance(first, HostBatch)
    assert len(first.cores) == len(first.target_cores) == (os.cpu_count() or 1)
    assert first.seconds == pytest.approx(0.15, abs=0.15)
    assert [process.pid for process in first.processes] == [os.getpid()]
    assert (host.own_pids(), host.cpu_s()) == ((), 0.0)


def test_trouble_is_said_once_and_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> tuple[float, float, float]:
        raise OSError("no load here")

    batches: list[Batch] = []
    host = HostCollector(batches.append, rate_hz=100.0)
    monkeypatch.setattr(os, "getloadavg", broken)
    host.start()
    until(batches, 1)
    time.sleep(0.1)
    assert len(batches) == 1
    monkeypatch.undo()
    until(batches, 3)
    host.stop()
    first = batches[0]
    assert isinstance(first, Note)
    assert (first.source, "no load here" in first.what) == ("host", True)
    notes = [batch.what for batch in batches if isinstance(batch, Note)]
    assert notes == [first.what, ""]


def test_stop_before_start_is_harmless() -> None:
    HostCollector(print).stop()
