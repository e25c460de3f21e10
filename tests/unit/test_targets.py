"""The known-answer programs do what they say, and one look after the other finds them at it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from gputop.analysis.rules import classify
from gputop.collectors.native import PeekCollector
from gputop.model import Batch, Note, Observation, PeekBatch, ProcessInfo
from tests.fixtures_targets import Target, cuda_library, nccl_library, start_target

__all__ = ["cuda_library", "nccl_library"]

#: What each program of waits.py is doing.
WAITS = {
    "lock": "lock.python",
    "queue": "lock.python",
    "semaphore": "lock.semaphore",
    "pipe": "io.pipe",
    "socket": "io.socket",
    "tty": "io.tty",
    "child": "child",
    "sleep": "idle.sleep",
    "asyncio": "idle.event_loop",
}

CALLS = {
    "cuStreamSynchronize": "gpu_wait.sync",
    "cuEventSynchronize": "gpu_wait.event",
    "cuMemcpyDtoHAsync_v2": "gpu_wait.copy_to_host",
    "cuLaunchKernel": "gpu_api.launch",
    "cuLaunchKernelEx": "gpu_wait.queue_full",
}

#: Looks at each program, and how long they may take on a loaded machine.
LOOKS, PATIENCE_S = 12, 30.0


def watch(targets: Iterable[Target]) -> dict[int, list[Observation]]:
    """Look at the targets' main threads until each was seen LOOKS times with its symbols."""
    seen: dict[int, list[Observation]] = {target.pid: [] for target in targets}
    enough = threading.Event()

    def take(batch: Batch) -> None:
        assert not isinstance(batch, Note), batch
        if isinstance(batch, PeekBatch) and batch.pid in seen:
            looks = (batch.observations[sample.observation] for sample in batch.samples if sample.tid == batch.pid)
            seen[batch.pid] += [look for look in looks if not look.chain or any(f.symbol for f in look.chain)]
        if all(len(looks) >= LOOKS for looks in seen.values()):
            enough.set()

    collector = PeekCollector(take)
    collector.start()
    try:
        collector.follow(tuple(ProcessInfo(pid, 0, 0.0, ()) for pid in seen))
        assert enough.wait(PATIENCE_S), {pid: len(looks) for pid, looks in seen.items()}
    finally:
        collector.stop()
    return seen


def usual(looks: list[Observation]) -> str:
    """Return the state and kind seen most."""
    return Counter(classify(look).detail for look in looks).most_common(1)[0][0]


def test_waits_are_seen_for_what_they_are() -> None:
    with ExitStack() as stack:
        targets = {name: stack.enter_context(start_target("waits.py", name)) for name in WAITS}
        seen = watch(targets.values())
        assert {name: usual(seen[target.pid]) for name, target in targets.items()} == WAITS
        for target in targets.values():
            target.truth()


def test_calls_into_the_stand_in_driver(cuda_library: Path) -> None:
    with ExitStack() as stack:
        targets = {name: stack.enter_context(start_target("gpu_call.py", cuda_library, name)) for name in CALLS}
        seen = watch(targets.values())
        assert {name: usual(seen[target.pid]) for name, target in targets.items()} == CALLS
        inside = [frame for frame in seen[targets["cuLaunchKernel"].pid][-1].chain if frame.module == "libcuda.so.1"]
        assert [frame.symbol for frame in inside if frame.symbol] == ["cuLaunchKernel"]
        assert len(inside) > 1


def test_mix_keeps_its_shares(cuda_library: Path) -> None:
    shares = {"python": 0.3, "native": 0.2, "gpu_wait": 0.3, "idle": 0.2}
    with start_target("mix.py", cuda_library, 40, *(f"{state}={share}" for state, share in shares.items())) as target:
        time.sleep(1.0)
        truth = target.truth()
    # What is missing is preemption between two phases, on a loaded machine.
    assert 0.85 < sum(truth["shares"].values()) < 1.01
    assert truth["shares"].keys() == {*shares, "starved"}


@pytest.mark.parametrize(
    ("program", "arguments", "function"),
    [
        ("computes.py", ("busy",), "busy"),
        ("computes.py", ("hash",), "hash_blocks"),
        ("computes.py", ("recursion",), "climb"),
        ("gil.py", (), "compute"),
    ],
)
def test_hot_lines_are_where_they_say(program: str, arguments: tuple[str, ...], function: str) -> None:
    with start_target(program, *arguments) as target:
        place = target.truth()["hot"]
    line = Path(place["file"]).read_text().splitlines()[place["line"] - 1]
    assert place["function"] == function
    assert "# hot" in line


def test_a_target_that_does_not_start_is_noticed() -> None:
    with pytest.raises(AssertionError, match="did not get ready"), start_target("computes.py", "nothing"):
        pass


def test_gil_threads_add_up() -> None:
    with start_target("gil.py", 3) as target:
        time.sleep(0.5)
        threads = target.truth()["threads"]
    assert len(threads) == 3
    for split in threads.values():
        assert sum(split.values()) == pytest.approx(1.0)
        assert split["gil"] > 0
    # One at a time; taking the lock costs CPU time beside it.
    assert sum(split["python"] for split in threads.values()) < 1.2
