"""Torch traces of a target's processes, whichever way its tracing has to be switched on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import BinaryIO

from gputop import procfs
from gputop.errors import SnapshotError
from gputop.model import ProcessInfo
from gputop.snapshot.flight import HandsOff, Wait
from gputop.snapshot.kineto import directory, enable
from gputop.snapshot.kineto.client import DaemonProcess
from gputop.snapshot.kineto.detect import owner, polling, same_namespace
from gputop.snapshot.kineto.directory import Shared
from gputop.snapshot.kineto.record import Recording, Session
from gputop.snapshot.kineto.request import Options
from gputop.snapshot.kineto.route import INTERPRETER, READY, Policy, Route, alike, best
from gputop.snapshot.write import Progress

#: Asked before anything is run inside the target; gets the question, answers it.
Consent = Callable[[str], bool]

#: A polling process without any of these has done nothing with torch while it was recorded (torchrun's launcher).
_WORK = re.compile(rb'"cat": "(cpu_op|cuda_runtime|cuda_driver|kernel|gpu_memcpy)"')
_SMALL = 1 << 20


@dataclass(frozen=True, slots=True)
class Trace:
    """What became of one process's trace.

    Attributes:
        process: whose; `own_pid` is what it calls itself, and so does the trace.
        file: the open file; the caller closes it. None without a trace.
        failure: why there is none.
    """

    process: ProcessInfo
    own_pid: int
    file: BinaryIO | None
    failure: str = ""


def record(
    processes: Sequence[ProcessInfo],
    policy: Policy,
    options: Options,
    wait: Wait,
    progress: Progress,
    consent: Consent,
    helpers: set[int],
    hands_off: HandsOff = nullcontext,
) -> tuple[Trace, ...]:
    """Record a torch trace of each process that can be traced; at least one is there.

    `helpers` holds the processes that work for us meanwhile; a debugger works under `hands_off`.

    Raises:
        SnapshotError: why there is none.
    """
    target, route = best(processes, policy)
    if route.torch is None or route.kind not in (READY, *enable.WAYS):
        raise SnapshotError(route.reason, route.remedy)
    off = [(target, route)] if route.needs_consent else []
    if off:
        off = alike(processes, route.kind, policy) or off
        more = f"; the same in {len(off) - 1} more processes of the job" if len(off) > 1 else ""
        if not consent(route.sentence + more):
            raise SnapshotError("its tracing stays off, as you wanted", route.remedy)
    try:
        shared = _shared(target.pid, route)
    except OSError as error:
        raise SnapshotError(f"no directory can be shared with the program: {error.strerror}") from error
    before = set(os.listdir(shared.descriptor))
    polls_there = route.torch.polling == shared.inside
    try:
        _check_room(shared, options)
        switched = _switched_on(off, shared, wait, progress, hands_off)
        polls_there = polls_there or bool(switched)
        address = shared.inside if polls_there else route.torch.polling or ""
        chosen = [process for process in processes if process in switched or _polls(process.pid, address)]
        traces = _recorded(chosen or [target], address, shared, options, wait, progress, helpers)
    finally:
        _clean(shared, before, polls_there)
    return _useful(traces)


def _shared(pid: int, route: Route) -> Shared:
    """Return the directory for the trace: the one of ours that the target polls in, else a new one."""
    where = route.torch.polling if route.torch else None
    return directory.reach(pid, where) if where and directory.is_ours(where) else directory.make(pid)


def _check_room(shared: Shared, options: Options) -> None:
    about = os.statvfs(shared.descriptor)
    free = about.f_bavail * about.f_frsize
    if free < options.bytes_needed:
        raise SnapshotError(
            f"torch's trace may take {options.bytes_needed / 1e6:.0f} MB, and /tmp has {free / 1e6:.0f} MB free",
            "free some space there, or record a shorter time",
        )


def _switched_on(
    off: Sequence[tuple[ProcessInfo, Route]], shared: Shared, wait: Wait, progress: Progress, hands_off: HandsOff
) -> list[ProcessInfo]:
    """Switch polling on in each process and return those where it is on now.

    Raises:
        SnapshotError: in none of them; why it is not in the first.
    """
    failures: list[SnapshotError] = []
    switched: list[ProcessInfo] = []
    for process, route in off:
        try:
            _switch_on(process.pid, route, shared, wait, progress, hands_off)
            switched.append(process)
        except SnapshotError as error:
            failures.append(error)
    if failures and not switched:
        raise failures[0]
    return switched


def _switch_on(pid: int, route: Route, shared: Shared, wait: Wait, progress: Progress, hands_off: HandsOff) -> None:
    assert route.torch is not None
    variables = directory.polling_variables(shared, _environ(pid))
    progress("switching torch tracing on")
    if route.kind == INTERPRETER:
        enable.with_interpreter(pid, shared, variables, wait)
    else:
        enable.with_gdb(pid, route.torch, shared, variables, wait, hands_off)


def _environ(pid: int) -> dict[str, str]:
    """Return the environment that the target started with; nothing when it is another user's, who could name files
    in it that only we may read."""
    if owner(pid)[0] != os.geteuid():
        return {}
    with suppress(OSError):
        pairs = (entry.partition("=") for entry in procfs.strings(f"/proc/{pid}/environ", limit=1 << 22))
        return {name: value for name, _, value in pairs}
    return {}


def _polls(pid: int, where: str) -> bool:
    with suppress(OSError):
        return polling(pid) == where
    return False


def _recorded(
    processes: Sequence[ProcessInfo],
    address: str,
    shared: Shared,
    options: Options,
    wait: Wait,
    progress: Progress,
    helpers: set[int],
) -> list[Trace]:
    by_pid = {process.pid: process for process in processes}
    daemon = _daemon(processes[0].pid, address)
    helpers.add(daemon.pid)
    try:
        recordings = Session(daemon, shared, options).run(list(by_pid), wait, progress)
    finally:
        helpers.discard(daemon.pid)
        daemon.close()
    return [_opened(by_pid[recording.pid], recording, shared) for recording in recordings]


def _daemon(pid: int, address: str) -> DaemonProcess:
    """Start a daemon in the target's namespaces."""
    root = "" if same_namespace(pid, "mnt") or not address else f"/proc/{pid}/root"
    network = "" if same_namespace(pid, "net") or address else f"/proc/{pid}/ns/net"
    return DaemonProcess(address, *owner(pid), root, network)


