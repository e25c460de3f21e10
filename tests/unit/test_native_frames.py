"""A thread's current Python frame, version by version: the same as py-spy says, and the states of its lines."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gputop.analysis.rules import classify
from gputop.collectors.native.arch import here
from gputop.collectors.native.modules import ModuleTable
from gputop.collectors.native.python.interpreter import Interpreter
from gputop.collectors.native.python.loop import LOOP
from gputop.collectors.native.space import AddressSpace
from gputop.collectors.native.task import Task
from gputop.collectors.stacks.command import find_binary
from gputop.model import Frame
from tests.fixtures_targets import TARGETS, cuda_library, start_target
from tests.interpreters import python
from tests.unit.native_tools import PATIENCE_S, Watch, names, needs_ptrace, running, watching

__all__ = ["cuda_library"]

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15")


@contextmanager
def looking(pid: int) -> Iterator[Callable[[], list[Frame | None]]]:
    """Give a function that returns the current frames of a process's Python threads."""
    arch = here()
    assert arch is not None
    modules = ModuleTable(arch.elf_machine)
    space = AddressSpace(pid, arch, modules)
    space.refresh()
    found = Interpreter(pid, space)
    tasks = [Task(pid, int(tid), 0.0, keep_open=False) for tid in os.listdir(f"/proc/{pid}/task")]
    found.locate(tasks)

    def look() -> list[Frame | None]:
        frames = []
        for task in tasks:
            if task.glance is not None:
                task.glance()
                frames.append(found.frame(task))
        return frames

    try:
        yield look
    finally:
        modules.close()


@contextmanager
def standing(pid: int) -> Iterator[None]:
    """Stop a process as Ctrl-Z does, all of its threads, and let it go on."""
    os.kill(pid, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + PATIENCE_S
        for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
            while stat.read_text().rpartition(") ")[2][0] != "T":
                assert time.monotonic() < deadline, "it does not stop"
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _pyspy(pid: int) -> list[Frame] | None:
    """Return the threads' current frames; None where py-spy cannot read the stacks, in the midst of a call."""
    command = [str(find_binary()), "dump", "--nonblocking", "--json", "--full-filenames", "--pid", str(pid)]
    run = subprocess.run(command, capture_output=True, check=False)
    if run.returncode:
        return None
    leaves = [thread["frames"][0] for thread in json.loads(run.stdout) if thread["frames"]]
    return [Frame(leaf["name"], leaf["filename"], leaf["line"]) for leaf in leaves]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_current_frames_are_those_that_pyspy_sees(version: str) -> None:
    """Between two functions the current frame may be one of the interpreter's own, which is none; that is rare.

    Of 3.10's line tables py-spy 0.4 leaves out the length of entries without a line. Every generator begins with one,
    so its lines change one instruction early.
    """
    rounds, compared, early, seen = 60, 0, 0, Counter[str]()
    with running(python(version), str(TARGETS / "frames.py")) as target, looking(target.pid) as look:
        for _ in range(rounds):
            time.sleep(random.uniform(0.0005, 0.004))
            with standing(target.pid):
                frames, expected = look(), _pyspy(target.pid)
            assert len(frames) == 2
            for frame in frames:
                if frame is not None and expected is not None:
                    early += version == "3.10" and frame not in expected
                    assert frame in expected or (early and frame[:2] in {other[:2] for other in expected})
                    compared += 1
                    seen[frame.name] += 1
    assert compared >= 0.9 * 2 * rounds
    assert early <= 0.02 * compared
    assert len(seen) > 10, "hardly any different functions: this proves little"


@needs_ptrace
@pytest.mark.parametrize("version", [*VERSIONS, "3.13t"])
def test_the_evaluation_loop_is_named(version: str) -> None:
    """Distributions strip the symbol of the part that GCC has put elsewhere, and rules go by this name."""
    spin = "print('ready', flush=True)\nwhile True: pass"
    with running(python(version), "-c", spin) as target, watching(target.pid) as watch:
        seen = watch.see(lambda seen: seen.running and len(seen.chain) > 1, target.pid)
    assert LOOP in names(seen)


@needs_ptrace
@pytest.mark.parametrize("version", [*VERSIONS, "3.13t"])
def test_each_line_of_a_short_loop_has_its_own_state(version: str, cuda_library: Path) -> None:
    """A share of a thousand looks is good to 1.5 points (one sigma)."""
    with start_target("three_lines.py", cuda_library, python=python(version)) as target:
        with watching(target.pid, rate=400.0, budget=1.0) as watch:
            watch.wait_for(lambda watch: len(watch.seen(target.pid)) > 1100, "a thousand looks")
            seconds = _by_line(watch, target.pid)
        truth = target.truth()
    total = sum(sum(states.values()) for states in seconds.values())
    starved = sum(states["starved"] for states in seconds.values()) / total
    marked = {mark: (hot["function"], hot["line"]) for mark, hot in truth["lines"].items()}
    marked["python"] = ("fold", 0)
    for mark, place in marked.items():
        states = seconds[place]
        whole = sum(states.values())
        assert states[mark] + states["starved"] > 0.95 * whole, f"{mark}: {dict(states)}"
        assert whole / total == pytest.approx(truth["shares"][mark], abs=0.05 + starved)


def _by_line(watch: Watch, tid: int) -> dict[tuple[str, int], dict[str, float]]:
    """Return seconds by function, line and state; the lines of `fold` are one."""
    seconds: dict[tuple[str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for batch in watch.batches:
        for sample in batch.samples:
            if sample.tid == tid and sample.frame >= 0:
                frame = batch.frames[sample.frame]
                states = seconds[frame.name, 0 if frame.name == "fold" else frame.line]
                states["starved"] += sample.starved
                states[classify(batch.observations[sample.observation]).state] += sample.seconds - sample.starved
    return seconds


THREADS = """
import sys, threading, time
def wait_here(event): event.wait()
def come_and_go():
    while True:
        threads = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(20)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
for _ in range(5): threading.Thread(target=wait_here, args=(threading.Event(),), daemon=True).start()
print("ready", flush=True)
come_and_go()
"""


@needs_ptrace
def test_threads_that_come_and_go(tmp_path: Path) -> None:
    """Each has a frame of its own; those that were parked all the time have theirs too."""
    script = tmp_path / "threads.py"
    script.write_text(THREADS)
    with running(python("3.11"), str(script)) as target, watching(target.pid) as watch:
        watch.wait_for(lambda watch: len(_parked(watch)) >= 5 and len(watch.seen(target.pid)) > 40, "parked threads")
        frames = {frame for batch in watch.batches for frame in batch.frames}
    assert {Path(frame.file).name for frame in frames} <= {script.name, "threading.py", "_weakrefset.py"}
    ours = {frame.name.partition(".")[0] for frame in frames if frame.file == str(script)}
    assert ours <= {"come_and_go", "wait_here", "<module>"}


def _parked(watch: Watch) -> set[int]:
    """Return the threads seen in `Condition.wait`, which is where `Event.wait` waits."""
    return {
        sample.tid
        for batch in watch.batches
        for sample in batch.samples
        if sample.frame >= 0 and batch.frames[sample.frame].name == "Condition.wait"
    }


def test_a_program_that_is_not_python_has_no_frames() -> None:
    with subprocess.Popen(["sleep", "60"]) as target:
        with looking(target.pid) as look:
            assert look() == []
        target.kill()
