"""The sampler thread: it never holds anybody up; faults T13, T30 to T32, T35 and T38 of other monitors."""

from __future__ import annotations

import json
import os
import queue
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.collectors.gpu import collector
from gputop.collectors.gpu.collector import GpuCollector
from gputop.model import NA, Batch, GpuBatch, Note, ProcessInfo, known
from tests.fakes import gpus
from tests.fakes.build import compile_shared
from tests.fakes.nvml import Nvml

#: How long a thing that should happen at once may take on a loaded machine, seconds.
SOON = 20.0


class Run:
    """A collector that runs, and what it emits."""

    def __init__(self, *backends: str) -> None:
        self.batches: queue.Queue[Batch] = queue.Queue()
        self.collector = GpuCollector(self.batches.put, rate_hz=4, backends=backends)

    def next(self) -> Batch:
        """Return the next batch or note."""
        return self.batches.get(timeout=SOON)

    def gpus(self) -> GpuBatch:
        """Return the next batch of GPUs."""
        while True:
            batch = self.next()
            if isinstance(batch, GpuBatch):
                return batch

    def note(self) -> Note:
        """Return the next note."""
        while True:
            batch = self.next()
            if isinstance(batch, Note):
                return batch

    def stop(self) -> float:
        """Stop and return how long that took."""
        began = time.monotonic()
        self.collector.stop()
        return time.monotonic() - began


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Run a collector over the backends given as the parameter."""
    running = Run(*request.param)
    running.collector.start()
    yield running
    running.stop()


def over(*names: str) -> pytest.MarkDecorator:
    """Let the test run over backends of `tests.fakes.gpus`."""
    return pytest.mark.parametrize("run", [tuple(f"tests.fakes.gpus:{name}" for name in names)], indirect=True)


NVML = pytest.mark.parametrize("run", [("gputop.collectors.gpu.nvml:NvmlBackend",)], indirect=True)


@over("FakeBackend")
def test_first_batch_is_there_before_any_gpu_was_asked(run: Run) -> None:
    first, second = run.gpus(), run.gpus()
    assert [gpu.metric("utilization") for gpu in first.gpus] == [NA("not read yet")] * 2
    assert [gpu.metric("utilization") for gpu in second.gpus] == [0.5, 0.5]
    assert second.curve == {0: ((0.0, 0.5),), 1: ((1.0, 0.5),)}
    assert run.collector.own_pids() == ()
    assert run.collector.cpu_s() == 0.0


@over("FakeBackend")
def test_t13_processes_are_followed_under_all_their_names(run: Run) -> None:
    run.gpus()
    run.collector.follow((ProcessInfo(7, 1, 0.0, (), aliases=(7, 70)), ProcessInfo(8, 7, 0.0, ())))
    for _ in range(3):
        run.gpus()
    assert gpus.FakeBackend.watched[-1] == {7, 70, 8}


@over("MissingBackend")
def test_no_driver_is_told_once_with_the_remedy(run: Run) -> None:
    note = run.note()
    assert (note.source, note.what, note.remedy) == ("gpu", "no driver in this test", "install one")
    assert run.batches.empty()
    assert run.stop() < 0.3


@over("MissingBackend", "FakeBackend")
def test_first_backend_that_works_is_used_without_a_word_about_the_others(run: Run) -> None:
    assert isinstance(run.next(), GpuBatch)
    assert isinstance(run.next(), GpuBatch)


@over("LateBackend")
def test_driver_that_comes_later_is_found_and_the_note_withdrawn(run: Run) -> None:
    assert run.note().what == "not loaded yet"
    assert run.gpus().gpus
    withdrawn = run.note()
    assert (withdrawn.key, withdrawn.what) == ("driver", "")


@over("BrokenBackend")
def test_fault_of_ours_becomes_a_note(run: Run) -> None:
    assert "a bug" in run.note().what
    assert gpus.BrokenBackend.closed.wait(SOON)
    assert run.stop() < 0.3


@over("SlowBackend")
def test_slow_gpus_fill_in_one_by_one(run: Run) -> None:
    run.gpus()
    partial = run.gpus()
    done = [known(gpu.metric("utilization")) is not None for gpu in partial.gpus]
    assert len(done) == 8
    assert 0 < sum(done) < 8
    assert done == sorted(done, reverse=True)


@over("FakeBackend")
def test_t35_driver_is_never_asked_more_than_four_times_a_second(run: Run) -> None:
    run.collector.set_rate(100)
    assert run.collector._period == 0.25
    run.collector.set_rate(2)
    assert run.collector._period == 0.5


@over("FakeBackend")
def test_backend_is_closed_and_stop_may_come_twice(run: Run) -> None:
    run.gpus()
    assert run.stop() < 0.3
    assert gpus.FakeBackend.closed.wait(SOON)
    assert run.stop() < 0.3


def test_stop_before_start() -> None:
    GpuCollector(lambda batch: None).stop()


@pytest.fixture
def slow_driver(nvml: Nvml) -> Nvml:
    """A driver with eight GPUs that takes 100 ms for each call."""
    nvml.use_real_clock()
    nvml.script("gpus 8", "delay * 100")
    return nvml


@NVML
def test_t30_slow_driver_is_painted_at_once_and_left_at_once(slow_driver: Nvml, run: Run) -> None:
    began = time.monotonic()
    assert len(run.gpus().gpus) == 8
    assert time.monotonic() - began < 1.0, "two calls of 100 ms, and the import"
    while known(run.gpus().gpus[0].metric("utilization")) is None:
        pass
    assert run.stop() < 0.3
    run.collector._thread.join(SOON)
    assert slow_driver.calls("nvmlShutdown") == 1


@pytest.fixture
def hanging(nvml: Nvml, tmp_path: Path) -> Iterator[None]:
    """A driver that does not come back from its start as long as the test runs."""
    (tmp_path / "hang").touch()
    nvml.script(f"hang nvmlInit {tmp_path / 'hang'}")
    yield
    (tmp_path / "hang").unlink(missing_ok=True)


@NVML
def test_t30_driver_that_hangs_does_not_hold_stop(hanging: None, run: Run) -> None:
    time.sleep(0.2)
    assert run.stop() < 0.3
    assert run.collector._thread.is_alive(), "it is left behind as a daemon"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that waits for the driver for a moment only before it says so."""
    monkeypatch.setattr(collector, "PATIENCE_S", 0.2)
    monkeypatch.setattr(collector, "WATCH_EVERY_S", 0.02)


