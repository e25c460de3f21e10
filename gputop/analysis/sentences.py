"""The verdicts' sentences: the numbers that each rests on, in at most `findings.SENTENCE_LIMIT` characters."""

from __future__ import annotations

from collections.abc import Callable

from gputop.analysis.facts import CpuFacts, Facts
from gputop.analysis.findings import (
    COMPUTE,
    OWN_POOL,
    at_work_meanwhile,
    compiling,
    compute,
    cores,
    detail,
    fit,
    gpu_busy,
    hottest,
    launching,
    name,
    peers_waiting,
    percent,
    sm_active,
    spends,
    state,
    waiter,
    waits_for,
    wanted_cores,
    where,
)
from gputop.analysis.states import BY_ID
from gputop.model import known

#: A GPU below this utilisation is said to be idle.
GPU_LOW = 0.5

COPIES = ("gpu_wait.copy_to_host", "gpu_wait.copy_to_device", "gpu_wait.copy")
ALLOCATION = ("gpu_api.alloc", "gpu_wait.alloc")
UNREAD = ("unknown.on_cpu", "unknown.blocked")


def stopped(facts: Facts) -> str:
    """Say how long the program was stopped."""
    return f"{name(facts)} was stopped {percent(detail(facts, 'unknown.stopped'))} of the time"


def unreadable(facts: Facts) -> str:
    """Say that nobody could look inside, why, and what is known all the same."""
    why = f" ({facts.unreadable})" if facts.unreadable else ""
    return fit(
        f"{name(facts)} cannot be looked into", why, f": on a CPU {percent(detail(facts, UNREAD[0]))} of the time"
    )


def _idle(facts: Facts) -> str:
    busy = gpu_busy(facts)
    return f"GPU idle {percent(1 - busy)}: " if busy is not None and busy < GPU_LOW else ""


def waits(of: str, otherwise: str, on_gpu: bool = False) -> Callable[[Facts], str]:
    """Return a builder of "X waits 40 % for a queue in f (file:1)"; `on_gpu` has it begin with an idle GPU."""

    def sentence(facts: Facts) -> str:
        what = waits_for(facts, of, otherwise)
        begin = _idle(facts) if on_gpu else ""
        return fit(f"{begin}{name(facts)} waits {percent(state(facts, of))} for {what}", *where(waiter(facts, of)))

    return sentence


def collective_on_gpu(facts: Facts) -> str:
    """Say that the GPU is held by a collective, and what tells so."""
    active = percent(sm_active(facts, facts.headline.pid) or 0.0) if facts.headline else "0 %"
    share = percent(state(facts, "gpu_wait"))
    begin = f"GPU busy {percent(gpu_busy(facts) or 0.0)} with {active} of its SMs: {name(facts)} waits {share}"
    return fit(begin, *where(waiter(facts, "gpu_wait")))


def copies(facts: Facts) -> str:
    """Say how much is copied, and which way."""
    to_host, to_device = (percent(detail(facts, kind)) for kind in COPIES[:2])
    total = percent(detail(facts, *COPIES))
    return fit(
        f"{name(facts)} waits {total} in copies: {to_host} to the host, {to_device} to the GPU",
        *where(waiter(facts, "gpu_wait")),
    )


def straggler(facts: Facts) -> str:
    """Say how long the others wait, and what this process does meanwhile."""
    states = facts.headline.states if facts.headline else {}
    most = max(states, key=states.__getitem__, default="unknown")
    row = hottest(facts, most) if most in COMPUTE else waiter(facts, most)
    pid = facts.headline.pid if facts.headline else 0
    waiting = percent(max(peers_waiting(facts), default=0.0))
    begin = f"others wait up to {waiting} for pid {pid}: {BY_ID[most].label} {percent(state(facts, most))}"
    return fit(begin, *where(row))


def allocation(facts: Facts) -> str:
    """Say how much goes into device memory's allocation."""
    return f"{name(facts)} spends {percent(detail(facts, *ALLOCATION))} allocating and freeing GPU memory"


def gpu_bound(facts: Facts) -> str:
    """Say how long the GPU is waited for while it works."""
    busy = gpu_busy(facts)
    begin = f"GPU busy {percent(busy)}: " if busy is not None else ""
    kind = waits_for(facts, "gpu_wait", "several ways")
    share = percent(state(facts, "gpu_wait"))
    return fit(f"{begin}{name(facts)} waits {share} for the GPU ({kind})", *where(waiter(facts, "gpu_wait")))


