"""Each verdict holds where it should, not quite next to it, and says the numbers that it rests on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from gputop.analysis import diagnose, hot
from gputop.analysis.diagnose import DIAGNOSES, verdict
from gputop.analysis.facts import CpuFacts, Facts, GpuFacts
from gputop.analysis.results import FunctionRow, Headline, ThreadRow
from gputop.analysis.rules import Classified
from gputop.analysis.rules_python import is_library
from gputop.analysis.split import StackSplit
from gputop.analysis.states import groups
from gputop.model import NA, Frame, Value, Window

NO = NA("not measured")
WAITING = Classified("lock", "queue")


def gpu(busy: Value, present: bool = True) -> GpuFacts:
    return GpuFacts(0, "H200", busy, NO, 8e9, 80e9, NO, present)


def row(name: str, self_share: float, **states: float) -> FunctionRow:
    return FunctionRow(name, f"/app/{name}.py", 31, self_share, self_share, states)


def thread(name: str, tid: int, detail: dict[str, float]) -> ThreadRow:
    return ThreadRow(1, tid, name, "python", tid == 1, 250, 5.0, 0.5, _states(detail), detail)


def _states(detail: dict[str, float]) -> dict[str, float]:
    states: dict[str, float] = {}
    for key, share in detail.items():
        state = key.partition(".")[0]
        states[state] = states.get(state, 0.0) + share
    return states


def facts(
    detail: dict[str, float],
    busy: Value | None = None,
    functions: tuple[FunctionRow, ...] = (),
    others: tuple[ThreadRow, ...] = (),
    cores_used: float = 1.1,
    present: bool = True,
    cpus: CpuFacts | None = None,
) -> Facts:
    """Build facts from the headline thread's detail, which sums to 1 with the rest idle."""
    detail = {**detail, "idle.sleep": round(1 - sum(detail.values()), 6)}
    states = _states(detail)
    group = groups(states)
    headline = Headline(
        1, 1, "MainThread", group["compute"], group["gpu_wait"], group["other_wait"], group["idle"], states, detail
    )
    gpus = () if busy is None else (gpu(busy, present),)
    threads = (thread("MainThread", 1, detail), *others)
    return Facts(
        window=Window(0.0, 5.0),
        headline=headline,
        threads=threads,
        functions=functions,
        callers=tuple(row for row in functions if not is_library(row.file)),
        gpus=gpus,
        cores_used=cores_used,
        cores=16,
        stack_samples=500,
        stack_failed=4,
        cpus=cpus,
    )


@dataclass(frozen=True)
class Case:
    """Facts of one verdict, the same a little short of it, and words that its sentence must hold."""

    id: str
    title: str
    holds: Facts
    near_miss: Facts
    words: tuple[str, ...]


DECODE = (row("decode", 0.61, native=0.9, python=0.1), row("step", 0.1, gpu_wait=1.0))

#: Another process of the job, and what this one does meanwhile.
PEER = replace(thread("MainThread", 9, {"comm.gloo": 0.9}), pid=9, main=True)
PART = (row("part", 0.8, python=1.0),)

#: Three threads that are on a CPU half of the time, and ready for one the other half.
CROWD = tuple(thread(f"w{number}", number, {"starved": 0.5, "native": 0.5}) for number in (2, 3, 4))

