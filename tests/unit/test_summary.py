"""The summary of a window: which thread it is about, and that every part is there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.analysis import tiles
from gputop.analysis.facts import Facts
from gputop.analysis.results import ThreadRow, Verdict
from gputop.analysis.summary import call_tree, headline_key, summarise
from gputop.model import (
    NA,
    CostBatch,
    Frame,
    GpuBatch,
    GpuReading,
    GpuUse,
    NativeFrame,
    Note,
    Observation,
    ProcessBatch,
    ProcessInfo,
    Value,
    Window,
)
from gputop.store import Store, ThreadKey
from tests.unit.analysis_tools import (
    DECODE,
    LOCK,
    MAIN,
    NATIVE,
    PID,
    PYTHON,
    ROOT,
    SLEEP,
    STEP,
    SYNC,
    WORKER,
    Seen,
    host,
    peeks,
    stacks,
    stored,
)

WINDOW = Window(0, 10)
HELP = Frame("help", "data.py", 7)


def gpu(time: float, energy: Value, utilization: Value = 0.5, index: int = 0) -> GpuBatch:
    metrics: dict[str, Value] = {
        "utilization": utilization,
        "energy_j": energy,
        "memory_used_bytes": 1e9,
        "memory_total_bytes": 2e9,
    }
    use = GpuUse(0.25, NA("x"), 1e9, True, ((PID, 1e9),))
    return GpuBatch(time, (GpuReading(index, f"GPU-{index}", "H200", metrics, use),))


def test_everything_is_there() -> None:
    cost = CostBatch(9.0, {"peek": 0.02}, 0.0, 100.0, 50.0, 0.0)
    note = Note(1.0, "gpu", "driver", "old driver")
    store = stored(
        ProcessBatch(0.0, (ROOT,), ((55, 3),)),
        peeks(PID, [(0, 6, PYTHON), (6, 10, SYNC)]),
        stacks(PID, [(0, 6, (MAIN, DECODE)), (6, 10, (MAIN, STEP))]),
        *(host(0.5 * number, {PID: 0.75, 101: 0.0}, used=1.5) for number in range(1, 21)),
        gpu(1.0, 100.0),
        gpu(9.0, 250.0),
        cost,
        note,
    )
    summary = summarise(store, WINDOW, columns=20)
    assert summary.processes == (ROOT,)
    assert summary.ended == {55: 3}
    main, other = summary.threads
    assert (main.tid, main.name, main.role, main.main, main.samples) == (PID, "MainThread", "main", True, 500)
    assert main.cpu == pytest.approx(0.75)
    assert (other.tid, other.name, other.samples, other.states) == (101, "comm101", 0, {"unknown": 1.0})
    assert summary.headline is not None
    assert summary.headline.compute == pytest.approx(0.6, abs=1e-6)
    assert summary.headline.gpu_wait == pytest.approx(0.4, abs=1e-6)
    assert (summary.headline.other_wait, summary.headline.idle) == (0.0, 0.0)
    assert [row.name for row in summary.functions] == ["decode", "step", "main"]
    assert [row.line for row in summary.lines] == [31, 88, 10]
    assert len(summary.timeline.columns) == 20
    assert summary.host is not None
    assert summary.host.time == 10.0
    assert [reading.index for reading in summary.gpus] == [0]
    assert summary.energy_j == {0: 150.0}
    assert summary.verdict.id != "no-data"
    assert (summary.cost, summary.notes) == (cost, (note,))


AWAIT = Observation(
    syscall="futex", chain=(NativeFrame("libjax_common.so", ""), NativeFrame("python3.11", "_PyEval_EvalFrameDefault"))
)
DRIVER = Observation(syscall="poll", chain=(NativeFrame("libc.so.6", "poll"), NativeFrame("libcuda.so.1", "")))


def test_xla_waits_for_a_gpu_only_where_one_is_used() -> None:
    """The wait looks the same in JAX on the CPU; the driver's list, names of its threads, or a thread in CUDA tell."""
    waiting = peeks(PID, [(0, 10, AWAIT)])
    on_cpu = summarise(stored(waiting, peeks(101, [(0, 10, NATIVE)])), WINDOW, columns=5)
    assert on_cpu.headline is not None
    assert on_cpu.headline.tid == PID, "the pool works for the main thread"
    assert on_cpu.threads[0].detail == {"lock.pool": pytest.approx(1.0)}
    assert on_cpu.timeline.columns[2].states == {"lock": pytest.approx(1.0)}
    for sign in (gpu(9.5, 1.0), host(0.5, {101: 0.0}, name="cuda-EvtHandlr"), peeks(101, [(0, 10, DRIVER)])):
        on_gpu = summarise(stored(waiting, sign), WINDOW, columns=5)
        assert on_gpu.threads[0].detail == {"gpu_wait.await": pytest.approx(1.0)}, sign
        assert on_gpu.timeline.columns[2].states == {"gpu_wait": pytest.approx(1.0)}, sign


