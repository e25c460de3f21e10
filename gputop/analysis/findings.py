"""What the verdicts ask of the facts, and how they word it: shares, the GPUs' idle time, the functions to name."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from gputop.analysis.facts import Facts, mean
from gputop.analysis.results import FunctionRow, Headline, ThreadRow
from gputop.analysis.rules_python import is_library, is_plumbing
from gputop.analysis.states import BY_ID
from gputop.model import Value, known
from gputop.text import printable

#: Longest sentence, a line of the screen beside the title; and longest name in it.
SENTENCE_LIMIT = 100
_NAME_LIMIT = 28

COMPUTE = ("python", "native", "gpu_api")
#: Waiting for one's own threads, which compute: OpenMP and BLAS pools, XLA's and TensorFlow's on the CPU.
OWN_POOL = "lock.pool"
#: Waiting for what another thread will say or hand over, where a lock proper is held by one.
HANDOVERS = tuple(f"lock.{kind}" for kind in "event queue condition join future barrier eventfd".split())
_COMPILING = ("native.compile", "gpu_api.module_load", "child.compile")
#: A GPU that is busy for so much of the time, with work on so few of its multiprocessors, is likely held by a
#: collective: NCCL takes 32 of them at most by default (NCCL_MAX_CTAS), of the 132 of an H100 or H200.
SPINNING, FEW_SM = 0.8, 0.25
#: A function is named for a wait when it has this part of it.
NAMED = 0.34
BACKWARD = "lock.autograd"

_KINDS = {
    "gpu_wait.sync": "synchronise",
    "gpu_wait.event": "event",
    "gpu_wait.copy_to_host": "copy to the host",
    "gpu_wait.copy_to_device": "copy to the GPU",
    "gpu_wait.copy": "copy",
    "gpu_wait.queue_full": "launch queue full",
    "gpu_wait.alloc": "allocation",
    "gpu_wait.await": "results",
    "io.pipe": "a pipe",
    "io.socket": "the network or a socket",
    "io.disk": "the disk",
    "io.tty": "the terminal",
    "lock.python": "a lock",
    "lock.mutex": "a lock",
    "lock.queue": "a queue",
    "lock.join": "a thread to end",
    "lock.future": "a future",
    "lock.condition": "a condition",
    "lock.semaphore": "a semaphore",
    "lock.autograd": "the autograd thread",
    "lock.pool": "its thread pool",
    "lock.event": "an event",
    "lock.barrier": "a barrier",
    "lock.file": "a file lock",
    "lock.eventfd": "an event",
    "lock.cuda": "the CUDA driver's lock",
    "lock.memory_map": "the kernel's lock of its memory map",
    "child.compile": "a compiler",
    "child.spawn": "a process to start",
}


def percent(share: float) -> str:
    """Write a share as whole percent."""
    return f"{share * 100:.0f} %"


def state(facts: Facts, *states: str) -> float:
    """Return the headline thread's share in these states."""
    return sum(facts.headline.states.get(name, 0.0) for name in states) if facts.headline else 0.0


def detail(facts: Facts, *details: str) -> float:
    """Return the headline thread's share in these kinds ("gpu_wait.sync")."""
    return sum(facts.headline.detail.get(name, 0.0) for name in details) if facts.headline else 0.0


def compute(facts: Facts) -> float:
    """Return the headline thread's share at work: by itself or by the threads of its pools, but not where it spins."""
    return state(facts, *COMPUTE) + detail(facts, OWN_POOL) - detail(facts, "native.pool_spin")


def launching(facts: Facts) -> float:
    """Return the headline thread's share on the way from an operation to its kernel's launch: in the framework's layers
    and in the GPU's calls, without what is compiled or loaded there."""
    return state(facts, "gpu_api") + detail(facts, "native.dispatch") - detail(facts, "gpu_api.module_load")


def compiling(facts: Facts) -> float:
    """Return the headline thread's share that goes into compiling kernels and loading them."""
    return detail(facts, *_COMPILING)


def uses_gpu(facts: Facts) -> bool:
    """Tell whether the target has to do with a GPU at all: the driver lists it, or a thread was seen in CUDA."""
    rows = (*facts.threads, *((facts.headline,) if facts.headline else ()))
    return any(gpu.used for gpu in facts.gpus) or any(
        row.states.get("gpu_wait", 0.0) + row.states.get("gpu_api", 0.0) > 0.001 for row in rows
    )


def gpu_busy(facts: Facts) -> float | None:
    """Return the mean utilisation of the headline process's GPUs; None when it uses none or it is not known."""
    return _busy(facts, facts.headline.pid) if facts.headline and uses_gpu(facts) else None


def _busy(facts: Facts, pid: int) -> float | None:
    return known(mean(gpu.utilization for gpu in facts.gpus_of(pid)))


def sm_active(facts: Facts, pid: int) -> float | None:
    """Return the mean share of a process's GPUs' multiprocessors with work on them; None where that is not known."""
    return known(mean(gpu.sm_active for gpu in facts.gpus_of(pid)))


