"""The snapshot key: torch's own trace where that is possible, the sampled one always."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from gputop.errors import SnapshotError
from gputop.model import ProcessInfo, Window
from gputop.snapshot import flight, formats, sampled, write
from gputop.snapshot.flight import HandsOff, Saved, Wait
from gputop.snapshot.kineto import directory, merge, shoot
from gputop.snapshot.kineto.directory import Shared
from gputop.snapshot.kineto.request import LONGEST_S, Options
from gputop.snapshot.kineto.route import READY, Policy, Route, availability
from gputop.snapshot.kineto.settled import imports_are_over, is_launcher, profiles_itself
from gputop.snapshot.kineto.shoot import Consent, Trace
from gputop.snapshot.shot import Shot, session_of
from gputop.snapshot.write import Progress
from gputop.store import Store

#: HTA and TensorBoard's plugin look for this ending.
TORCH_ENDING = ".pt.trace.json.gz"
#: What a file with torch's own trace is called.
TORCH = "torch trace"
_OPENS = "open it at ui.perfetto.dev"
_LOOK_EVERY_S = 0.5
_MEET = "two recordings that meet can make its own fail"


class Camera:
    """Takes snapshots, one at a time.

    All methods may be called from any thread; `take` blocks for seconds.

    Args:
        store: where the samples are.
        policy: what the user allows.

    Attributes:
        hands_off: while it is open, nothing of ours traces the target.
    """

    def __init__(self, store: Store, policy: Policy) -> None:
        self.store = store
        self._policy = policy
        self._taking = threading.Lock()
        self._launched: Shared | None = None
        self._helpers: set[int] = set()
        self.hands_off: HandsOff = nullcontext

    def launch_environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that make torch in a program that is about to be launched ready for traces.

        None where that is switched off or /tmp cannot be written to; the program runs as usual then.
        """
        if self._policy.kineto == "off":
            return {}
        with suppress(OSError):
            directory.sweep()
            self._launched = directory.make_here()
            return directory.environment(self._launched, environ, always=self._policy.kineto == "on")
        return {}

    def route(self, process: ProcessInfo) -> Route:
        """Tell which trace of a process is possible now, for the screen to say before the key is pressed."""
        return availability(process, self._policy)

    def await_torch(self, process: ProcessInfo, seconds: float, wait: Wait, progress: Progress) -> Route:
        """Give a program that was just launched the time to import torch; return its route when that is over.

        Ends as soon as torch in it polls or its imports are over, at the latest after `seconds`; at once where no
        program was prepared. Of a launcher such as torchrun that goes for the ranks that it starts.
        """
        deadline = time.monotonic() + seconds
        while self._launched is not None and self._may_import_torch(process):
            left = deadline - time.monotonic()
            progress(f"waiting for the program to import torch: {math.ceil(left)} s left")
            if left <= 0 or not wait(time.monotonic() + min(left, _LOOK_EVERY_S)):
                break
        return self.route(process)

    def _may_import_torch(self, root: ProcessInfo) -> bool:
        """Tell whether torch may still come in a process whose trace is wanted."""
        now = time.monotonic()
        wanted = [root]
        if is_launcher(root):
            wanted = [process for process in self.store.processes(now) if process.python and process.pid != root.pid]
        undecided = (process for process in wanted if self.route(process).kind != READY)
        return not wanted or not all(imports_are_over(self.store, process.pid, now) for process in undecided)

    def own_pids(self) -> tuple[int, ...]:
        """Return the helpers that live now, so that their CPU time is counted as ours."""
        return tuple(self._helpers)

    def close(self) -> None:
        """Remove the directories that nobody uses any more."""
        if self._launched is not None:
            self._launched.close(keep=True)
            self._launched = None
        with suppress(OSError):
            directory.sweep()

    def take(
        self,
        processes: Sequence[ProcessInfo],
        options: Options,
        before: float,
        path: Path | None,
        wait: Wait,
        progress: Progress = lambda sentence: None,
        consent: Consent = lambda question: False,
    ) -> tuple[Saved, ...]:
        """Save the last `before` seconds and the next `options.seconds`.

        With torch in the target its own trace is taken, with ours in it: one file for each of `processes` that can
        be traced (all ranks of a job), and an index when there are several. When that fails the sampled trace is
        saved alone, and says why.

        Args:
            processes: the target first.
            path: None for a new name; where its ending asks for another format than a trace, that is written.
            wait: waits until a monotonic time; False means to end now.

        Raises:
            SnapshotError: another snapshot is being taken, or no file could be written.
        """
        if not self._taking.acquire(blocking=False):
            raise SnapshotError("a snapshot is being taken already", "wait until it is written")
        try:
            with ExitStack() as files:
                return self._take(files, processes, options, before, path, wait, progress, consent)
        finally:
            self._taking.release()

    def _take(
        self,
        files: ExitStack,
        processes: Sequence[ProcessInfo],
        options: Options,
        before: float,
        path: Path | None,
        wait: Wait,
        progress: Progress,
        consent: Consent,
    ) -> tuple[Saved, ...]:
        session = session_of(self.store)
        if path is not None:
            write.check(path)
        start = time.monotonic()
        traces: tuple[Trace, ...] = ()
        why = ""
        if path is None or formats.of(path).document is sampled.document:
            traces, why = self._traces(processes, options, wait, progress, consent)
            for trace in traces:
                files.callback(trace.file.close if trace.file else lambda: None)
        end = time.monotonic() if traces else max(time.monotonic(), start + options.seconds)
        window = flight.await_window(self.store, Window(start - before, end), wait, progress)
        epoch = time.time() - time.monotonic()
        if not traces:
            path = path if path is not None else flight.default_path(session)
            return (replace(flight.save(self.store, window, path, progress, epoch), why=why),)
        shot = flight.shoot(self.store, window, epoch)
        return _written(traces, shot, path, progress)

    def _spare_profilers(self, processes: Sequence[ProcessInfo], consent: Consent) -> None:
        """Ask before a program that profiles itself is recorded.

        Raises:
            SnapshotError: it shall not be.
        """
        now = time.monotonic()
        own = [process for process in processes if profiles_itself(self.store, process.pid, now)]
        if own and not consent(f"process {own[0].pid} uses torch.profiler itself, and {_MEET}. Record all the same?"):
            raise SnapshotError(f"the program uses torch.profiler itself, and {_MEET}", "use the trace that it takes")

    def _traces(
        self, processes: Sequence[ProcessInfo], options: Options, wait: Wait, progress: Progress, consent: Consent
    ) -> tuple[tuple[Trace, ...], str]:
        """Return torch's traces; none, and why, when there are none."""
        try:
            if options.seconds > LONGEST_S:
                raise SnapshotError(f"torch traces are at most {LONGEST_S:g} s long")
            self._spare_profilers(processes, consent)
            return shoot.record(
                processes, self._policy, options, wait, progress, consent, self._helpers, self.hands_off
            ), ""
        except SnapshotError as error:
            why = f"{error.what}; {error.remedy}" if error.remedy else error.what
        except OSError as error:
            why = error.strerror or str(error)
        progress(f"no torch trace: {why}")
        return (), why