CASES = (
    Case("stopped", "Stopped", facts({"unknown.stopped": 0.7}), facts({"unknown.stopped": 0.4}), ("70 %",)),
    Case(
        "unreadable",
        "No look inside",
        facts({"unknown.on_cpu": 0.3, "unknown.blocked": 0.6}),
        facts({"unknown.on_cpu": 0.2, "unknown.blocked": 0.2}),
        ("cannot be looked into", "on a CPU 30 %"),
    ),
    Case(
        "straggler",
        "Others wait for this rank",
        facts({"python": 0.8, "comm.gloo": 0.1}, functions=PART, others=(PEER,)),
        facts({"python": 0.4, "comm.gloo": 0.5}, functions=PART, others=(PEER,)),
        ("others wait up to 90 % for pid 1: python 80 % in part (part.py:31)",),
    ),
    Case(
        "data-bound",
        "Waiting for data",
        facts({"data.loader": 0.45, "python": 0.2}, busy=0.3),
        facts({"data.loader": 0.25, "python": 0.2}, busy=0.3),
        ("45 %", "GPU idle 70 %"),
    ),
    Case(
        "comm-bound",
        "Waiting for peers",
        facts({"comm.nccl": 0.35, "native": 0.3}, busy=0.9),
        facts({"comm.nccl": 0.2, "native": 0.3}, busy=0.9),
        ("35 %",),
    ),
    Case(
        "copy-bound",
        "Copying",
        facts({"gpu_wait.copy_to_host": 0.5, "gpu_wait.copy_to_device": 0.2, "gpu_wait.sync": 0.2}, busy=0.6),
        facts({"gpu_wait.copy_to_host": 0.2, "gpu_wait.sync": 0.6}, busy=0.6),
        ("70 %", "50 % to the host", "20 % to the GPU"),
    ),
    Case(
        "alloc-bound",
        "GPU allocation",
        facts({"gpu_api.alloc": 0.4, "gpu_wait.alloc": 0.2, "python": 0.2}, busy=0.8),
        facts({"gpu_api.alloc": 0.1, "python": 0.2}, busy=0.8),
        ("60 %",),
    ),
    Case(
        "gpu-bound",
        "GPU bound",
        facts({"gpu_wait.sync": 0.74, "native": 0.2}, busy=0.97),
        facts({"gpu_wait.sync": 0.25, "native": 0.2}, busy=0.97),
        ("GPU busy 97 %", "waits 74 % for the GPU (synchronise)"),
    ),
    Case(
        "sync-bound",
        "GPU latency",
        facts({"gpu_wait.sync": 0.5, "native": 0.3}, busy=0.2),
        facts({"gpu_wait.sync": 0.5, "native": 0.3}, busy=0.6),
        ("50 %", "GPU idle 80 %"),
    ),
    Case(
        "launch-bound",
        "Launch bound",
        facts({"gpu_api.launch": 0.2, "gpu_api.query": 0.13, "native.dispatch": 0.38, "python": 0.27}, busy=0.1),
        facts({"gpu_api.launch": 0.1, "native.dispatch": 0.14, "native": 0.45, "python": 0.3}, busy=0.1),
        ("GPU idle 90 %", "spends 71 % launching its work (33 % in GPU calls)"),
    ),
    Case(
        "gpu-starved",
        "GPU starved",
        facts({"native": 0.6, "python": 0.2, "gpu_wait.sync": 0.1}, busy=0.28, functions=DECODE),
        facts({"native": 0.6, "python": 0.2, "gpu_wait.sync": 0.1}, busy=0.6, functions=DECODE),
        ("GPU idle 72 %", "61 % in decode (decode.py:31)"),
    ),
    Case(
        "gil-bound",
        "Waiting for the GIL",
        facts({"gil": 0.7, "python": 0.25}, others=(thread("w", 2, {"gil": 0.7, "python": 0.25}),)),
        facts({"gil": 0.2, "python": 0.45}),
        ("70 %", "2 threads"),
    ),
    Case(
        "compile-bound",
        "Compiling kernels",
        facts({"native.compile": 0.6, "native.dispatch": 0.2, "gpu_api.module_load": 0.05}, busy=0.07),
        facts({"native.compile": 0.2, "native.dispatch": 0.6, "gpu_api.module_load": 0.05}, busy=0.07),
        ("GPU idle 93 %", "65 % compiling or loading kernels"),
    ),
    Case(
        "starved",
        "CPU quota used up",
        facts({"starved": 0.35, "python": 0.5}, cpus=CpuFacts(16, 16, 0.5, 9.0, 0.0, 0.5, 0.98)),
        facts({"starved": 0.35, "python": 0.5}, cpus=CpuFacts(16, 16, 0.5, 9.0, 0.0, 0.5, 0.1)),
        ("35 %", "its quota of 0.5 CPUs ran out in 98 % of periods"),
    ),
    Case(
        "starved",
        "Bound to few CPUs",
        facts({"starved": 0.35, "python": 0.5}, cpus=CpuFacts(16, 1, 0.5, 0.5, 9.0)),
        facts({"starved": 0.35, "python": 0.5}, cpus=CpuFacts(16, 1, 0.5, 0.5, 0.2)),
        ("35 %", "it may use 1 of 16 cores while others idle"),
    ),
    Case(
        "starved",
        "CPUs taken by others",
        facts({"starved": 0.35, "python": 0.5}, cpus=CpuFacts(16, 16, 0.5, 15.2), others=CROWD[:1]),
        facts({"starved": 0.35, "python": 0.5}, cpus=CpuFacts(16, 2, 0.5, 1.5), others=CROWD),
        ("35 %", "other programs keep 15.2 of 16 cores"),
    ),
    Case(
        "starved",
        "Too few CPUs",
        facts({"starved": 0.35, "python": 0.5}, cpus=CpuFacts(2, 2, 1.1, 0.9), others=CROWD),
        facts({"starved": 0.35, "python": 0.5}, cpus=CpuFacts(4, 4, 1.1, 0.9), others=CROWD),
        ("35 %", "its threads want 3.9 cores and may use 2"),
    ),
    Case(
        "starved",
        "No CPU free",
        facts({"starved": 0.35, "python": 0.5}),
        facts({"starved": 0.1, "python": 0.8}),
        ("35 %",),
    ),
    Case(
        "lock-bound",
        "Waiting for a lock",
        facts({"lock.python": 0.8}, functions=DECODE, others=(thread("worker-1", 2, {"native": 0.9}),)),
        facts({"lock.python": 0.3}, functions=DECODE, others=(thread("worker-1", 2, {"native": 0.9}),)),
        ("80 %", "worker-1 computes 90 % in decode (decode.py:31)"),
    ),
    Case(
        "lock-bound",
        "Waiting for another thread",
        facts({"lock.event": 0.8}, functions=(row("serve", 0.8, lock=1.0),)),
        facts({"lock.event": 0.3, "lock.mutex": 0.5}, functions=(row("serve", 0.8, lock=1.0),)),
        ("waits 80 % for an event in serve (serve.py:31)",),
    ),
    Case(
        "io-bound",
        "Waiting for I/O",
        facts({"io.disk": 0.6, "python": 0.2}, functions=(row("load", 0.6, io=1.0),)),
        facts({"io.disk": 0.3, "python": 0.2}),
        ("60 %", "the disk", "load (load.py:31)"),
    ),
    Case("child-bound", "Waiting for a child", facts({"child": 0.9}), facts({"child": 0.3}), ("90 %", "child process")),
    Case(
        "cpu-bound",
        "CPU bound: one thread",
        facts({"native": 0.95}, functions=DECODE),
        facts({"native": 0.95}, functions=DECODE, cores_used=12.0),
        ("95 %", "decode (decode.py:31)", "1.1 of 16 cores"),
    ),
    Case(
        "cpu-bound",
        "CPU bound: Python",
        facts({"python": 0.9}, functions=DECODE),
        facts({"python": 0.5}, functions=DECODE),
        ("90 %", "Python", "decode (decode.py:31)"),
    ),
    Case(
        "cpu-bound",
        "CPU bound: native code",
        facts({"native": 0.9}, cores_used=12.0),
        facts({"native": 0.5}, cores_used=12.0),
        ("90 %", "native code", "12.0 of 16 cores"),
    ),
    Case("idle", "Idle", facts({"python": 0.1}), facts({"python": 0.35}), ("90 %", "sleeps")),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_holds_and_says_its_numbers(case: Case) -> None:
    found = verdict(case.holds)
    assert (found.id, found.title) == (case.id, case.title)
    for words in case.words:
        assert words in found.sentence
    assert found.advice
    assert len(found.sentence) <= 100


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_near_miss(case: Case) -> None:
    assert verdict(case.near_miss).title != case.title


def test_every_diagnosis_has_a_case() -> None:
    assert {case.title for case in CASES} == {diagnosis.title for diagnosis in DIAGNOSES}


def test_guesses_are_marked() -> None:
    sure = {case.title: verdict(case.holds).likely for case in CASES}
    assert {title for title, likely in sure.items() if likely} == {
        "Others wait for this rank",
        "GPU latency",
        "Copying",
        "Launch bound",
        "GPU starved",
        "Bound to few CPUs",
        "CPUs taken by others",
        "Too few CPUs",
    }


def _in_cuda(case: Case) -> bool:
    headline = case.holds.headline
    return headline is not None and any(state.startswith("gpu") for state in headline.states)


@pytest.mark.parametrize("case", [case for case in CASES if not _in_cuda(case)], ids=lambda case: case.title)
def test_nothing_about_gpus_without_one(case: Case) -> None:
    found = verdict(replace(case.holds, gpus=()))
    assert "GPU" not in " ".join((found.title, found.sentence, *found.evidence))


def test_a_gpu_of_somebody_else_is_not_ours_to_starve() -> None:
    found = verdict(facts({"python": 0.9}, busy=0.0, present=False))
    assert found.id == "cpu-bound"
    assert "GPU" not in found.sentence


def test_a_gpu_of_unknown_utilisation_needs_more_waiting_to_be_the_limit() -> None:
    assert verdict(facts({"gpu_wait.queue_full": 0.6, "native": 0.3})).id == "gpu-bound"
    assert verdict(facts({"gpu_wait.sync": 0.4, "native": 0.3, "python": 0.2})).id == "mixed"


def test_no_data_and_too_little_of_it() -> None:
    assert verdict(Facts(Window(0.0, 1.0))).id == "no-data"
    full = facts({"python": 0.9})
    few = tuple(replace(thread, samples=diagnose.FEW - 1) for thread in full.threads)
    assert verdict(replace(full, threads=few)).id == "no-data"


def test_without_a_function_the_verdict_is_still_a_whole_sentence() -> None:
    found = verdict(facts({"native": 0.53}, busy=0.25))
    assert found.id == "gpu-starved"
    assert found.sentence == "GPU idle 75 %: MainThread is at work 53 % of the time"


def test_mixed_names_the_largest_parts() -> None:
    found = verdict(facts({"python": 0.3, "lock.python": 0.25, "io.disk": 0.2}))
    assert found.id == "mixed"
    assert found.sentence == "MainThread: python 30 %, lock 25 %, idle 25 %"


def test_what_the_autograd_thread_told_is_said() -> None:
    found = verdict(replace(facts({"native": 0.9}), backward=0.5))
    assert "50 % of its time is backward(), where the autograd thread works for it" in found.evidence


def test_xla_on_the_cpu_is_not_bound_by_a_gpu() -> None:
    rows = (row("importing", 0.05, python=1.0), row("train", 0.9, lock=1.0))
    found = verdict(facts({"lock.pool": 0.92, "native": 0.05}, functions=rows))
    assert found.id == "cpu-bound"
    assert "GPU" not in " ".join((found.title, found.sentence, *found.evidence))
    assert "computes 97 %, mostly native code in train (train.py:31)" in found.sentence
    assert verdict(facts({"gpu_wait.await": 0.92, "native": 0.05}, busy=0.9)).id == "gpu-bound"


def test_waiting_for_its_own_pool_is_computing() -> None:
    found = verdict(facts({"lock.pool": 0.4, "native": 0.5}, cores_used=12.0))
    assert (found.id, found.title) == ("cpu-bound", "CPU bound: native code")
    assert "computes 90 %" in found.sentence


def test_code_that_only_waits_for_others_is_not_named() -> None:
    """Nor is a library's function that was on the CPU for a moment: the user's function around the wait is."""
    library = "/usr/lib/python3.12"
    start = Frame("<module>", "/app/main.py", 70)
    consume = Frame("consume", "/app/consume.py", 31)
    get = Frame("Queue.get", f"{library}/queue.py", 171)
    weighed = [
        StackSplit((start, consume, get, Frame("Condition.wait", f"{library}/threading.py", 355)), {WAITING: 4.5}),
        StackSplit((start, Frame("dirname", f"{library}/posixpath.py", 150)), {WAITING: 0.05}),
        StackSplit((start, Frame("load", "/app/main.py", 9)), {Classified("python"): 0.45}),
    ]
    rows = hot.tables(weighed, 5.0).functions
    callers = hot.callers(weighed, 5.0)
    found = verdict(replace(facts({"lock.queue": 0.9}, functions=rows), callers=callers))
    assert found.sentence == "MainThread waits 90 % for a queue in consume (consume.py:31)"
    assert "hottest function: 90 % in Condition.wait (threading.py:355)" in found.evidence
    assert "your code: 90 % in consume (consume.py:31), calls included" in found.evidence


def test_no_function_is_named_for_waits_that_are_spread() -> None:
    spread = tuple(row(f"part{number}", 0.09, lock=1.0) for number in range(10))
    assert verdict(facts({"lock.queue": 0.9}, functions=spread)).sentence == "MainThread waits 90 % for a queue"


def test_pool_threads_that_spin_do_not_compute() -> None:
    assert verdict(facts({"native.pool_spin": 0.9})).id == "mixed"


def test_evidence_has_the_split_and_bridged_reads() -> None:
    found = verdict(replace(facts({"python": 0.9}, functions=DECODE), stack_failed=100))
    assert found.evidence[0] == "MainThread: python 90 %, idle 10 % (sleep)"
    assert "20 % of the stack reads failed and were bridged" in found.evidence


def test_long_names_do_not_break_the_line() -> None:
    long = row("very_long_function_name_" * 20, 0.9, python=1.0)
    found = verdict(facts({"python": 0.9}, functions=(long,)))
    assert len(found.sentence) <= 100
    assert "very_long_function_name_ver…" in found.sentence
