"""Everything that the overview and the report say about one window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gputop.analysis import backward, cpus, diagnose, hot, roles, tiles, timeline
from gputop.analysis.cost import COST_OVER_S, own_cost
from gputop.analysis.curves import Rows, by_gpu
from gputop.analysis.facts import Facts, GpuFacts, mean
from gputop.analysis.gpus import efficiency, energy
from gputop.analysis.hot import Natives, Tables
from gputop.analysis.notes import folded
from gputop.analysis.results import CallTree, CpuUse, FunctionRow, Headline, Summary, ThreadRow
from gputop.analysis.split import Split, thread_states, without_python
from gputop.analysis.states import COMPUTE, GPU_WAIT, IDLE, OTHER_WAIT, groups
from gputop.model import NA, GpuReading, HostBatch, ProcessInfo, Session, Stack, Window
from gputop.store import Cpu, Store, ThreadKey

#: The main thread is not what the answer is about when it works less than this share of its time …
_RESTS = 0.1
#: … and another thread works at least this much more.
_CLEARLY_MORE = 0.2
#: … and two threads do the same whose shares differ by less than this.
_EQUAL = 0.1

#: Another thread must have been there for this part of the time that the main thread was.
_LASTED = 0.3

#: What the ranks of a job wait in while another one is late.
_FOR_OTHERS = ("comm", "gpu_wait")

_NO_CPU = NA("its CPU time was not read")


#: A stack is "the newest" when it was seen this shortly before the window's end, seconds: stacks come in by windows.
_NEWEST = 3.0


def summarise(
    store: Store,
    window: Window,
    columns: int = 120,
    thread: tuple[int, int] | None = None,
    *,
    alone: bool = False,
    native: bool = False,
    aside: bool = False,
) -> Summary:
    """Return what is known about the window.

    Arguments:
        columns: steps of the timeline.
        thread: (pid, tid) of the thread to make the headline; by default the one that the user waits for.
        alone: functions and lines are of the headline's thread only, instead of all threads' work.
        native: tell which native functions Python's functions and lines called; costs as much as the rest.
        aside: this is asked beside a summary of a longer window, which is asked again: what that needs is kept.

    Raises:
        ValueError: the store has no session yet.
    """
    session = _session(store)
    if not aside:
        tiles.of(store).turn()
    processes = _processes(store, session, window)
    watched = _watched(store, window, processes, ThreadKey(*thread) if thread else None, alone, native)
    hosts, gpus = store.hosts(window), store.gpus(window)
    rows = by_gpu(gpus)
    facts = _facts(store, window, watched, rows, hosts, session.cores)
    return Summary(
        session=session,
        window=window,
        processes=processes,
        ended=store.ended(),
        threads=watched.rows,
        headline=watched.headline,
        functions=watched.alone.functions,
        lines=watched.alone.lines,
        timeline=timeline.build(store, watched.head, window, columns, watched.helper),
        host=hosts[-1] if hosts else None,
        gpus=gpus[-1].gpus if gpus else (),
        gpus_at=gpus[-1].time if gpus else 0.0,
        energy_j={index: energy(mine) for index, mine in rows.items()},
        efficiency={index: efficiency(mine) for index, mine in rows.items()},
        verdict=diagnose.verdict(facts),
        cost=own_cost(store.costs(Window(max(window.start, window.end - COST_OVER_S), window.end))),
        notes=folded(store.notes()),
        gone=store.gone(),
        stack=_newest_stack(store, watched.head, window),
        cpu=_cpu_use(hosts),
    )


def _session(store: Store) -> Session:
    if store.session is None:
        raise ValueError("nothing can be summed up before the session is known")
    return store.session


def _facts(
    store: Store, window: Window, watched: _Watched, rows: Rows, hosts: Sequence[HostBatch], cores: int
) -> Facts:
    samples, failed = store.stack_quality(window)
    return Facts(
        window=window,
        headline=watched.headline,
        threads=watched.rows,
        functions=watched.tables.functions,
        callers=watched.callers,
        gpus=tuple(_gpu_facts(index, [row.gpu for row in mine]) for index, mine in rows.items()),
        cores_used=mean(host.target_cpu for host in hosts),
        cores=cores,
        stack_samples=samples,
        stack_failed=failed,
        cpus=cpus.facts(hosts),
        backward=_backward(watched),
        unreadable=_unreadable(store, watched.head, window),
    )


def call_tree(
    store: Store,
    window: Window,
    thread: tuple[int, int] | None = None,
    *,
    alone: bool = False,
    min_share: float = 0.0005,
) -> CallTree:
    """Return the call tree of a window; arguments as for `summarise`, and `min_share` as for `hot.flame`."""
    session = _session(store)
    splits, rows = _threads(store, window)
    head = headline_key(rows, _processes(store, session, window), ThreadKey(*thread) if thread else None)
    chosen = ((key, split, key == head) for key, split in splits.items() if key == head or not alone)
    root = hot.tree(hot.with_native(store, chosen, window), min_share)
    return CallTree(root, hot.watched(store, {head: splits[head]} if head else splits, window))


def _newest_stack(store: Store, head: ThreadKey | None, window: Window) -> Stack:
    if head is None:
        return ()
    seen = list(store.segments(head, Window(max(window.start, window.end - _NEWEST), window.end)))
    return seen[-1].stack if seen else ()


def _backward(watched: _Watched) -> float:
    """Return the share of the headline thread's time that its autograd thread told."""
    row = next((row for row in watched.rows if ThreadKey(row.pid, row.tid) == watched.head), None)
    asked = row.detail.get(backward.WAITING.detail, 0.0) if row else 0.0
    return asked - (watched.headline.detail.get(backward.WAITING.detail, 0.0) if watched.headline else 0.0)