def _written(traces: Sequence[Trace], shot: Shot, path: Path | None, progress: Progress) -> tuple[Saved, ...]:
    """Write each trace with our samples of that process in it, and an index of several."""
    many = len(traces) > 1
    saved: list[Saved] = []
    rows: list[dict[str, object]] = []
    for trace in traces:
        row: dict[str, object] = {"pid": trace.process.pid, "rank": trace.process.rank, "failure": trace.failure}
        rows.append(row)
        if trace.file is not None:
            where = _name(trace.process, shot, path, many)
            progress(f"writing {where.name}")
            own = replace(shot, pids=_family(trace, traces, shot)) if many else shot
            parts = merge.document(trace.file, own, trace.process, trace.own_pid, len(traces))
            size = write.write(where, parts, progress)
            saved.append(Saved(where, size, TORCH, _OPENS, shot.window))
            row |= {"path": where.name, "bytes": size}
    if many:
        saved.append(_index(saved[0], path, rows, shot))
    return tuple(saved)


def _name(process: ProcessInfo, shot: Shot, path: Path | None, many: bool) -> Path:
    if path is None:
        session = replace(shot.session, root=process)
        return flight.default_path(session, TORCH_ENDING, shot.window.end + shot.epoch)
    if not many:
        return path
    stem, dot, endings = path.name.partition(".")
    part = f"pid{process.pid}" if process.rank is None else f"rank{process.rank}"
    return path.with_name(f"{stem}.{part}{dot}{endings}")


def _family(trace: Trace, traces: Sequence[Trace], shot: Shot) -> frozenset[int]:
    """Return a process and its children that have no trace of their own (data loader workers)."""
    own = trace.process.pid
    others = {other.process.pid for other in traces}
    children = (process.pid for process in shot.processes() if process.ppid == own and process.pid not in others)
    return frozenset((own, *children))


def _index(first: Saved, path: Path | None, rows: Sequence[Mapping[str, object]], shot: Shot) -> Saved:
    content = {"schema": "gputop.traces/1", "host": shot.session.hostname, "traces": rows}
    stem = first.path.name.removesuffix(TORCH_ENDING) if path is None else path.name.partition(".")[0]
    where = first.path.with_name(f"{stem}.index.json")
    size = write.write(where, [json.dumps(content, indent=2), "\n"])
    return Saved(where, size, "index of the traces", "lists one file for each process", shot.window)
