"""What is wrong, in one sentence: a table of verdicts, each with what it needs to hold and what it says.

A verdict says how much of the headline thread's time it explains. The one that explains most wins, discounted where
it is an inference; a verdict below its threshold says nothing, and when none holds the time is "mixed".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gputop.analysis import sentences
from gputop.analysis.facts import Facts
from gputop.analysis.findings import (
    BACKWARD,
    HANDOVERS,
    OWN_POOL,
    common_evidence,
    compiling,
    compute,
    detail,
    gpu_busy,
    launching,
    peers_waiting,
    state,
    waits_for_peers,
    wanted_cores,
)
from gputop.analysis.results import Verdict
from gputop.analysis.sentences import ALLOCATION, COPIES, GPU_LOW, UNREAD
from gputop.model import known

#: A wait is named once it takes this share of the thread's time; below it, no single cure helps much.
WAIT = 0.3
#: The same for waiting on a lock, a pipe or a child: often part of a program's normal life.
BLOCKED = 0.4
#: A thread that computes this much is bound by the CPU; a GPU below GPU_LOW is waiting for it.
BUSY = 0.6
#: Waiting for a GPU below this utilisation is latency, not its work; where the utilisation is not known, the wait must
#: be this large to call the GPU the limit.
GPU_LATENCY, WAIT_UNSEEN = 0.4, 0.5
#: How much longer than the GPU's work those waits must be; a program that computes and waits by turns waits as long.
LONGER = 1.5
#: From this share on launching, and this part of all the computing, an idle GPU is bound by launches. A Llama decoding
#: token by token on an H200 showed 0.70, a loop that decodes pictures for its GPU less than 0.1.
LAUNCH, OF_COMPUTE = 0.25, 1 / 3
#: Rest that makes a program idle, and share without a CPU that counts as too few of them.
REST, STARVED = 0.7, 0.2
#: A CPU quota that runs out in this share of its periods is what a thread waits for.
THROTTLED = 0.2
#: Idle cores that the program may not run on, from which that is its trouble; and how many cores its threads want for
#: each that it may run on, from which it gets into its own way.
FREE, CROWDED = 0.5, 1.1
#: Looks at a thread below which nothing is said.
FEW = 5
#: How much an inference counts beside a measurement; a good one, and any.
GOOD, LIKELY = 0.9, 0.8


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
    return state(facts, "gpu_wait") - detail(facts, *COPIES, "gpu_wait.alloc")


def _idle_gpu(facts: Facts, below: float = GPU_LOW) -> bool:
    busy = gpu_busy(facts)
    return busy is not None and busy < below


def _waits_for_an_idle_gpu(facts: Facts) -> bool:
    """Tell whether the waits are longer than the GPU's work, so that some of them are not for it."""
    return _idle_gpu(facts, GPU_LATENCY) and _gpu_work_wait(facts) > LONGER * (gpu_busy(facts) or 0.0)


def _working_gpu(facts: Facts) -> bool:
    known_busy = gpu_busy(facts) is not None and not _idle_gpu(facts, GPU_LATENCY)
    return known_busy and not waits_for_peers(facts)


def _straggler(facts: Facts) -> float:
    """Return the share in which this rank does something else while others wait in collectives, most likely for it;
    doubled, because it keeps them from their work too."""
    waiting, own = max(peers_waiting(facts), default=0.0), state(facts, "comm")
    return _from(WAIT, 1 - own, waiting >= WAIT and own < waiting / 2) * 2


def _launch_bound(facts: Facts) -> float:
    work = compute(facts) - compiling(facts)
    holds = _idle_gpu(facts) and launching(facts) >= max(LAUNCH, OF_COMPUTE * work)
    return _from(BUSY, work, holds)


def _gpu_starved(facts: Facts) -> float:
    """Return the share of work of the program's own, which is not about getting kernels onto the GPU."""
    own = compute(facts) - compiling(facts) - launching(facts)
    return _from(BLOCKED, compute(facts) - compiling(facts), _idle_gpu(facts) and own >= WAIT)


def _starved(cause: str) -> Callable[[Facts], float]:
    """Return the weight of being without a CPU, doubled because it slows everything else, where this is the cause."""
    return lambda facts: _from(STARVED, state(facts, "starved"), _cause(facts) == cause) * 2


def _cause(facts: Facts) -> str:
    """Tell why there was no CPU: "quota", "cores" (few allowed), "own", "others", or "" where nothing tells."""
    cpus = facts.cpus
    if cpus is None:
        return ""
    if (known(cpus.throttled) or 0.0) >= THROTTLED:
        return "quota"
    if cpus.elsewhere >= FREE:
        return "cores"
    missing = wanted_cores(facts) - cpus.allowed
    return "own" if missing > (CROWDED - 1) * cpus.allowed and missing >= cpus.others else "others"


