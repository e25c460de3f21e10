"""The timeline: columns that stay where they are, curves averaged over the time that each reading stands for."""

from __future__ import annotations

import pytest

from gputop.analysis import timeline
from gputop.analysis.results import Timeline
from gputop.model import NA, GpuBatch, GpuReading, GpuUse, Value, Window
from gputop.store import Store, ThreadKey
from tests.unit.analysis_tools import LOADER, LOCK, NATIVE, PID, PYTHON, SYNC, host, peeks, stacks, stored

KEY = ThreadKey(PID, PID)


def gpu(
    time: float, metrics: dict[str, Value], curve: tuple[tuple[float, float], ...] = (), index: int = 0
) -> GpuBatch:
    use = GpuUse(0.5, NA("x"), 1e9)
    return GpuBatch(time, (GpuReading(index, f"GPU-{index}", "H200", metrics, use),), {index: curve} if curve else {})


def states(built: Timeline) -> list[str]:
    return [max(column.states, key=lambda name: column.states[name], default="") for column in built.columns]


def test_columns_hold_the_states_of_their_time() -> None:
    store = stored(peeks(PID, [(0, 4, PYTHON), (4, 5, NATIVE), (5, 10, SYNC)]))
    built = timeline.build(store, KEY, Window(0, 10), 10)
    assert states(built) == ["python"] * 4 + ["native"] + ["gpu_wait"] * 5
    assert [(column.start, column.seconds) for column in built.columns] == [(float(at), 1.0) for at in range(10)]
    assert all(sum(column.states.values()) == pytest.approx(1.0, abs=1e-9) for column in built.columns)


def test_a_column_is_the_same_in_every_picture() -> None:
    """The window moves by odd steps and is never exactly as long; columns only come in on the right."""
    store = stored(peeks(PID, [(float(at), at + 1.0, PYTHON if at % 3 else SYNC) for at in range(100)]))
    seen: dict[float, object] = {}
    for step in range(40):
        end = 70.0 + 0.37 * step
        built = timeline.build(store, KEY, Window(end - 60.0, end), 120)
        assert len(built.columns) == 120
        last = built.columns[-1]
        assert last.start < end <= last.start + last.seconds + 1e-9
        for column in built.columns[:-1]:
            assert seen.setdefault(column.start, column) == column


def test_time_without_looks_is_an_empty_column() -> None:
    store = stored(peeks(PID, [(0, 2, PYTHON), (8, 10, NATIVE)]))
    assert states(timeline.build(store, KEY, Window(0, 10), 5)) == ["python", "", "", "", "native"]


def test_the_newest_columns_show_waits_as_they_usually_are() -> None:
    """py-spy's stacks come a second late; until then "lock" would flicker where "data" is known a column before."""
    store = stored(peeks(PID, [(0, 10, LOCK)]), stacks(PID, [(0, 8, LOADER)]))
    assert states(timeline.build(store, KEY, Window(0, 10), 10)) == ["data"] * 10


def test_without_looks_the_cpu_time_is_shown() -> None:
    store = stored(*(host(0.5 * number, {PID: 1.0 if number <= 4 else 0.0}) for number in range(1, 9)))
    built = timeline.build(store, KEY, Window(0, 4), 4)
    assert [column.states for column in built.columns] == [{"unknown": 1.0}] * 4


def test_without_a_thread_there_are_columns_without_states() -> None:
    built = timeline.build(stored(host(1.0, {})), None, Window(0, 4), 4)
    assert [column.states for column in built.columns] == [{}] * 4
    assert len(built.cpu.values) == 4


def test_cpu_is_the_share_of_the_whole_machine() -> None:
    """Readings each half second, columns of 0.4 s: each column averages the readings that it overlaps."""
    store = stored(host(0.5, {}, used=1.0), host(1.0, {}, used=3.0))
    values = timeline.build(store, None, Window(0, 2), 5).cpu.values
    assert values[:3] == pytest.approx((0.25, (0.1 * 0.25 + 0.3 * 0.75) / 0.4, 0.75))
    assert all(isinstance(value, NA) for value in values[3:])


def test_gpu_curve_is_finer_than_its_readings() -> None:
    points = ((0.25, 1.0), (0.5, 0.0), (0.75, 1.0), (1.0, 1.0))
    built = timeline.build(stored(gpu(1.0, {"utilization": 0.9}, points)), None, Window(0, 1), 4)
    assert [series.label for series in built.gpus] == ["GPU 0"]
    assert built.gpus[0].values == pytest.approx((1.0, 0.0, 1.0, 1.0))


def test_gpu_readings_stand_for_the_time_since_the_last_but_not_for_a_gap() -> None:
    readings = (gpu(1.0, {"utilization": 0.5}), gpu(2.0, {"utilization": 1.0}), gpu(10.0, {"utilization": 0.25}))
    values = timeline.build(stored(*readings), None, Window(0, 10), 10).gpus[0].values
    assert values[:2] == (0.5, 1.0)
    assert [isinstance(value, NA) for value in values] == [False] * 2 + [True] * 6 + [False] * 2


def test_each_gpu_has_its_curve_and_its_memory() -> None:
    full = {"utilization": 1.0, "memory_used_bytes": 3e9, "memory_total_bytes": 4e9}
    missing: dict[str, Value] = {"utilization": NA("lost"), "memory_used_bytes": NA("lost")}
    built = timeline.build(stored(gpu(1.0, dict(full)), gpu(1.0, missing, index=3)), None, Window(0, 1), 1)
    assert [series.label for series in built.gpus] == ["GPU 0", "GPU 3"]
    assert [series.label for series in built.gpu_memory] == ["GPU 0 memory", "GPU 3 memory"]
    assert built.gpu_memory[0].values == (0.75,)
    assert isinstance(built.gpus[1].values[0], NA)
    assert isinstance(built.gpu_memory[1].values[0], NA)


def test_an_empty_store_gives_empty_columns() -> None:
    built = timeline.build(Store(), KEY, Window(0, 60), 120)
    assert states(built) == [""] * 120
    assert (built.gpus, built.gpu_memory) == ((), ())
    assert all(isinstance(value, NA) for value in built.cpu.values)


def test_strips_are_the_columns_of_each_thread() -> None:
    other = ThreadKey(PID, PID + 1)
    store = stored(peeks(PID, [(0, 3, PYTHON), (3, 6, SYNC)]), peeks(PID + 1, [(0, 6, NATIVE)]))
    found = timeline.strips(store, [KEY, other], Window(0, 6), 3)
    assert found == {key: timeline.build(store, key, Window(0, 6), 3).columns for key in (KEY, other)}
    assert [len(column.states) for column in found[KEY]] == [1, 2, 1]
