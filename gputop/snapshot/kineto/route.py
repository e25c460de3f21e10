"""Which trace is possible now, said before anybody asks for one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gputop.errors import ptrace_remedy
from gputop.model import ProcessInfo
from gputop.snapshot.kineto.detect import Torch, same_namespace, torch_in
from gputop.snapshot.kineto.settled import is_launcher

READY, INTERPRETER, GDB, SAMPLED = "ready", "interpreter", "gdb", "sampled"

#: First torch that polls without known crashes; 2.7 to 2.9 may crash as they start (pytorch#163545), those before 2.5
#: as torch is imported (pytorch#131448).
SOUND, OLDEST = (2, 10), (2, 5)

_SAMPLED = "sampled trace (stacks, states, CPU and GPU counters)"
_RESTART = "for torch's own trace start it with: gputop -- COMMAND"


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user allows.

    Attributes:
        kineto: "auto" (torch 2.10 and newer), "on" (2.5 and newer) or "off".
        inject: may offer to switch tracing on in a running process.
    """

    kineto: str = "auto"
    inject: bool = True


@dataclass(frozen=True, slots=True)
class Route:
    """How a trace would be taken.

    Attributes:
        kind: READY (torch in it polls), INTERPRETER (`sys.remote_exec` would switch that on), GDB (a debugger would),
            SAMPLED (only ours).
        sentence: what the screen says of it; a question when consent is needed.
        needs_consent: something would be run inside the target.
        remedy: how to get more, empty when there is no more.
        torch: what was found in the process.
        reason: why only the sampled one is possible.
    """

    kind: str
    sentence: str
    needs_consent: bool = False
    remedy: str = ""
    torch: Torch | None = None
    reason: str = ""

    @property
    def hint(self) -> str:
        """Return what the snapshot key would save, in two or three words."""
        if self.kind == READY:
            return "torch trace"
        return "torch trace (asks first)" if self.needs_consent else "sampled trace"


def best(processes: Sequence[ProcessInfo], policy: Policy) -> tuple[ProcessInfo, Route]:
    """Return the first process whose torch polls, else the first where that can be switched on, else the target.

    A launcher comes after the ranks that it started: it does nothing with torch. A look costs about a millisecond.
    """
    routes: list[tuple[ProcessInfo, Route]] = []
    for process in sorted(processes, key=is_launcher):
        routes.append((process, availability(process, policy)))
        if routes[-1][1].kind == READY:
            return routes[-1]
    return next((found for found in routes if found[1].needs_consent), routes[0])


def alike(processes: Sequence[ProcessInfo], kind: str, policy: Policy) -> list[tuple[ProcessInfo, Route]]:
    """Return the processes of a job whose route is of a kind, without launchers and without what these themselves
    started (data loader workers, which hold their parent's torch)."""
    routes = [(process, availability(process, policy)) for process in processes if not is_launcher(process)]
    same = {process.pid for process, route in routes if route.kind == kind}
    return [found for found in routes if found[0].pid in same and found[0].ppid not in same]


def over(reason: str) -> Route:
    """Return the route where no process runs any more."""
    return Route(SAMPLED, f"{_SAMPLED}: {reason}")


def availability(process: ProcessInfo, policy: Policy) -> Route:
    """Tell which trace of a process is possible now; reads /proc only, some milliseconds."""
    if policy.kineto == "off":
        return _sampled("torch traces are switched off", "run gputop with --kineto auto")
    try:
        return _possible(process, policy)
    except PermissionError:
        return _sampled("gputop may not look into the process", ptrace_remedy())
    except OSError:
        return _sampled("the program ended")


def _possible(process: ProcessInfo, policy: Policy) -> Route:
    torch = torch_in(process.pid)
    if torch is None:
        return _sampled("no torch is loaded in it")
    if torch.polling is not None:
        return Route(READY, f"torch trace: ready (torch {torch.version})", torch=torch)
    refusals = _refusals(process, torch, policy)
    refused = next(refusals, None)
    return refused or _switch(process, torch)


def _sampled(reason: str, remedy: str = "", torch: Torch | None = None) -> Route:
    sentence = f"{_SAMPLED}, without operators and kernels: {reason}"
    return Route(SAMPLED, sentence, remedy=remedy, torch=torch, reason=reason)


def _refusals(process: ProcessInfo, torch: Torch, policy: Policy) -> Iterator[Route]:
    """Yield why torch's tracing cannot be switched on in a process where it is off."""
    number = ".".join(map(str, torch.release))
    if torch.release < OLDEST:
        yield _sampled(f"torch {number} cannot be traced from outside", "torch 2.10 and newer can", torch)
    elif torch.release < SOUND and policy.kineto != "on":
        why = f"torch {number} has a known crash when tracing is switched on (pytorch#163545)"
        yield _sampled(why, "--kineto on takes the risk", torch)
    if not policy.inject:
        yield _sampled("tracing is off in it, and --no-inject forbids to switch it on", _RESTART, torch)
    if not all(same_namespace(process.pid, kind) for kind in ("mnt", "pid")):
        yield _sampled("tracing is off in it, and it runs in a container of its own", _RESTART, torch)


def _switch(process: ProcessInfo, torch: Torch) -> Route:
    if python_release(process) >= (3, 14):
        question = f"torch tracing is off in it. Turn it on? This runs one small script inside process {process.pid}"
        return Route(INTERPRETER, question, True, _RESTART, torch)
    if torch.libc is None:
        return _sampled("tracing is off in it, and its C library is not glibc", _RESTART, torch)
    if shutil.which("gdb") is None:
        remedy = f"install gdb (apt install gdb) to switch it on; {_RESTART}"
        return _sampled("tracing is off in it, and gdb is not installed", remedy, torch)
    question = f"torch tracing is off in it. Turn it on with gdb? This stops process {process.pid} for about 0.1 s"
    return Route(GDB, question, True, _RESTART, torch)


def python_release(process: ProcessInfo) -> tuple[int, int]:
    """Return (3, 12) for "3.12.3", (0, 0) when unknown."""
    found = re.match(r"(\d+)\.(\d+)", process.python or "")
    return (int(found[1]), int(found[2])) if found else (0, 0)