@NVML
def test_driver_that_hangs_is_named_until_it_answers(impatient: None, hanging: None, run: Run, tmp_path: Path) -> None:
    note = run.note()
    assert (note.key, note.what) == ("silent", "the GPU driver does not answer")
    assert "dmesg" in note.remedy
    (tmp_path / "hang").unlink()
    withdrawn = next(note for note in iter(run.note, None) if note.key == "silent")
    assert withdrawn.what == ""


@pytest.fixture
def lazy_driver(nvml: Nvml) -> None:
    """A driver with eight GPUs that takes 20 ms for each call."""
    nvml.use_real_clock()
    nvml.script("gpus 8", "delay * 20")


@NVML
def test_t31_nobody_waits_while_the_driver_is_slow(lazy_driver: None, run: Run) -> None:
    run.gpus()
    late = []
    for _ in range(40):
        began = time.monotonic()
        run.collector.follow(())
        time.sleep(0.005)
        late.append(time.monotonic() - began - 0.005)
    assert statistics.median(late) < 0.05
    run.stop()
    run.collector._thread.join(SOON)


def test_t32_sixteen_gpus_take_no_more_memory_with_time(nvml: Nvml) -> None:
    backend = nvml.started("gpus 16", "set * gpm.2 40", f"process * C {os.getpid()} 10", f"use * {os.getpid()} 4 2")
    nvml.looks(backend, os.getpid(), until=40.0)
    tracemalloc.start()
    nvml.looks(backend, os.getpid(), until=60.0)
    before = tracemalloc.get_traced_memory()[0]
    nvml.looks(backend, os.getpid(), until=100.0)
    growth = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert growth < 64 << 10


def test_t38_every_value_is_a_number_or_null(nvml: Nvml) -> None:
    backend = nvml.started("gpus 2", "error * 15 1 2", "set 0 gpm.2 40", "error nvmlDeviceGetFanSpeed 3")
    for gpu in nvml.looks(backend, until=6.0):
        values = {name: known(value) for name, value in gpu.metrics.items()}
        assert all(value is None or type(value) is float for value in values.values())
        assert json.loads(json.dumps(values)) == values


PROGRAM = """
import sys, time
from gputop.collectors.gpu import collector
from gputop.collectors.gpu.collector import GpuCollector
assert "pynvml" not in sys.modules
batches = []
collector = GpuCollector(batches.append, rate_hz=4)
collector.start()
deadline = time.monotonic() + float(sys.argv[1])
while time.monotonic() < deadline and not any(getattr(batch, "curve", None) for batch in batches):
    time.sleep(0.01)
collector.stop()
for gpu in batches[-1].gpus if batches else ():
    print(gpu.name, gpu.others)
"""


def in_a_program(library: Path, script: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run the collector in a program that finds the stand-in as it would find NVML."""
    environ = os.environ | {"LD_LIBRARY_PATH": str(library.parent), "GPUTOP_NVML_SCRIPT": str(script)}
    command = [sys.executable, "-c", PROGRAM, str(seconds)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.usefixtures("nvml_library")
def test_library_without_version_3_symbols(tmp_path: Path) -> None:
    library = compile_shared("nvml_old.c", "libnvidia-ml.so.1", tmp_path)
    script = tmp_path / "script"
    script.write_text("text 0 name Old\nprocess 0 C 1 10\nprocess 0 C 2 10\n")
    done = in_a_program(library, script, SOON)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "Old 2.0\n")


@pytest.mark.usefixtures("nvml_library")
def test_t30_program_ends_while_the_driver_hangs(tmp_path: Path) -> None:
    library = compile_shared("nvml.c", "libnvidia-ml.so.1", tmp_path)
    script = tmp_path / "script"
    script.write_text(f"hang nvmlInit {tmp_path}\n")
    done = in_a_program(library, script, 0.5)
    assert (done.returncode, done.stderr) == (0, "")