def _unreadable(store: Store, head: ThreadKey | None, window: Window) -> str:
    """Return the reason that the newest looks at a thread gave for seeing nothing; empty when they saw something."""
    if head is None:
        return ""
    if any(process.pid == head.pid and process.kernel for process in store.processes(window.end)):
        return "it is a thread of the kernel"
    looks = list(store.peeks(head, Window(max(window.start, window.end - _NEWEST), window.end)))
    return looks[-1].observation.unreadable if looks else ""


# ------------------------------------------------------------------------------------------------- threads


class _Watched(NamedTuple):
    """What the threads did; `head` is the headline's, `helper` the autograd thread that works for it, `alone` the
    tables of its thread only, when asked for.

    """

    rows: tuple[ThreadRow, ...]
    head: ThreadKey | None
    helper: ThreadKey | None
    headline: Headline | None
    tables: Tables
    alone: Tables
    callers: tuple[FunctionRow, ...]


def _processes(store: Store, session: Session, window: Window) -> tuple[ProcessInfo, ...]:
    """Return the target's processes at the window's end, the target first; the target alone once all have ended."""
    return store.processes(window.end) or (session.root,)


def _watched(
    store: Store,
    window: Window,
    processes: Sequence[ProcessInfo],
    chosen: ThreadKey | None,
    alone: bool,
    native: bool,
) -> _Watched:
    splits, rows = _threads(store, window)
    head = headline_key(rows, processes, chosen)
    seconds = hot.watched(store, {head: splits[head]} if head else splits, window)
    weighed = hot.weigh(_chosen(splits, head))
    natives = _natives(store, [head] if alone and head else splits, head, window) if native else {}
    tables = hot.tables(weighed, seconds, {} if alone else natives)
    own = hot.tables(hot.weigh(_chosen(splits, head, alone=True)), seconds, natives) if alone else tables
    helper = backward.worker(rows, head) if head else None
    headline = _headline(rows[head], splits[head], splits[helper] if helper else None) if head else None
    callers = hot.callers(weighed, seconds)
    return _Watched(tuple(rows.values()), head, helper, headline, tables, own, callers)


def _natives(store: Store, keys: Iterable[ThreadKey], head: ThreadKey | None, window: Window) -> Natives:
    kept = tiles.of(store)
    return hot.natives((part, key == head) for key in keys for part in kept.native(store, key, window))


def _threads(store: Store, window: Window) -> tuple[dict[ThreadKey, Split], dict[ThreadKey, ThreadRow]]:
    """Return what each thread did, split by stacks and as a row."""
    kept, cpu = tiles.of(store), store.cpu(window)
    keys = sorted({*store.threads(window), *cpu})
    gpu = kept.look_for_gpu(store, window, cpu)
    native = without_python(store, {key.pid for key in keys}, window)
    splits = {key: thread_states(store, key, window, cpu.get(key), native[key.pid]) for key in keys}
    if kept.gpu and not gpu:  # the last thread may have told what the first one waits for
        splits = {key: thread_states(store, key, window, cpu.get(key), native[key.pid]) for key in keys}
    return splits, {key: _row(store, key, split, cpu.get(key)) for key, split in splits.items()}


def _chosen(
    splits: Mapping[ThreadKey, Split], head: ThreadKey | None, alone: bool = False
) -> Iterator[tuple[Split, bool]]:
    return ((split, key == head) for key, split in splits.items() if key == head or not alone)


def _row(store: Store, key: ThreadKey, split: Split, cpu: Cpu | None) -> ThreadRow:
    names = store.names(key)
    comm = names.kernel or (cpu.name if cpu else "")
    main = key.pid == key.tid
    return ThreadRow(
        pid=key.pid,
        tid=key.tid,
        name=names.python or comm,
        role=roles.role(comm, names.python, main, split.python),
        main=main,
        samples=split.looks,
        seconds=split.seconds,
        cpu=cpu.cpu if cpu else _NO_CPU,
        states=split.states,
        detail=split.detail,
    )