def latency(facts: Facts) -> str:
    """Say how long the GPU is waited for although it is mostly idle."""
    share = percent(state(facts, "gpu_wait"))
    return fit(f"{_idle(facts)}{name(facts)} still waits {share} for it", *where(waiter(facts, "gpu_wait")))


def kernel_compilation(facts: Facts) -> str:
    """Say how much is compiled or loaded while the program runs, and from where."""
    begin = f"{_idle(facts)}{name(facts)} spends {percent(compiling(facts))} compiling or loading kernels"
    return fit(begin, *where(hottest(facts, "native", "gpu_api", "child")))


def launches(facts: Facts) -> str:
    """Say how much of the time goes into getting kernels launched."""
    calls = f" ({percent(state(facts, 'gpu_api'))} in GPU calls)"
    return fit(f"{_idle(facts)}{name(facts)} spends {percent(launching(facts))} launching its work", calls)


def starved_gpu(facts: Facts) -> str:
    """Say what the program does while the GPU has nothing to do."""
    return fit(_idle(facts), spends(facts, *COMPUTE))


def gil(facts: Facts) -> str:
    """Say how long the GIL is waited for, and how many want it."""
    rivals = sum(
        1 for thread in facts.threads if thread.states.get("gil", 0.0) + thread.states.get("python", 0.0) > 0.1
    )
    return f"{name(facts)} waits {percent(state(facts, 'gil'))} for the GIL; {rivals} threads want to run Python"


def shortage(why: Callable[[Facts, CpuFacts], str]) -> Callable[[Facts], str]:
    """Return a builder of "X was ready but had no CPU 40 %: …", its end told by the CPUs' use."""

    def sentence(facts: Facts) -> str:
        share = percent(state(facts, "starved"))
        cause = f": {why(facts, facts.cpus)}" if facts.cpus else " of the time"
        return fit(f"{name(facts)} was ready but had no CPU {share}", cause)

    return sentence


def quota(_: Facts, cpus: CpuFacts) -> str:
    """Say which quota ran out, and how often."""
    limit, held = known(cpus.quota) or 0.0, known(cpus.throttled) or 0.0
    return f"its quota of {limit:.3g} CPUs ran out in {percent(held)} of periods"


def few_cores(_: Facts, cpus: CpuFacts) -> str:
    """Say to how few cores the program is bound."""
    return f"it may use {cpus.allowed} of {cpus.machine} cores while others idle"


def taken_cores(_: Facts, cpus: CpuFacts) -> str:
    """Say how many cores others keep."""
    return f"other programs keep {cpus.others:.1f} of {cpus.allowed} cores"


def own_cores(facts: Facts, cpus: CpuFacts) -> str:
    """Say how many cores the program's threads would fill."""
    return f"its threads want {wanted_cores(facts):.1f} cores and may use {cpus.allowed}"


def lock(facts: Facts) -> str:
    """Say what is waited for, and who computes meanwhile."""
    meanwhile = at_work_meanwhile(facts)
    what = waits_for(facts, "lock", "other threads")
    tail = (f"; {meanwhile}",) if meanwhile else where(waiter(facts, "lock"))
    return fit(f"{name(facts)} waits {percent(state(facts, 'lock'))} for {what}", *tail)


def mostly_python(facts: Facts) -> bool:
    """Tell whether most of the computing is the interpreter's."""
    return 2 * state(facts, "python") >= compute(facts)


def cpu(facts: Facts) -> str:
    """Say how much the thread computes, in what, and on how many cores."""
    main = "Python" if mostly_python(facts) else "native code"
    used = f"; {cores(facts)}" if cores(facts) else ""
    pool = ("lock",) if 2 * detail(facts, OWN_POOL) >= compute(facts) else ()
    row = hottest(facts, *COMPUTE, *pool)
    return fit(f"{name(facts)} computes {percent(compute(facts))}, mostly {main}", *where(row), used)


def idle(facts: Facts) -> str:
    """Say that the thread rests, and where."""
    kind = "sleeps" if detail(facts, "idle.sleep") > detail(facts, "idle.event_loop") else "has nothing to do"
    return fit(f"{name(facts)} {kind} {percent(state(facts, 'idle'))} of the time", *where(waiter(facts, "idle")))


def mixed(facts: Facts) -> str:
    """Say the largest parts."""
    headline = facts.headline
    top = sorted(headline.states.items(), key=lambda item: -item[1])[:3] if headline else []
    return f"{name(facts)}: " + ", ".join(f"{BY_ID[key].label} {percent(share)}" for key, share in top)