def _opened(process: ProcessInfo, recording: Recording, shared: Shared) -> Trace:
    if not recording.file:
        return Trace(process, recording.own_pid, None, recording.failure)
    try:
        return Trace(process, recording.own_pid, os.fdopen(shared.open(recording.file), "rb"))
    except OSError as error:
        return Trace(process, recording.own_pid, None, f"its trace cannot be read: {error}")


def _useful(traces: list[Trace]) -> tuple[Trace, ...]:
    """Drop traces of processes that did nothing where others did; fail when there is no trace at all."""
    if not any(trace.file for trace in traces):
        raise SnapshotError(traces[0].failure)
    idle = [trace for trace in traces if trace.file and _is_idle(trace.file)]
    if len(idle) == sum(trace.file is not None for trace in traces):
        return tuple(traces)
    for trace in idle:
        assert trace.file is not None
        trace.file.close()
    return tuple(trace for trace in traces if trace not in idle)


def _is_idle(file: BinaryIO) -> bool:
    start = file.read(_SMALL)
    file.seek(0)
    return len(start) < _SMALL and _WORK.search(start) is None


def _clean(shared: Shared, before: set[str], polls_there: bool) -> None:
    """Remove what a shot left; the directory itself stays while the target polls there."""
    if polls_there:
        for name in set(os.listdir(shared.descriptor)) - before:
            if name.startswith(("shot-", "enable-", "status-")):
                shared.remove(name)
    shared.close(keep=polls_there)