def test_a_gpu_that_shows_up_later_is_believed_from_then_on() -> None:
    store = stored(*(peeks(PID, [(2 * number, 2 * number + 2, AWAIT)]) for number in range(5)))
    assert summarise(store, WINDOW).threads[0].states == {"lock": pytest.approx(1.0)}
    store.add(peeks(101, [(8, 10, DRIVER)]))
    assert summarise(store, WINDOW).threads[0].states == {"gpu_wait": pytest.approx(1.0)}
    assert summarise(store, Window(0, 6)).threads[0].states == {"gpu_wait": pytest.approx(1.0)}


BACKWARD = Observation(
    syscall="futex",
    chain=(
        NativeFrame("libc.so.6", "pthread_cond_wait"),
        NativeFrame("libtorch_cpu.so", "_ZN5torch8autograd6Engine7executeERKSt6vector"),
        NativeFrame("libpython3.11.so.1.0", "_PyEval_EvalFrameDefault"),
    ),
)
LAUNCH = Observation(
    running=True, chain=(NativeFrame("libcuda.so.1", ""), NativeFrame("libcuda.so.1", "cuLaunchKernel"))
)
PARKED = Observation(
    syscall="futex", chain=(NativeFrame("libtorch_cpu.so", "_ZN5torch8autograd6Engine11thread_mainERK"),)
)


def test_in_backward_the_headline_follows_the_autograd_thread() -> None:
    """The main thread computes and waits by turns; a quarter of what the other does for it is native code."""
    mine: list[Seen] = []
    theirs: list[Seen] = []
    for at in range(0, 10, 2):
        mine += [(at, at + 1.0, PYTHON), (at + 1.0, at + 2.0, BACKWARD)]
        theirs += [(at, at + 1.0, PARKED), (at + 1.0, at + 1.75, LAUNCH), (at + 1.75, at + 2.0, NATIVE)]
    worker = replace(peeks(101, theirs), names={101: "pt_autograd_0"})
    summary = summarise(stored(peeks(PID, mine), worker), WINDOW, columns=10)
    assert summary.headline is not None
    assert summary.headline.states == pytest.approx({"python": 0.5, "gpu_api": 0.375, "native": 0.125})
    assert (summary.headline.compute, summary.headline.other_wait) == pytest.approx((1.0, 0.0))
    assert summary.timeline.columns[3].states == pytest.approx({"gpu_api": 0.75, "native": 0.25}, abs=0.05)
    assert summary.timeline.columns[4].states == {"python": pytest.approx(1.0)}
    main, other = summary.threads
    assert main.states == pytest.approx({"python": 0.5, "lock": 0.5})
    assert other.states == pytest.approx({"idle": 0.5, "gpu_api": 0.375, "native": 0.125})
    assert "50 % of its time is backward(), where the autograd thread works for it" in summary.verdict.evidence


def test_backward_without_its_thread_stays_a_wait() -> None:
    """PyTorch on the CPU runs it in the calling thread, and a worker that was not seen can tell nothing."""
    summary = summarise(stored(peeks(PID, [(0, 5, PYTHON), (5, 10, BACKWARD)])), WINDOW, columns=10)
    assert summary.headline is not None
    assert summary.headline.detail == {"lock.autograd": pytest.approx(0.5)}


def test_an_empty_window_says_so() -> None:
    summary = summarise(stored(), WINDOW)
    assert (summary.headline, summary.host) == (None, None)
    assert (summary.threads, summary.functions, summary.gpus) == ((), (), ())
    assert summary.processes == (ROOT,), "what was asked for is known before anything is sampled"
    assert summary.verdict.id == "no-data"


def test_a_thread_that_gets_no_cpu_is_at_work_all_the_same() -> None:
    """It would work if it could: on a crowded machine the answer is not about the main thread that sleeps."""
    crowded = peeks(101, [(0, 10, PYTHON)], starved=0.018)
    named = stacks(101, [(0, 10, (MAIN,))], name="worker")
    headline = summarise(stored(peeks(PID, [(0, 10, SLEEP)]), crowded, named), WINDOW).headline
    assert headline is not None
    assert headline.name == "worker"
    assert headline.states["starved"] == pytest.approx(0.9)


