"""What is wrong, in one sentence: a table of verdicts, each with what it needs to hold and what it says.

A verdict says how much of the headline thread's time it explains. The one that explains most wins, discounted where
it is an inference; a verdict below its threshold says nothing, and when none holds the time is "mixed".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gputop.analysis.facts import Facts
from gputop.analysis.findings import (
    BACKWARD,
    COMPUTE,
    OWN_POOLS,
    at_work_meanwhile,
    common_evidence,
    compute,
    cores,
    detail,
    fit,
    gpu_busy,
    hottest,
    name,
    percent,
    spends,
    state,
    waits_for,
    where,
    with_backward,
    without_gpu,
)
from gputop.analysis.results import Verdict
from gputop.model import known

#: A wait is named once it takes this share of the thread's time; below it, no single cure helps much.
WAIT = 0.3
#: The same for waiting on a lock, a pipe or a child: often part of a program's normal life.
BLOCKED = 0.4
#: A thread that computes this much is bound by the CPU; a GPU below this utilisation is waiting for it.
BUSY = 0.6
GPU_LOW = 0.5
#: Waiting for a GPU below this utilisation is latency, not its work; where the utilisation is not known, the wait must
#: be this large to call the GPU the limit.
GPU_LATENCY, WAIT_UNSEEN = 0.4, 0.5
#: From this share on GPU calls, an idle GPU is bound by launches. A Llama decoding token by token showed 0.33.
LAUNCH = 0.15
#: Rest that makes a program idle, and share without a CPU that counts as too few of them.
REST, STARVED = 0.7, 0.2
#: Looks at a thread below which nothing is said.
FEW = 5
#: How much an inference counts beside a measurement.
LIKELY = 0.8

_COPIES = ("gpu_wait.copy_to_host", "gpu_wait.copy_to_device", "gpu_wait.copy")
_ALLOC = ("gpu_api.alloc", "gpu_wait.alloc")
_UNREAD = ("unknown.on_cpu", "unknown.blocked")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One verdict.

    Attributes:
        id, title, advice: as in `Verdict`.
        explains: share of the headline thread's time that it accounts for; 0 when it does not hold.
        sentence: the numbers in words, at most 100 characters.
        sure: 1 when measured, less when inferred.
    """

    id: str
    title: str
    explains: Callable[[Facts], float]
    sentence: Callable[[Facts], str]
    advice: tuple[str, ...]
    sure: float = 1.0


def _from(threshold: float, share: float, holds: bool = True) -> float:
    return share if holds and share >= threshold else 0.0


def _gpu_work_wait(facts: Facts) -> float:
    """Return the share of waiting for the GPU's work rather than for copies and allocations."""
    return state(facts, "gpu_wait") - detail(facts, *_COPIES, "gpu_wait.alloc")


def _idle_gpu(facts: Facts, below: float) -> bool:
    busy = gpu_busy(facts)
    return busy is not None and busy < below


def _gpu_prefix(facts: Facts) -> str:
    busy = gpu_busy(facts)
    return f"GPU idle {percent(1 - busy)}: " if busy is not None and busy < GPU_LOW else ""


def _gpu_bound(facts: Facts) -> str:
    busy = gpu_busy(facts)
    prefix = f"GPU busy {percent(busy)}: " if busy is not None else ""
    kind = waits_for(facts, "gpu_wait", "synchronise")
    return f"{prefix}{name(facts)} waits {percent(state(facts, 'gpu_wait'))} for the GPU ({kind})"


def _copy_bound(facts: Facts) -> str:
    to_host, to_device = (percent(detail(facts, kind)) for kind in _COPIES[:2])
    total = percent(detail(facts, *_COPIES))
    return f"{name(facts)} waits {total} for copies: {to_host} to the host, {to_device} to the GPU"


def _waiting(of: str, otherwise: str) -> Callable[[Facts], str]:
    """Return a builder of "X waits 40 % for a queue in f (file:1)"."""

    def sentence(facts: Facts) -> str:
        what = waits_for(facts, of, otherwise)
        return fit(f"{name(facts)} waits {percent(state(facts, of))} for {what}", *where(hottest(facts, of)))

    return sentence


def _lock_bound(facts: Facts) -> str:
    meanwhile = at_work_meanwhile(facts)
    what = waits_for(facts, "lock", "a lock")
    tail = (f"; {meanwhile}",) if meanwhile else where(hottest(facts, "lock"))
    return fit(f"{name(facts)} waits {percent(state(facts, 'lock'))} for {what}", *tail)


def _gil_bound(facts: Facts) -> str:
    rivals = sum(
        1 for thread in facts.threads if thread.states.get("gil", 0.0) + thread.states.get("python", 0.0) > 0.1
    )
    return f"{name(facts)} waits {percent(state(facts, 'gil'))} for the GIL; {rivals} threads want to run Python"


