"""Thread ids: of other PID namespaces, and of Pythons that only know `pthread_self()`."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from gputop.collectors.stacks.chrometrace import Label
from gputop.collectors.stacks.threads import NativeIds

#: Where two threads' records lie in the pretended memory.
MAIN_RECORD, OTHER_RECORD = 0x1000, 0x3000


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "700" / "task").mkdir(parents=True)
    return tmp_path


def add_tasks(proc: Path, tasks: dict[int, str]) -> None:
    """Make /proc/700/task; the values are the words of `NSpid`."""
    (proc / "700" / "status").write_text(f"Name:\tx\nNSpid:\t{tasks[700]}\n")
    for task, words in tasks.items():
        (proc / "700" / "task" / str(task)).mkdir(exist_ok=True)
        (proc / "700" / "task" / str(task) / "status").write_text(f"Name:\tx\nNSpid:\t{words}\nThreads:\t2\n")


def add_memory(proc: Path, records: dict[int, dict[int, int]]) -> None:
    """Make /proc/700/mem: at each address a record of 1 KiB with these words at these offsets."""
    memory = bytearray(max(records) + 1024)
    for address, words in records.items():
        for offset, value in words.items():
            struct.pack_into("i", memory, address + offset, value)
    (proc / "700" / "mem").write_bytes(memory)


def test_native_ids_stay_as_they_are(proc: Path) -> None:
    add_tasks(proc, {700: "700", 701: "701"})
    labels = [Label(700, True, "MainThread"), Label(701, True, "w"), Label(702, True, "ended")]
    assert NativeIds(700, proc).resolve(labels) == dict(zip(labels, (700, 701, 702), strict=True))


def test_ids_inside_a_container_become_ours(proc: Path) -> None:
    add_tasks(proc, {700: "700 1", 701: "701 9"})
    labels = [Label(1, True, "MainThread"), Label(9, True, "w")]
    assert NativeIds(700, proc).resolve(labels) == dict(zip(labels, (700, 701), strict=True))


def test_new_threads_in_a_container_are_found_later(proc: Path) -> None:
    add_tasks(proc, {700: "700 1"})
    ids = NativeIds(700, proc)
    ids.resolve([Label(1, True, "MainThread")])
    add_tasks(proc, {700: "700 1", 705: "705 12"})
    assert ids.resolve([Label(12, True, "new")]) == {Label(12, True, "new"): 705}


@pytest.mark.parametrize("offset", [720, 208, 48, 0, 1020])
def test_pthread_records_hold_the_id_somewhere(proc: Path, offset: int) -> None:
    """Words that are the same in both records (a process id, flags) do not mislead."""
    add_tasks(proc, {700: "700", 701: "701"})
    same = {4: 700, 8: 701, 12: 1, 724: 700} | {offset: 0}
    add_memory(proc, {MAIN_RECORD: same | {offset: 700}, OTHER_RECORD: same | {offset: 701}})
    labels = [Label(MAIN_RECORD, False, "MainThread"), Label(OTHER_RECORD, False, "w")]
    assert NativeIds(700, proc).resolve(labels) == dict(zip(labels, (700, 701), strict=True))


def test_pthread_in_a_container(proc: Path) -> None:
    add_tasks(proc, {700: "700 1", 701: "701 2"})
    add_memory(proc, {MAIN_RECORD: {24: 1, 720: 1}, OTHER_RECORD: {24: 1, 720: 2}})
    labels = [Label(MAIN_RECORD, False, "MainThread"), Label(OTHER_RECORD, False, "w")]
    assert NativeIds(700, proc).resolve(labels) == dict(zip(labels, (700, 701), strict=True))


def test_ended_thread_does_not_hide_the_others(proc: Path) -> None:
    """The C library clears the id of a thread that has ended."""
    add_tasks(proc, {700: "700", 701: "701"})
    add_memory(proc, {MAIN_RECORD: {720: 700}, OTHER_RECORD: {720: 701}, 0x5000: {720: 0}})
    labels = [Label(MAIN_RECORD, False, "MainThread"), Label(OTHER_RECORD, False, "w"), Label(0x5000, False, "gone")]
    assert NativeIds(700, proc).resolve(labels) == dict(zip(labels, (700, 701, 0x5000), strict=True))


def test_id_is_remembered_when_the_thread_has_ended(proc: Path) -> None:
    add_tasks(proc, {700: "700", 701: "701"})
    add_memory(proc, {MAIN_RECORD: {720: 700}, OTHER_RECORD: {720: 701}})
    labels = [Label(MAIN_RECORD, False, "MainThread"), Label(OTHER_RECORD, False, "w")]
    ids = NativeIds(700, proc)
    ids.resolve(labels)
    add_memory(proc, {MAIN_RECORD: {720: 700}, OTHER_RECORD: {720: 0}})
    assert ids.resolve(labels)[labels[1]] == 701


def test_memory_that_cannot_be_read_leaves_the_main_thread(proc: Path) -> None:
    add_tasks(proc, {700: "700", 701: "701"})
    labels = [Label(1 << 63, False, "MainThread"), Label((1 << 64) - 1, False, "w")]
    assert NativeIds(700, proc).resolve(labels) == {labels[0]: 700, labels[1]: (1 << 64) - 1}


def test_process_that_is_gone(proc: Path) -> None:
    labels = [Label(5, True, "MainThread"), Label(MAIN_RECORD, False, "MainThread")]
    assert NativeIds(999, proc).resolve(labels) == {labels[0]: 5, labels[1]: 999}


def test_nothing_asked() -> None:
    assert NativeIds(os.getpid()).resolve([]) == {}
