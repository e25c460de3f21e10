"""The live engine: one thread that moves batches from the collectors into the store and keeps the budgets."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import gputop
from gputop.collectors.base import Collector
from gputop.config import Settings
from gputop.engine.accounts import Accounts
from gputop.engine.answers import Answers
from gputop.engine.company import Company
from gputop.engine.governor import Governor
from gputop.engine.hands_off import Sharing
from gputop.engine.left_out import LeftOut
from gputop.engine.registry import build_collectors
from gputop.model import Batch, Note, ProcessInfo, Session, Window
from gputop.session import SessionWriter
from gputop.store import Store
from gputop.target import code
from gputop.target.code import Code
from gputop.target.follow import Follower
from gputop.target.launch import Launched
from gputop.target.output import Tail
from gputop.target.tracer import TracerWatch

if TYPE_CHECKING:
    from gputop.snapshot.camera import Camera
    from gputop.snapshot.flight import Saved
    from gputop.snapshot.kineto.request import Options
    from gputop.snapshot.kineto.route import Route
    from gputop.snapshot.kineto.shoot import Consent

#: How often the process tree is looked at and how often rates are set, seconds.
_FOLLOW_EVERY, _GOVERN_EVERY = 0.5, 1.0
#: Batches of what happened before the target's end arrive until then, seconds.
_AFTERMATH = 1.5
#: The target's processes are known after this time at the latest, looked for so often, seconds.
_FIRST_TREE, _SOON = 2.0, 0.05
#: All collectors together may take this long to stop, seconds.
_STOP_WITHIN = 0.4


def new_camera(settings: Settings, store: Store) -> Camera:
    """Return the camera over a store; made before a program is launched, whose environment it adds to."""
    from gputop.snapshot.camera import Camera
    from gputop.snapshot.kineto.route import Policy

    return Camera(store, Policy(settings.kineto, settings.inject))


class Engine(Answers):
    """Samples one process tree and answers questions about any window of the past.

    The methods may be called from any thread. `start` returns at once; `stop` within half a second.
    """

    live = True

    def __init__(
        self,
        root: ProcessInfo,
        settings: Settings,
        *,
        launched: Launched | None = None,
        camera: Camera | None = None,
        recording: SessionWriter | None = None,
        collectors: Sequence[Collector] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.session = Session(
            root, time.time() - clock(), os.uname().nodename, os.cpu_count() or 1, gputop.__version__
        )
        self.store = camera.store if camera is not None else Store()
        self._camera = camera
        self._clock = clock
        self._launch = launched
        self._recording = recording
        self._batches: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._collectors = build_collectors(self._batches.put, settings) if collectors is None else tuple(collectors)
        self._follower = Follower(root, tree=settings.tree, launched=launched)
        self._sharing = Sharing(self._collectors)
        self._tracer = TracerWatch(root.pid)
        self._governor = Governor(settings)
        self._company = Company(root)
        self._left_out = LeftOut()
        self._accounts = Accounts(self._collectors, clock)
        self._tail = Tail(launched.output) if launched is not None and launched.output is not None else None
        self._thread = threading.Thread(target=self._run, name="gputop-engine", daemon=True)
        self._ended_at: float | None = None
        self._collecting = False
        self._stopping = threading.Event()
        self._accept(self.session)

    # ------------------------------------------------------------------------------------------ life

    def start(self) -> None:
        """Begin to sample."""
        self._collecting = True
        self._company.join()
        for collector in self._collectors:
            collector.start()
        self._thread.start()

    def stop(self) -> None:
        """End sampling, helpers and the recording, what was sampled last still counts; may be called twice."""
        self._stopping.set()
        self._stop_collectors()
        self._batches.put(None)
        if self._thread.is_alive():
            self._thread.join(_STOP_WITHIN)
        self._company.close()
        if self._camera is not None:
            self._camera.close()
        if self._recording is not None:
            self._recording.close()

    def _run(self) -> None:
        next_follow = self._clock()
        next_govern = next_follow + _GOVERN_EVERY
        while True:
            now = self._clock()
            if now >= next_follow:
                self._follow(now)
                next_follow = now + _FOLLOW_EVERY
            if now >= next_govern:
                self._govern(now)
                next_govern = now + _GOVERN_EVERY
            try:
                batch = self._batches.get(timeout=max(0.0, min(next_follow, next_govern) - self._clock()))
            except queue.Empty:
                continue
            if batch is None:
                return
            try:
                self._accept(batch)
            except Exception as error:  # whatever it is, this batch is lost, and nothing else
                self.note("internal", f"something sampled was lost: {error!r}", "please report this as a bug of gputop")

    def _accept(self, batch: Batch) -> None:
        self._accounts.add(batch)
        self.store.add(batch)
        if (note := self._left_out.note(batch)) is not None:
            self._batches.put(note)
        if self._recording is not None:
            self._recording.write(batch)
            self._watch_recording(self._recording)

    def _watch_recording(self, recording: SessionWriter) -> None:
        """Say once that the recording has ended early; sampling goes on."""
        if recording.error is not None:
            self._recording = None
            self.note("recording", recording.error.what, recording.error.remedy)

    def _follow(self, now: float) -> None:
        changed = self._follower.poll(now)
        if changed is not None:
            self._accept(changed)
            self._describe_anew(changed.processes)
            self._sharing.follow(changed.processes)
        for note in filter(None, (self._follower.note(now), self._tracer.note(now))):
            self._accept(note)
        if self._ended_at is None and self.exited is not None:
            self._ended_at = now
        if self._ended_at is not None and now - self._ended_at > _AFTERMATH:
            self._stop_collectors()

    def _describe_anew(self, processes: Sequence[ProcessInfo]) -> None:
        """Keep up with what the target is: it imports frameworks, or becomes another program."""
        root = self.session.root
        newest = next((process for process in processes if process.pid == root.pid), root)
        if newest != root:
            self.session = replace(self.session, root=newest)
            self._accept(self.session)

    def _govern(self, now: float) -> None:
        if not self._collecting:
            return
        others = self._company.others()
        if (note := self._company.note(now, others)) is not None:
            self._accept(note)
        self._governor.share(1 + others)
        load = self._accounts.close(now)
        rates = self._governor.next(load.own_cpu, load.stopped)
        for collector in self._collectors:
            if collector.name == "stacks":
                collector.set_rate(rates.stacks)
            elif collector.name == "peek":
                collector.set_rate(rates.peek)
        self._accept(load.batch(now, rates))

    def _stop_collectors(self) -> None:
        """Stop all at once, so that the slowest alone sets the time."""
        if not self._collecting:
            return
        self._collecting = False
        stoppers = [threading.Thread(target=collector.stop, daemon=True) for collector in self._collectors]
        for stopper in stoppers:
            stopper.start()
        deadline = time.monotonic() + _STOP_WITHIN
        for stopper in stoppers:
            stopper.join(max(0.0, deadline - time.monotonic()))

    # --------------------------------------------------------------------------------------- answers

    def span(self) -> Window | None:
        """Return the time that can be looked at; its end is now while the target lives."""
        kept = self.store.span()
        if kept is None:
            return None
        return Window(kept.start, kept.end if self._ended_at is not None else max(kept.end, self._clock()))

    def code(self, file: str) -> Code:
        """Return a source file of the target, or why it cannot be shown; as slow as its disk."""
        ended = self.exited is not None
        remark = "the program has ended; this is the file of that name as it is now" if ended else ""
        return code.read(file, self.session.root, live=not ended, remark=remark)

    def set_rate(self, factor: float) -> None:
        """Sample at `factor` times the configured rates from now on; the budgets still bind."""
        self._governor.ask(factor)

    def await_torch(self, seconds: float, progress: Callable[[str], None]) -> None:
        """Give a program that was just launched the time to import torch; at once where that is not awaited."""
        self._the_camera().await_torch(self.session.root, seconds, self._wait, progress)

    def snapshot(
        self,
        path: Path | None,
        before: float,
        options: Options,
        progress: Callable[[str], None],
        consent: Consent = lambda question: False,
    ) -> tuple[Saved, ...]:
        """Write a trace of the last `before` seconds and the next ones that `options` says; blocks that long.

        Raises:
            SnapshotError: it could not be written; nothing half-written is left.
        """
        if self._ended_at is None:
            processes = self._processes()
            camera = self._the_camera()
            camera.hands_off = self._sharing.hands_off
            return camera.take(processes, options, before, path, self._wait, progress, consent)
        length = max(before, options.seconds)  # there are no next seconds
        return self._save(path, Window(self._ended_at - length, self._ended_at), progress)

    def route(self) -> Route:
        """Return which trace the snapshot key would take now; reads some files in /proc for each process."""
        from gputop.snapshot.kineto.route import Policy, best, over

        if self._ended_at is not None:
            return over("the program has ended")
        processes = self.store.processes(self._clock()) or (self.session.root,)
        return best(processes, Policy(self.settings.kineto, self.settings.inject))[1]

    def _processes(self) -> tuple[ProcessInfo, ...]:
        """Return the tree as it is now; just after the start that takes a moment."""
        deadline = self._clock() + _FIRST_TREE
        while not (known := self.store.processes(self._clock())) and self._clock() < deadline:
            if not self._wait(self._clock() + _SOON):
                break
        return known or (self.session.root,)

    def _the_camera(self) -> Camera:
        if self._camera is None:
            self._camera = new_camera(self.settings, self.store)
        return self._camera

    def hurry(self) -> None:
        """End the waits of a snapshot: what there is by now is saved."""
        self._stopping.set()

    def _wait(self, until: float) -> bool:
        """Wait until a time of our clock; False when the engine is being stopped, or the target has ended and what was
        sampled last is in."""
        while (left := until - self._clock()) > 0 and self._ended_at is None:
            if self._stopping.wait(min(left, _FOLLOW_EVERY)):
                return False
        if self._ended_at is not None:
            self._stopping.wait(max(0.0, self._ended_at + _AFTERMATH - self._clock()))
        return self._ended_at is None

    def note(self, key: str, what: str, remedy: str = "") -> None:
        """Show something about the engine itself on the screen and in reports."""
        self._batches.put(Note(self._clock(), "engine", key, what, remedy))

    # ---------------------------------------------------------------------------------------- target

    @property
    def launched(self) -> bool:
        """Tell whether gputop started the target (and so may end it)."""
        return self._launch is not None

    @property
    def output(self) -> Path | None:
        """Return the file that the launched program writes to."""
        return self._launch.output if self._launch is not None else None

    @property
    def ended_by(self) -> int | None:
        """Return the signal that ended the launched program, 0 for none; None while it runs, or of an attached one."""
        return self._launch.ended_by if self._launch is not None else None

    def output_lines(self, count: int) -> list[str]:
        """Return the newest lines that the launched program wrote."""
        return self._tail.lines(count) if self._tail is not None else []

    def forward(self, signum: int) -> None:
        """Pass a signal on to the launched program."""
        if self._launch is not None:
            self._launch.forward(signum)

    def terminate(self) -> None:
        """Ask the launched program to end, and make it end when it does not."""
        if self._launch is not None:
            self._launch.terminate()