def in_collective(facts: Facts, pid: int) -> bool:
    """Tell whether a process's GPU most likely runs nothing but a collective that waits for the other ranks.

    NCCL's kernels spin on a few multiprocessors while they wait (one for each of its channels), so that the GPU is
    called busy and does nothing; the CPU waits for it as for any other kernel. Two H200s of which one was late showed
    the other busy 98 % with 19 % of its multiprocessors.
    """
    distributed = any(row.pid == pid and row.role == "nccl" for row in facts.threads)
    busy, active = _busy(facts, pid) or 0.0, sm_active(facts, pid)
    return distributed and active is not None and busy >= SPINNING and active < FEW_SM * busy


def waits_for_peers(facts: Facts) -> bool:
    """Tell whether the headline process's GPU is held by a collective."""
    return facts.headline is not None and in_collective(facts, facts.headline.pid)


def name(facts: Facts) -> str:
    """Return the headline thread's name, with its process where another one's thread is called the same."""
    headline = facts.headline
    if headline is None:
        return "no thread"
    twins = any(row.name == headline.name and row.pid != headline.pid for row in facts.threads)
    return f"{_short(headline.name)} ({headline.pid})" if twins else _short(headline.name)


def hottest(facts: Facts, *states: str) -> FunctionRow | None:
    """Return the function with the most time of its own in these states, but none that only passes a wait on."""
    working = (row for row in facts.functions if not is_plumbing(row.file))
    best = max(working, key=lambda row: _within(row, states), default=None)
    return best if best and _within(best, states) > 0 else None


def waiter(facts: Facts, *states: str) -> FunctionRow | None:
    """Return the user's function that these waits of the headline thread are in; None where no single one stands out.

    What waits is library code, which the user cannot change: its caller is what to look at.
    """
    best = max(facts.callers, key=lambda row: _within(row, states), default=None)
    return best if best and _within(best, states) > max(0.01, NAMED * state(facts, *states)) else None


def _within(row: FunctionRow, states: Collection[str]) -> float:
    return row.self_share * sum(row.states.get(name, 0.0) for name in states)


def where(row: FunctionRow | None) -> tuple[str, str]:
    """Name a function and its place, in two parts (" in decode", " (data.py:31)"); both empty without one."""
    if row is None:
        return "", ""
    place = _short(os.path.basename(row.file)) + (f":{row.line}" if row.line else "")
    return f" in {_short(row.name.rpartition('.<locals>.')[2])}", f" ({place})" if row.line or row.is_native else ""


def spends(facts: Facts, *states: str) -> str:
    """Say where the thread spends its time in these states: share and function; without a function, that it does."""
    row = hottest(facts, *states)
    if row is None:
        return f"{name(facts)} is at work {percent(state(facts, *states))} of the time"
    return fit(f"{name(facts)} spends {percent(min(row.self_share, state(facts, *states)))}", *where(row))


def waits_for(facts: Facts, of: str, otherwise: str) -> str:
    """Say what the thread waits for, where most of one state is of one kind."""
    kinds = facts.headline.detail if facts.headline else {}
    mine = {kind: share for kind, share in kinds.items() if kind.startswith(f"{of}.")}
    most = max(mine, key=mine.__getitem__, default="")
    return _KINDS.get(most, otherwise) if 2 * mine.get(most, 0.0) >= state(facts, of) else otherwise


def at_work_meanwhile(facts: Facts) -> str:
    """Name the thread, and function, that computes while the headline thread waits: it may hold what is waited for."""
    headline = facts.headline
    others = [
        thread for thread in facts.threads if headline and (thread.pid, thread.tid) != (headline.pid, headline.tid)
    ]
    busiest = max(others, key=lambda thread: sum(thread.states.get(state, 0.0) for state in COMPUTE), default=None)
    share = sum(busiest.states.get(state, 0.0) for state in COMPUTE) if busiest else 0.0
    if busiest is None or share < 0.3:
        return ""
    return "".join((f"{_short(busiest.name)} computes {percent(share)}", *where(hottest(facts, *COMPUTE))))


def cores(facts: Facts) -> str:
    """Say how many cores are in use ("1.1 of 16 cores"); empty when it is not known."""
    used = known(facts.cores_used)
    return f"{used:.1f} of {facts.cores} cores" if used is not None and facts.cores else ""


def wanted_cores(facts: Facts) -> float:
    """Return how many cores the target's threads would use if there were enough: those they had, and were ready for."""
    length = facts.window.seconds
    return sum(
        ((known(row.cpu) or 0.0) + row.states.get("starved", 0.0)) * min(1.0, row.seconds / length)
        for row in facts.threads
    )


