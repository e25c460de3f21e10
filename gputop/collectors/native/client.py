"""`PeekCollector`: starts the worker, tells it what to follow, hands on what it saw."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import gputop
from gputop import procfs
from gputop.collectors.base import Emit
from gputop.collectors.native.wire import Receiver, encode
from gputop.errors import ptrace_remedy
from gputop.model import Note, ProcessInfo
from gputop.text import printable

#: The package is found on a path that is appended: nothing in the current directory, PYTHONPATH or site-packages
#: can stand in for a module of the worker.
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from gputop.collectors.native.worker import main; main(int(sys.argv[2]))"
)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 10.0
#: A worker that ran this long gets the first pause again.
_HEALTHY_S = 10.0
#: A worker says something twice a second. One that does not may hang in a read (a dead network file system, a hostile
#: FUSE); it is killed, which frees whatever it may be holding.
_SILENCE_S = 5.0
_FAREWELL_S, _JOIN_S = 0.1, 0.15


class PeekCollector:
    """Native call chains and waits of all threads of the followed processes, as `PeekBatch`es.

    Args:
        emit: takes the batches and notes, on the collector's own thread.
        clock: monotonic time, for the notes; the worker's samples carry its own `time.monotonic()`.
        rate: looks each second at main and busy threads.
        budget: share of its time that a thread may be held up; at 0, running threads are never stopped and their
            call chains are not known.
    """

    name = "peek"

    def __init__(
        self, emit: Emit, clock: Callable[[], float] = time.monotonic, rate: float = 50.0, budget: float = 0.01
    ) -> None:
        self._emit, self._clock = emit, clock
        self._lock = threading.Lock()
        self._settings: dict[str, Any] = {"rate": rate, "budget": budget, "follow": ()}
        self._worker: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._said: dict[str, str] = {}
        self._cpu: dict[int, float] = {}

    def start(self) -> None:
        """Start the worker, in the background."""
        if self._thread is None and not self._stopping.is_set():
            self._thread = threading.Thread(target=self._run, name="gputop-peek", daemon=True)
            self._thread.start()

    def follow(self, processes: tuple[ProcessInfo, ...]) -> None:
        """Look at these processes from now on."""
        self._set("follow", tuple((process.pid, process.started_unix) for process in processes))

    def set_rate(self, hz: float) -> None:
        """Look at main and busy threads so often."""
        self._set("rate", hz)

    def set_budget(self, share: float) -> None:
        """Hold no thread up for more than this share of its time."""
        self._set("budget", share)

    def own_pids(self) -> tuple[int, ...]:
        """Return the worker's process id, if it lives."""
        worker = self._worker
        return (worker.pid,) if worker is not None and worker.poll() is None else ()

    def cpu_s(self) -> float:
        """Return the CPU seconds that the workers have used so far."""
        worker = self._worker
        if worker is not None:
            with suppress(OSError):
                self._cpu[worker.pid] = procfs.process_cpu_s(worker.pid)
        return sum(self._cpu.values())

    def stop(self) -> None:
        """End the worker and the thread; may be called twice."""
        self._stopping.set()
        with self._lock:
            self._tell("stop", None)
            worker, thread = self._worker, self._thread
        if worker is not None:
            try:
                worker.wait(_FAREWELL_S)
            except subprocess.TimeoutExpired:
                worker.kill()
        if thread is not None:
            thread.join(_JOIN_S)

    def _set(self, name: str, value: object) -> None:
        with self._lock:
            self._settings[name] = value
            self._tell(name, value)

    def _tell(self, name: str, value: object) -> None:
        """Send a command; a worker that has just died will get the settings when it is started again."""
        worker = self._worker
        if worker is None or worker.stdin is None:
            return
        try:
            worker.stdin.write(encode((name, value)))
            worker.stdin.flush()
        except (OSError, ValueError):
            return

    def _run(self) -> None:
        pause = _FIRST_PAUSE_S
        while not self._stopping.is_set():
            started = self._clock()
            reason = self._serve()
            if self._stopping.is_set() or not reason:
                return
            if self._clock() - started > _HEALTHY_S:
                pause = _FIRST_PAUSE_S
            self._note("worker", f"the native sampler ended: {reason}; it is started again in {pause:.1f} s")
            self._stopping.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _serve(self) -> str:
        """Run one worker to its end; return why it ended, empty when there is no use in another."""
        try:
            worker = self._spawn()
        except OSError as error:
            return f"it cannot be started ({error.strerror})"
        if worker is None:
            return ""
        assert worker.stdout is not None
        receiver = Receiver(worker.stdout.fileno())
        reason = ""
        try:
            while select.select([worker.stdout], [], [], _SILENCE_S)[0]:
                for message in receiver.receive():
                    reason = self._take(*message) or reason
            worker.kill()
            reason = f"it was silent for {_SILENCE_S:.0f} s"
        except EOFError:
            pass
        return self._bury(worker, reason)

    def _spawn(self) -> subprocess.Popen[bytes] | None:
        """Start a worker and tell it everything; None when we were stopped in the meantime."""
        root = str(Path(gputop.__file__).resolve().parent.parent)
        command = [sys.executable, "-I", "-S", "-c", _BOOT, root, str(os.getpid())]
        with self._lock:
            if self._stopping.is_set():
                return None
            self._worker = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
            for name, value in self._settings.items():
                self._tell(name, value)
            return self._worker

    def _take(self, kind: str, *values: Any) -> str:
        """Handle one message of the worker; return why it is about to end, if it says so."""
        if kind == "batch":
            self._emit(values[0])
            self._note("worker", "")
        elif kind == "refused":
            self._refuse(*values)
        elif kind == "unsupported":
            self._note("arch", f"native stacks are not supported on {values[0]}: x86-64 and aarch64 only")
            self._stopping.set()
        elif kind == "crashed":
            return str(values[0])
        return ""

    def _refuse(self, pid: int, refusal: tuple[str, bool] | None) -> None:
        """Say that a process cannot be looked into, and what helps; withdraw it when it can again, or has ended."""
        reason, permission = refusal or ("", False)
        what = f"native stacks of process {pid} cannot be read: {reason}" if refusal else ""
        self._note(f"refused.{pid}", what, ptrace_remedy() if permission else "")

    def _note(self, key: str, what: str, remedy: str = "") -> None:
        """Say something, or withdraw it, unless that is what was said last."""
        if self._said.get(key, "") != what:
            self._said[key] = what
            self._emit(Note(self._clock(), "peek", key, printable(what), remedy))

    def _bury(self, worker: subprocess.Popen[bytes], reason: str) -> str:
        for pipe in (worker.stdin, worker.stdout):
            if pipe is not None:
                pipe.close()
        code = worker.wait()
        return reason or f"exit status {code}"