def _at_it(row: ThreadRow) -> float:
    """Return the share of its time that a thread works, or would if it had a CPU and the GIL."""
    return row.works + row.states.get("starved", 0.0) + row.states.get("gil", 0.0)


def headline_key(
    rows: Mapping[ThreadKey, ThreadRow], processes: Sequence[ProcessInfo], chosen: ThreadKey | None = None
) -> ThreadKey | None:
    """Return the thread that the answer is about; None when no thread was seen.

    That is the chosen one, else the main thread of the first of `processes`, or of the Python program that this one
    wraps. When it does nothing but wait, it is the slowest rank's that it launched, or another Python thread that
    clearly works (a server's worker, a child process). A program without Python threads is judged by all its threads.
    """
    if chosen in rows:
        return chosen
    looked_at = [key for key, row in rows.items() if row.samples]
    if any(process.python for process in processes) or any(row.role == "python" for row in rows.values()):
        looked_at = [key for key in looked_at if rows[key].role != "native"]
    main = ThreadKey(processes[0].pid, processes[0].pid)
    if main in rows:  # a child that lived for a moment worked all of its life
        looked_at = [key for key in looked_at if rows[key].seconds >= _LASTED * rows[main].seconds]
    busiest = _busiest(rows, looked_at or list(rows))
    if busiest is None or main not in rows:
        return busiest
    if rows[main].works >= _RESTS:
        return main
    main = _wrapped(rows, processes) or main
    clearly_more = _at_it(rows[busiest]) >= rows[main].works + _CLEARLY_MORE
    return _slowest_rank(rows, processes) or (busiest if clearly_more else main)


def _busiest(rows: Mapping[ThreadKey, ThreadRow], keys: Sequence[ThreadKey]) -> ThreadKey | None:
    """Return the thread that is most at it; of equals the oldest, so that the answer does not hop between them."""
    most = max((_at_it(rows[key]) for key in keys), default=0.0)
    return next((key for key in sorted(keys) if _at_it(rows[key]) > most - _EQUAL), None)


def _wrapped(rows: Mapping[ThreadKey, ThreadRow], processes: Sequence[ProcessInfo]) -> ThreadKey | None:
    """Return the main thread of the oldest Python process below a program that runs no Python itself, such as `timeout`
    or a shell; None without one."""
    if processes[0].python:
        return None
    mains = (ThreadKey(process.pid, process.pid) for process in processes if process.python)
    return next((key for key in mains if key in rows and rows[key].samples), None)


def _slowest_rank(rows: Mapping[ThreadKey, ThreadRow], processes: Sequence[ProcessInfo]) -> ThreadKey | None:
    """Return the main thread of the rank that waits least for its peers and its GPU, as the others wait for it; None
    where the first process launched no ranks."""
    launcher, *launched = processes
    if launcher.rank is not None:
        return None
    ranks = [
        key for process in launched if process.rank is not None and (key := ThreadKey(process.pid, process.pid)) in rows
    ]
    return min(ranks, key=lambda key: sum(rows[key].states.get(state, 0.0) for state in _FOR_OTHERS), default=None)


def _headline(row: ThreadRow, split: Split, helper: Split | None) -> Headline:
    told = replace(split, time=backward.told(split.time, helper.time)) if helper else split
    sums = groups(dict(told.states))
    return Headline(
        pid=row.pid,
        tid=row.tid,
        name=row.name,
        compute=sums[COMPUTE],
        gpu_wait=sums[GPU_WAIT],
        other_wait=sums[OTHER_WAIT],
        idle=sums[IDLE],
        states=told.states,
        detail=told.detail,
    )


# ----------------------------------------------------------------------------------------- machine and GPUs


def _cpu_use(hosts: Sequence[HostBatch]) -> CpuUse | None:
    """Return the means of the readings; each stands for about the same time."""
    same = [host.cores for host in hosts if len(host.cores) == len(hosts[-1].cores)]
    if not same:
        return None
    cores = tuple(sum(shares) / len(same) for shares in zip(*same, strict=True))
    children = mean(host.target_children for host in hosts)
    return CpuUse(cores, mean(host.target_cpu for host in hosts), children)


def _gpu_facts(index: int, readings: Sequence[GpuReading]) -> GpuFacts:
    last = readings[-1]
    return GpuFacts(
        index=index,
        name=last.name,
        utilization=mean(gpu.metric("utilization") for gpu in readings),
        target_sm=mean(gpu.target.sm for gpu in readings),
        memory_used_bytes=last.metric("memory_used_bytes"),
        memory_total_bytes=last.metric("memory_total_bytes"),
        target_memory_bytes=last.target.memory_bytes,
        target_present=any(gpu.target.present for gpu in readings),
        sm_active=mean(gpu.metric("gpm.sm_active") for gpu in readings),
        pids=tuple(pid for pid, _ in last.target.by_process),
    )