def common_evidence(facts: Facts) -> tuple[str, ...]:
    """Return what every verdict shows: the thread's split, the GPUs, the cores, the hottest function."""
    headline = facts.headline
    if headline is None:
        return ()
    lines = [f"{name(facts)}: {_split(headline)}"]
    if uses_gpu(facts):
        lines += [_gpu_line(gpu.index, gpu.utilization, gpu.target_sm) for gpu in facts.target_gpus]
    lines += [*_functions(facts), _cpus(facts), _backward(facts), _peers(facts), _child(facts), _failed(facts)]
    return tuple(filter(None, lines))


def _child(facts: Facts) -> str:
    """Say what the child does that the headline thread waits for: of several, the one that was seen most."""
    headline = facts.headline
    children = [row for row in facts.threads if headline and row.main and row.pid != headline.pid and row.samples]
    if not children or state(facts, "child") < 0.1:
        return ""
    row = max(children, key=lambda child: child.samples)
    most = max(row.states, key=lambda name: row.states[name])
    return f"its child {_short(row.name)} ({row.pid}): {_part(most, row.states[most], row.detail)}"


def _split(headline: Headline) -> str:
    parts = sorted(headline.states.items(), key=lambda item: -item[1])[:4]
    return ", ".join(_part(key, share, headline.detail) for key, share in parts if share >= 0.01)


def _part(state: str, share: float, kinds: Mapping[str, float]) -> str:
    """Return "lock 80 % (an event)": the kind where most of the state is one."""
    mine = {kind: part for kind, part in kinds.items() if kind.startswith(f"{state}.")}
    most = max(mine, key=mine.__getitem__, default="")
    kind = _KINDS.get(most, most.partition(".")[2].replace("_", " "))
    return f"{BY_ID[state].label} {percent(share)}" + (f" ({kind})" if mine.get(most, 0.0) > 0.67 * share else "")


def _functions(facts: Facts) -> list[str]:
    """Name the hottest function; where that is a library's, the user's own one as well."""
    if not facts.functions:
        return []
    row = facts.functions[0]
    lines = ["".join((f"hottest function: {percent(row.self_share)}", *where(row)))]
    if is_library(row.file) and facts.callers and not is_library(facts.callers[0].file):
        own = facts.callers[0]
        lines.append("".join((f"your code: {percent(own.self_share)}", *where(own), ", calls included")))
    return lines


def _cpus(facts: Facts) -> str:
    """Say how many cores are in use, and by whom where that may have kept the program waiting."""
    cpus = facts.cpus
    if cpus is None or state(facts, "starved") < 0.05:
        used = cores(facts)
        return f"{used} in use" if used else ""
    allowed = f"{cpus.allowed}" if cpus.allowed == cpus.machine else f"{cpus.allowed} that it may run on"
    return f"cores: this program used {cpus.mine:.1f}, other programs {cpus.others:.1f}, of {allowed}"


def _gpu_line(index: int, utilization: Value, mine: Value) -> str:
    busy, part = known(utilization), known(mine)
    words = f"GPU {index}: " + (f"busy {percent(busy)}" if busy is not None else "utilisation not known")
    return words + (f", this program {percent(part)}" if part is not None else "")


def _backward(facts: Facts) -> str:
    share = facts.backward
    return (
        f"{percent(share)} of its time is backward(), where the autograd thread works for it" if share >= 0.01 else ""
    )


def peers_waiting(facts: Facts) -> list[float]:
    """Return the shares that the main threads of the job's other processes spend in collectives, where it shows; on the
    GPU too, where nothing else runs there."""
    return [share for row in _others(facts) if (share := _for_peers(facts, row)) >= 0.1]


def _others(facts: Facts) -> list[ThreadRow]:
    """Return the main threads of the other processes."""
    headline = facts.headline
    return [row for row in facts.threads if row.main and headline and row.pid != headline.pid]


def _for_peers(facts: Facts, row: ThreadRow) -> float:
    on_gpu = row.states.get("gpu_wait", 0.0) if in_collective(facts, row.pid) else 0.0
    return row.states.get("comm", 0.0) + on_gpu


def _peers(facts: Facts) -> str:
    waiting = peers_waiting(facts)
    if not waiting:
        return ""
    guess = "" if any(row.states.get("comm", 0.0) >= 0.1 for row in _others(facts)) else "likely "
    return (
        f"other processes {guess}in collectives meanwhile: {len(waiting)}, up to {percent(max(waiting))} of their time"
    )


def _failed(facts: Facts) -> str:
    share = facts.stack_failed / facts.stack_samples if facts.stack_samples else 0.0
    return f"{percent(share)} of the stack reads failed and were bridged" if share >= 0.05 else ""


def fit(*parts: str) -> str:
    """Join what fits into a sentence, the most telling part first; parts bring their own punctuation."""
    sentence = ""
    for part in parts:
        if len(sentence) + len(part) <= SENTENCE_LIMIT:
            sentence += part
    return sentence or printable(parts[0], SENTENCE_LIMIT)


def _short(text: str) -> str:
    return printable(text, _NAME_LIMIT)