def _lock(facts: Facts, handover: bool) -> float:
    """Split waiting for threads in two: what one holds, and what one will say or hand over."""
    share = state(facts, "lock") - detail(facts, OWN_POOL, BACKWARD)
    return _from(BLOCKED, share, (2 * detail(facts, *HANDOVERS) >= share) == handover)


def _single(facts: Facts) -> bool:
    used = known(facts.cores_used)
    return used is not None and used < 1.5 and facts.cores > 2


def _cpu_bound(facts: Facts, python: bool, single: bool) -> float:
    """Split "CPU bound" into its three cures: other Python, other native code, more threads."""
    one = not (single and not _single(facts))
    holds = sentences.mostly_python(facts) == python and one and not _idle_gpu(facts)
    return _from(BUSY, compute(facts), holds)


#: In order of precedence between equals: the more exact cause first.
DIAGNOSES: tuple[Diagnosis, ...] = (
    Diagnosis(
        "stopped",
        "Stopped",
        lambda facts: _from(0.5, detail(facts, "unknown.stopped")),
        sentences.stopped,
        ("a signal (SIGSTOP, Ctrl-Z) or a debugger stopped it; kill -CONT PID lets it go on",),
    ),
    Diagnosis(
        "unreadable",
        "No look inside",
        lambda facts: _from(0.5, detail(facts, *UNREAD)),
        sentences.unreadable,
        (
            "gputop doctor tells what this user may look into, and what gives the right",
            "CPU, memory and GPU figures are right all the same",
        ),
    ),
    Diagnosis(
        "straggler",
        "Others wait for this rank",
        _straggler,
        sentences.straggler,
        ("give this rank less work, or find what slows it down: its states and functions are those shown",),
        sure=GOOD,
    ),
    Diagnosis(
        "data-bound",
        "Waiting for data",
        lambda facts: _from(WAIT, state(facts, "data")),
        sentences.waits("data", "its data loader", on_gpu=True),
        ("more loader workers (num_workers), prefetch_factor, persistent_workers", "cheaper decoding and augmentation"),
    ),
    Diagnosis(
        "comm-bound",
        "Waiting for peers",
        lambda facts: _from(WAIT, state(facts, "comm")),
        sentences.waits("comm", "its peers, in collectives", on_gpu=True),
        ("look for the slowest rank: it waits least", "overlap communication, larger buckets, fewer synchronisations"),
    ),
    Diagnosis(
        "comm-bound",
        "Waiting for peers",
        lambda facts: _from(WAIT, _gpu_work_wait(facts), waits_for_peers(facts)),
        sentences.collective_on_gpu,
        ("look for the slowest rank: it waits least", "overlap communication, larger buckets, fewer synchronisations"),
        sure=GOOD,
    ),
    Diagnosis(
        "copy-bound",
        "Copying",
        lambda facts: _from(WAIT, detail(facts, *COPIES)),
        sentences.copies,
        (
            "pinned memory and non_blocking=True; keep tensors on the GPU, copy less often and in larger pieces",
            "a copy to the host first waits for the kernels before it: where little is copied, those take the time",
        ),
        sure=GOOD,
    ),
    Diagnosis(
        "alloc-bound",
        "GPU allocation",
        lambda facts: _from(STARVED, detail(facts, *ALLOCATION)),
        sentences.allocation,
        ("no empty_cache() in the loop", "steady shapes, or expandable_segments in PYTORCH_CUDA_ALLOC_CONF"),
    ),
    Diagnosis(
        "compile-bound",
        "Compiling kernels",
        lambda facts: _from(WAIT, compiling(facts)),
        sentences.kernel_compilation,
        (
            "it is normal in the first steps; if it goes on, shapes change: pad them, or use a static cache",
            "attention that cuDNN compiles for each length: torch.backends.cuda.enable_cudnn_sdp(False)",
        ),
    ),
    Diagnosis(
        "gpu-bound",
        "GPU bound",
        lambda facts: _from(WAIT, _gpu_work_wait(facts), _working_gpu(facts)),
        sentences.gpu_bound,
        ("the CPU is not the limit: faster kernels (compile, lower precision, fusion) or a larger GPU help",),
    ),
    Diagnosis(
        "gpu-bound",
        "GPU bound",
        lambda facts: _from(WAIT_UNSEEN, _gpu_work_wait(facts), gpu_busy(facts) is None),
        sentences.gpu_bound,
        ("faster kernels (compile, lower precision, fusion); whether the GPU is busy all the time could not be read",),
        sure=GOOD,
    ),
    Diagnosis(
        "sync-bound",
        "GPU latency",
        lambda facts: _from(WAIT, _gpu_work_wait(facts), _waits_for_an_idle_gpu(facts)),
        sentences.latency,
        ("synchronise less: fewer .item(), .cpu() and print of tensors", "larger batches, CUDA graphs"),
        sure=LIKELY,
    ),
    Diagnosis(
        "launch-bound",
        "Launch bound",
        _launch_bound,
        sentences.launches,
        ("CUDA graphs, torch.compile(mode='reduce-overhead'), larger batches: fewer, larger kernels",),
        sure=GOOD,
    ),
    Diagnosis(
        "gpu-starved",
        "GPU starved",
        _gpu_starved,
        sentences.starved_gpu,
        ("move this work to worker processes or to the GPU, or do it ahead of time",),
        sure=LIKELY,
    ),
    Diagnosis(
        "gil-bound",
        "Waiting for the GIL",
        lambda facts: _from(WAIT, state(facts, "gil")),
        sentences.gil,
        ("processes instead of threads for Python work", "fewer threads, or libraries that release the GIL"),
    ),
    Diagnosis(
        "starved",
        "CPU quota used up",
        _starved("quota"),
        sentences.shortage(sentences.quota),
        (
            "a higher quota: cpu.max of its control group, docker --cpus, limits.cpu in Kubernetes",
            "no more threads than the quota has CPUs (OMP_NUM_THREADS, num_workers)",
        ),
    ),
    Diagnosis(
        "starved",
        "Bound to few CPUs",
        _starved("cores"),
        sentences.shortage(sentences.few_cores),
        (
            "let it run on more cores: taskset -pc, a wider cpuset, --cpus-per-task in Slurm",
            "no more threads than it has cores (OMP_NUM_THREADS, num_workers)",
        ),
        sure=GOOD,
    ),
    Diagnosis(
        "starved",
        "CPUs taken by others",
        _starved("others"),
        sentences.shortage(sentences.taken_cores),
        ("end the other programs, lower their priority (nice), or use a quieter machine; fewer threads help little",),
        sure=GOOD,
    ),
    Diagnosis(
        "starved",
        "Too few CPUs",
        _starved("own"),
        sentences.shortage(sentences.own_cores),
        ("fewer threads and workers (OMP_NUM_THREADS, num_workers), or more CPUs",),
        sure=GOOD,
    ),
    Diagnosis(
        "starved",
        "No CPU free",
        _starved(""),
        sentences.shortage(sentences.own_cores),
        ("see who has the CPUs (top), and whether a quota (cpu.max) or taskset keeps it from more of them",),
    ),
    Diagnosis(
        "lock-bound",
        "Waiting for a lock",
        lambda facts: _lock(facts, handover=False),
        sentences.lock,
        ("shorten what is done while the lock is held", "one owner and a queue, or one lock per item"),
    ),
    Diagnosis(
        "lock-bound",
        "Waiting for another thread",
        lambda facts: _lock(facts, handover=True),
        sentences.lock,
        ("look at the thread or process that it waits for: the lists of both say what each one does",),
    ),
    Diagnosis(
        "io-bound",
        "Waiting for I/O",
        lambda facts: _from(BLOCKED, state(facts, "io")),
        sentences.waits("io", "input or output"),
        ("read ahead in another thread, in larger pieces, from a faster place",),
    ),
    Diagnosis(
        "child-bound",
        "Waiting for a child",
        lambda facts: _from(BLOCKED, state(facts, "child")),
        sentences.waits("child", "a child process"),
        ("the answer is in the child process: its threads are in the list, and gputop --pid shows it alone",),
    ),
    Diagnosis(
        "cpu-bound",
        "CPU bound: one thread",
        lambda facts: _cpu_bound(facts, python=False, single=True),
        sentences.cpu,
        ("use more cores: threads for native code that releases the GIL, otherwise processes",),
    ),
    Diagnosis(
        "cpu-bound",
        "CPU bound: Python",
        lambda facts: _cpu_bound(facts, python=True, single=False),
        sentences.cpu,
        ("vectorise the hottest function, or compile it (numba, Cython)", "processes, to use more cores"),
    ),
    Diagnosis(
        "cpu-bound",
        "CPU bound: native code",
        lambda facts: _cpu_bound(facts, python=False, single=False),
        sentences.cpu,
        ("a faster algorithm or library, lower precision, or the GPU",),
    ),
    Diagnosis(
        "idle",
        "Idle",
        lambda facts: _from(REST, state(facts, "idle")),
        sentences.idle,
        ("nothing to mend, unless it should be working: then look at who sends it work",),
    ),
)


def verdict(facts: Facts) -> Verdict:
    """Return what the window's facts say about the headline thread."""
    if facts.headline is None or _looks(facts) < FEW:
        return Verdict("no-data", "Waiting for samples", "nothing has been sampled yet")
    evidence = common_evidence(facts)
    found = max(DIAGNOSES, key=lambda diagnosis: diagnosis.sure * diagnosis.explains(facts))
    if not found.explains(facts):
        return Verdict("mixed", "Mixed", sentences.mixed(facts), evidence)
    return Verdict(found.id, found.title, found.sentence(facts), evidence, found.advice, likely=found.sure < 1)


def _looks(facts: Facts) -> int:
    headline = facts.headline
    return sum(row.samples for row in facts.threads if headline and (row.pid, row.tid) == (headline.pid, headline.tid))