def test_of_ranks_that_wait_for_each_other_the_slowest_is_the_headline() -> None:
    """A launcher (torchrun) sleeps; one rank sleeps too long, the other waits for it in a collective."""
    gloo = Observation(syscall="futex", chain=(NativeFrame("libtorch_cpu.so", "_ZN4c10d4Work4waitENSt6chrono8"),))
    ranks = tuple(replace(ROOT, pid=pid, rank=number, python="3.11.7") for number, pid in enumerate((201, 202)))
    looks = [
        peeks(PID, [(0, 10, SLEEP)]),
        peeks(201, [(0, 10, gloo)], 201),
        peeks(202, [(0, 8, SLEEP), (8, 10, gloo)], 202),
    ]
    summary = summarise(stored(ProcessBatch(0.0, (ROOT, *ranks)), *looks), WINDOW)
    assert summary.headline is not None
    assert summary.headline.pid == 202
    assert "other processes in collectives meanwhile: 1, up to 100 % of their time" in summary.verdict.evidence
    assert summary.verdict.sentence == "others wait up to 100 % for pid 202: idle 80 %"
    alone = summarise(stored(ProcessBatch(0.0, (replace(ROOT, rank=0, python="3.11.7"), *ranks)), *looks), WINDOW)
    assert alone.headline is not None
    assert alone.headline.pid == PID, "it is a rank itself"


def test_without_a_session_there_is_no_summary() -> None:
    with pytest.raises(ValueError, match="session"):
        summarise(Store(), WINDOW)


def test_energy_without_two_readings_is_not_available() -> None:
    assert isinstance(summarise(stored(gpu(1.0, 100.0)), WINDOW).energy_j[0], NA)
    missing = summarise(stored(gpu(1.0, NA("not supported")), gpu(2.0, NA("not supported"))), WINDOW)
    assert missing.energy_j[0] == NA("not supported")


def test_the_main_thread_is_the_headline() -> None:
    store = stored(
        peeks(PID, [(0, 3, PYTHON), (3, 10, LOCK)]),
        peeks(101, [(0, 10, NATIVE)]),
        stacks(101, [(0, 10, (MAIN,))], name="busy"),
    )
    headline = summarise(store, WINDOW).headline
    assert headline is not None
    assert headline.tid == PID, "it works 30 % of the time"


@pytest.mark.parametrize(("rest", "expected"), [(LOCK, 101), (SLEEP, 101), (SYNC, PID)])
def test_a_main_thread_that_only_waits_gives_way_to_a_python_thread(rest: Observation, expected: int) -> None:
    store = stored(
        peeks(PID, [(0, 10, rest)]),
        stacks(PID, [(0, 10, (MAIN, STEP))]),
        peeks(101, [(0, 5, PYTHON), (5, 10, LOCK)]),
        stacks(101, [(0, 10, (MAIN, DECODE))], name="worker"),
        peeks(102, [(0, 10, NATIVE)]),  # busier, but not Python: a spinning OpenMP thread
    )
    headline = summarise(store, WINDOW).headline
    assert headline is not None
    assert headline.tid == expected


def test_without_python_any_thread_can_be_the_headline() -> None:
    store = stored(peeks(PID, [(0, 10, LOCK)]), peeks(102, [(0, 10, NATIVE)]))
    headline = summarise(store, WINDOW).headline
    assert headline is not None
    assert headline.tid == 102


def test_a_worker_that_hardly_works_does_not_take_over() -> None:
    store = stored(
        peeks(PID, [(0, 10, LOCK)]),
        peeks(101, [(0, 1, PYTHON), (1, 10, LOCK)]),
        stacks(101, [(0, 10, WORKER)], name="worker"),
    )
    headline = summarise(store, WINDOW).headline
    assert headline is not None
    assert headline.tid == PID


def test_a_child_process_can_be_the_headline() -> None:
    child = ProcessInfo(200, PID, 1.7e9, ("python", "worker.py"))
    store = stored(
        ProcessBatch(0.0, (ROOT, child)),
        peeks(PID, [(0, 10, LOCK)]),
        stacks(PID, [(0, 10, (MAIN,))]),
        peeks(200, [(0, 10, PYTHON)], pid=200),
        stacks(200, [(0, 10, (MAIN, DECODE))], pid=200),
    )
    summary = summarise(store, WINDOW)
    assert summary.headline is not None
    assert (summary.headline.pid, summary.headline.tid) == (200, 200)
    assert summary.functions[0].name == "decode"


def test_a_chosen_thread_is_the_headline_while_it_is_there() -> None:
    store = stored(peeks(PID, [(0, 10, PYTHON)]), peeks(101, [(0, 10, LOCK)]))
    chosen = summarise(store, WINDOW, thread=(PID, 101)).headline
    gone = summarise(store, WINDOW, thread=(PID, 999)).headline
    assert chosen is not None
    assert gone is not None
    assert (chosen.tid, gone.tid) == (101, PID)


def test_no_threads_no_headline() -> None:
    assert headline_key({}, (ROOT,)) is None
    assert headline_key({}, (ROOT,), ThreadKey(1, 1)) is None


def thread_row(pid: int, seconds: float, **states: float) -> ThreadRow:
    return ThreadRow(pid, pid, "MainThread", "main", True, 10, seconds, 0.0, states, {})