def _launch_bound(facts: Facts) -> str:
    busy = gpu_busy(facts) or 0.0
    calls = percent(state(facts, "gpu_api"))
    return f"GPU idle {percent(1 - busy)}: {name(facts)} is busy preparing work, {calls} in GPU calls"


def _cpu_where(facts: Facts) -> str:
    main = "Python" if _mostly_python(facts) else "native code"
    used = f"; {cores(facts)}" if cores(facts) else ""
    return fit(
        f"{name(facts)} computes {percent(compute(facts))}, mostly {main}", *where(hottest(facts, *COMPUTE)), used
    )


def _mostly_python(facts: Facts) -> bool:
    return 2 * state(facts, "python") >= compute(facts)


def _single(facts: Facts) -> bool:
    used = known(facts.cores_used)
    return used is not None and used < 1.5 and facts.cores > 2


def _cpu_bound(facts: Facts, python: bool, single: bool) -> float:
    """Split "CPU bound" into its three cures: other Python, other native code, more threads."""
    holds = _mostly_python(facts) == python and not (single and not _single(facts)) and not _idle_gpu(facts, GPU_LOW)
    return _from(BUSY, compute(facts), holds)


def _idle(facts: Facts) -> str:
    kind = "sleeps" if detail(facts, "idle.sleep") > detail(facts, "idle.event_loop") else "has nothing to do"
    return fit(f"{name(facts)} {kind} {percent(state(facts, 'idle'))} of the time", *where(hottest(facts, "idle")))


def _mixed(facts: Facts) -> str:
    headline = facts.headline
    top = sorted(headline.states.items(), key=lambda item: -item[1])[:3] if headline else []
    return f"{name(facts)}: " + ", ".join(f"{key.replace('_', ' ')} {percent(share)}" for key, share in top)