def test_a_child_that_lived_for_a_moment_is_no_headline() -> None:
    parent = ThreadKey(ROOT.pid, ROOT.pid)
    child = ThreadKey(ROOT.pid + 1, ROOT.pid + 1)
    waiting = thread_row(parent.pid, 10.0, child=1.0)
    short, long = (thread_row(child.pid, seconds, python=1.0) for seconds in (0.1, 9.0))
    assert headline_key({parent: waiting, child: short}, (ROOT,)) == parent
    assert headline_key({parent: waiting, child: long}, (ROOT,)) == child


def test_facts_reach_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Facts] = []
    said = Verdict("idle", "said", "so")

    def verdict(facts: Facts) -> Verdict:
        seen.append(facts)
        return said

    monkeypatch.setattr("gputop.analysis.diagnose.verdict", verdict)
    store = stored(
        peeks(PID, [(0, 10, PYTHON)]),
        stacks(PID, [(0, 10, (MAIN,))]),
        host(1.0, {PID: 1.0}, used=1.0),
        host(2.0, {PID: 1.0}, used=2.0),
        gpu(1.0, 1.0, utilization=0.25),
        gpu(2.0, 2.0, utilization=0.75),
        gpu(2.0, 2.0, utilization=NA("lost"), index=1),
    )
    assert summarise(store, WINDOW).verdict == said
    (facts,) = seen
    assert facts.cores_used == 1.5
    assert facts.cores == 4
    assert (facts.stack_samples, facts.stack_failed) == (100, 1)
    first, lost = facts.gpus
    assert (first.utilization, first.target_sm, first.target_memory_bytes, first.used) == (0.5, 0.25, 1e9, True)
    assert first.pids == (PID,)
    assert lost.utilization == NA("lost")
    assert facts.window == WINDOW


def test_hours_of_summaries_keep_only_what_the_last_ones_needed() -> None:
    store = stored()
    kept: list[int] = []
    for second in range(0, 400, 4):
        store.add(peeks(PID, [(second, second + 2.0, PYTHON), (second + 2.0, second + 4.0, SYNC)]))
        store.add(stacks(PID, [(second, second + 2.0, (MAIN, DECODE)), (second + 2.0, second + 4.0, (MAIN, STEP))]))
        summarise(store, Window(max(0, second - 20), second + 4.0), columns=24)
        kept.append(len(tiles.of(store)))
    assert max(kept[50:]) == max(kept[10:50])


def _two_threads() -> Store:
    return stored(
        peeks(PID, [(0, 6, PYTHON), (6, 10, SYNC)]),
        peeks(101, [(0, 10, NATIVE)]),
        stacks(PID, [(0, 6, (MAIN, DECODE)), (6, 10, (MAIN, STEP))]),
        stacks(101, [(0, 10, (HELP,))]),
    )


def test_one_thread_alone_or_all_threads_work() -> None:
    store = _two_threads()
    together, alone = summarise(store, WINDOW), summarise(store, WINDOW, alone=True)
    assert [row.name for row in together.functions] == ["help", "decode", "step", "main"]
    assert [row.name for row in alone.functions] == ["decode", "step", "main"]
    assert [row.function for row in alone.lines] == ["decode", "step", "main"]
    assert alone.verdict == together.verdict, "what is listed does not change what is said"


def test_no_thread_has_more_than_all_of_the_time() -> None:
    """Its last stack ends a sample later than py-spy's window, from which the time watched is told."""
    late = replace(stacks(PID, [(0, 4, (MAIN, DECODE)), (4, 10, (MAIN, STEP))]), end=9.5)
    store = stored(peeks(PID, [(0, 10, PYTHON)]), late)
    rows = {row.name: row for row in summarise(store, WINDOW).functions}
    assert rows["main"].total_share == pytest.approx(1.0)
    assert rows["decode"].self_share == pytest.approx(0.4)
    tree = call_tree(store, WINDOW)
    assert tree.root.total / tree.seconds == pytest.approx(1.0)


def test_the_newest_stack_is_that_of_the_windows_end() -> None:
    store = _two_threads()
    assert summarise(store, WINDOW).stack == (MAIN, STEP)
    assert summarise(store, Window(0, 5)).stack == (MAIN, DECODE)
    assert summarise(store, Window(20, 30)).stack == ()


def test_the_call_tree_follows_the_choice_of_threads() -> None:
    store = _two_threads()
    assert {child.frame for child in call_tree(store, WINDOW).root.children} == {HELP, MAIN}
    (main,) = call_tree(store, WINDOW, alone=True).root.children
    assert main.frame == MAIN
    assert main.total == pytest.approx(10.0)
    assert [child.frame for child in main.children] == [DECODE, STEP]