#: In order of precedence between equals: the more exact cause first.
DIAGNOSES: tuple[Diagnosis, ...] = (
    Diagnosis(
        "stopped",
        "Stopped",
        lambda facts: _from(0.5, detail(facts, "unknown.stopped")),
        lambda facts: f"{name(facts)} was stopped {percent(detail(facts, 'unknown.stopped'))} of the time",
        ("a signal (SIGSTOP, Ctrl-Z) or a debugger stopped it; kill -CONT PID lets it go on",),
    ),
    Diagnosis(
        "unreadable",
        "No look inside",
        lambda facts: _from(0.5, detail(facts, *_UNREAD)),
        lambda facts: f"{name(facts)} cannot be looked into: on a CPU {percent(detail(facts, _UNREAD[0]))} of the time",
        ("the notes say why, and what gives the right to look",),
    ),
    Diagnosis(
        "data-bound",
        "Waiting for data",
        lambda facts: _from(WAIT, state(facts, "data")),
        lambda facts: f"{_gpu_prefix(facts)}{name(facts)} waits {percent(state(facts, 'data'))} for its data loader",
        ("more loader workers (num_workers), prefetch_factor, persistent_workers", "cheaper decoding and augmentation"),
    ),
    Diagnosis(
        "comm-bound",
        "Waiting for peers",
        lambda facts: _from(WAIT, state(facts, "comm")),
        lambda facts: f"{_gpu_prefix(facts)}{name(facts)} waits {percent(state(facts, 'comm'))} in collectives",
        ("look for the slowest rank: it waits least", "overlap communication, larger buckets, fewer synchronisations"),
    ),
    Diagnosis(
        "copy-bound",
        "Copying",
        lambda facts: _from(WAIT, detail(facts, *_COPIES)),
        _copy_bound,
        ("pinned memory and non_blocking=True", "keep tensors on the GPU; copy less often and in larger pieces"),
    ),
    Diagnosis(
        "alloc-bound",
        "GPU allocation",
        lambda facts: _from(STARVED, detail(facts, *_ALLOC)),
        lambda facts: f"{name(facts)} spends {percent(detail(facts, *_ALLOC))} allocating and freeing GPU memory",
        ("no empty_cache() in the loop", "steady shapes, or expandable_segments in PYTORCH_CUDA_ALLOC_CONF"),
    ),
    Diagnosis(
        "gpu-bound",
        "GPU bound",
        lambda facts: _from(
            WAIT_UNSEEN if gpu_busy(facts) is None else WAIT, _gpu_work_wait(facts), not _idle_gpu(facts, GPU_LATENCY)
        ),
        _gpu_bound,
        ("the CPU is not the limit: faster kernels (compile, lower precision, fusion) or a larger GPU help",),
    ),
    Diagnosis(
        "sync-bound",
        "GPU latency",
        lambda facts: _from(WAIT, _gpu_work_wait(facts), _idle_gpu(facts, GPU_LATENCY)),
        lambda facts: (
            f"{_gpu_prefix(facts)}{name(facts)} waits {percent(state(facts, 'gpu_wait'))} in many short waits"
        ),
        ("synchronise less: fewer .item(), .cpu() and print of tensors", "larger batches, CUDA graphs"),
        sure=LIKELY,
    ),
    Diagnosis(
        "launch-bound",
        "Launch bound",
        lambda facts: _from(BUSY, compute(facts), state(facts, "gpu_api") >= LAUNCH and _idle_gpu(facts, GPU_LOW)),
        _launch_bound,
        ("CUDA graphs, torch.compile(mode='reduce-overhead'), larger batches: fewer, larger kernels",),
        sure=LIKELY + 0.1,
    ),
    Diagnosis(
        "gpu-starved",
        "GPU starved",
        lambda facts: _from(GPU_LOW, compute(facts), _idle_gpu(facts, GPU_LOW)),
        lambda facts: fit(_gpu_prefix(facts), spends(facts, *COMPUTE)),
        ("move this work to worker processes or to the GPU, or do it ahead of time",),
        sure=LIKELY,
    ),
    Diagnosis(
        "gil-bound",
        "Waiting for the GIL",
        lambda facts: _from(WAIT, state(facts, "gil")),
        _gil_bound,
        ("processes instead of threads for Python work", "fewer threads, or libraries that release the GIL"),
    ),
    Diagnosis(
        "starved",
        "Too few CPUs",
        lambda facts: _from(STARVED, state(facts, "starved")) * 2,
        lambda facts: f"{name(facts)} was ready but had no CPU {percent(state(facts, 'starved'))} of the time",
        ("fewer threads (OMP_NUM_THREADS, num_workers), or more CPUs for the container",),
    ),
    Diagnosis(
        "lock-bound",
        "Waiting for a lock",
        lambda facts: _from(BLOCKED, state(facts, "lock") - detail(facts, *OWN_POOLS, BACKWARD)),
        _lock_bound,
        ("shorten what is done while the lock is held", "one owner and a queue, or one lock per item"),
    ),
    Diagnosis(
        "io-bound",
        "Waiting for I/O",
        lambda facts: _from(BLOCKED, state(facts, "io")),
        _waiting("io", "input or output"),
        ("read ahead in another thread, in larger pieces, from a faster place",),
    ),
    Diagnosis(
        "child-bound",
        "Waiting for a child",
        lambda facts: _from(BLOCKED, state(facts, "child")),
        _waiting("child", "a child process"),
        ("the answer is in the child process: choose it in the process list",),
    ),
    Diagnosis(
        "cpu-bound",
        "CPU bound: one thread",
        lambda facts: _cpu_bound(facts, python=False, single=True),
        _cpu_where,
        ("use more cores: threads for native code that releases the GIL, otherwise processes",),
    ),
    Diagnosis(
        "cpu-bound",
        "CPU bound: Python",
        lambda facts: _cpu_bound(facts, python=True, single=False),
        _cpu_where,
        ("vectorise the hottest function, or compile it (numba, Cython)", "processes, to use more cores"),
    ),
    Diagnosis(
        "cpu-bound",
        "CPU bound: native code",
        lambda facts: _cpu_bound(facts, python=False, single=False),
        _cpu_where,
        ("a faster algorithm or library, lower precision, or the GPU",),
    ),
    Diagnosis(
        "idle",
        "Idle",
        lambda facts: _from(REST, state(facts, "idle")),
        _idle,
        ("nothing to mend, unless it should be working: then look at who sends it work",),
    ),
)


def verdict(facts: Facts) -> Verdict:
    """Return what the window's facts say about the headline thread."""
    if facts.headline is None or _looks(facts) < FEW:
        return Verdict("no-data", "Waiting for samples", "nothing has been sampled yet")
    facts = without_gpu(facts)
    merged = with_backward(facts)
    evidence = common_evidence(merged)
    if merged is not facts:
        evidence += (f"{percent(detail(facts, BACKWARD))} of this is backward, told by the autograd thread",)
    found = max(DIAGNOSES, key=lambda diagnosis: diagnosis.sure * diagnosis.explains(merged))
    if not found.explains(merged):
        return Verdict("mixed", "Mixed", _mixed(merged), evidence)
    return Verdict(found.id, found.title, found.sentence(merged), evidence, found.advice, likely=found.sure < 1)


def _looks(facts: Facts) -> int:
    headline = facts.headline
    return sum(row.samples for row in facts.threads if headline and (row.pid, row.tid) == (headline.pid, headline.tid))
