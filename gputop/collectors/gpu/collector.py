"""Samples the GPUs in one thread that nobody ever waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from gputop.collectors.base import Emit
from gputop.collectors.gpu.backend import (
    BACKENDS,
    Curve,
    GpuBackend,
    Remark,
    Stopping,
    Unavailable,
    Watched,
    make,
    unread,
)
from gputop.model import GpuBatch, GpuReading, Note, ProcessInfo

#: Shortest time between two looks at the GPUs: asking the driver ten times a second slows the programs that use it.
SHORTEST_S = 0.25

#: A driver that has not answered for so long is said to hang; looked at so often, seconds.
PATIENCE_S, WATCH_EVERY_S = 5.0, 0.5

_SILENT = Remark(
    "the GPU driver does not answer", "see dmesg; does nvidia-smi hang too? A reset or a reboot may be needed"
)

#: How long `stop` waits for the thread; a driver that hangs keeps it, and it is left behind as a daemon.
JOIN_S = 0.2


class GpuCollector:
    """Emits a `GpuBatch` twice a second, and `Note`s about what does not work.

    The first batch comes as soon as the driver has said how many GPUs there are, with nothing in it. While a slow
    driver is being asked, a batch with what is known so far is emitted in every period.
    """

    name = "gpu"

    def __init__(
        self,
        emit: Emit,
        clock: Callable[[], float] = time.monotonic,
        *,
        rate_hz: float = 2.0,
        backends: tuple[str, ...] = BACKENDS,
    ) -> None:
        self._emit = emit
        self._clock = clock
        self._backends = backends
        self._period = 0.0
        self.set_rate(rate_hz)
        self._watched: Watched = frozenset()
        self._said: Mapping[str, Remark] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gputop-gpu", daemon=True)
        self._watch = threading.Thread(target=self._watch_driver, name="gputop-gpu-watch", daemon=True)
        #: When the driver was asked what it has not answered yet (real time).
        self._asked: float | None = None

    def start(self) -> None:
        """Begin to sample; returns before pynvml is imported."""
        self._thread.start()
        self._watch.start()

    def follow(self, processes: tuple[ProcessInfo, ...]) -> None:
        """Tell these processes' part of each GPU from now on."""
        self._watched = frozenset(pid for process in processes for pid in (process.pid, *process.aliases))

    def set_rate(self, hz: float) -> None:
        """Look this often, four times a second at most."""
        self._period = max(SHORTEST_S, 1 / hz)

    def own_pids(self) -> tuple[int, ...]:
        """Return nothing: there are no helper processes."""
        return ()

    def cpu_s(self) -> float:
        """Return 0: there are no helper processes; the thread counts as ours by its name."""
        return 0.0

    def stop(self) -> None:
        """Ask the thread to end and leave it behind when the driver holds it."""
        self._stopping.set()
        for thread in (self._watch, self._thread):
            if thread.is_alive():
                thread.join(JOIN_S)

    def _watch_driver(self) -> None:
        """Say that the driver hangs, as the thread that asks it cannot, and withdraw it when it has answered."""
        told = False
        while not self._stopping.wait(WATCH_EVERY_S):
            asked = self._asked
            hangs = asked is not None and time.monotonic() - asked > PATIENCE_S
            if hangs != told:
                told = hangs
                what, remedy = _SILENT if hangs else ("", "")
                self._emit(Note(self._clock(), "gpu", "silent", what, remedy))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._asked = time.monotonic()
            try:
                self._sample()
            except Stopping:
                return
            except Unavailable as trouble:
                self._asked = None
                self._say({"driver": trouble.remark})
                self._stopping.wait(trouble.retry_s)
            except Exception as error:  # a fault of ours may cost the GPU part, never the rest of gputop
                self._asked = None
                self._say({"driver": Remark(f"reading the GPUs failed: {error!r}", "please report this")})
                self._stopping.wait(Unavailable("").retry_s)

    def _sample(self) -> None:
        """Find a backend and use it until it fails or we are stopped."""
        backend, count = self._find()
        try:
            rows = {index: unread(index, "not read yet") for index in range(count)}
            self._emit(GpuBatch(self._clock(), tuple(rows.values())))
            while True:
                started = self._clock()
                rows = self._look(backend, rows)
                self._asked = None
                self._say(backend.remarks())
                if self._stopping.wait(max(SHORTEST_S / 2, self._period - (self._clock() - started))):
                    return
        finally:
            backend.close()

    def _find(self) -> tuple[GpuBackend, int]:
        """Return the first backend that has GPUs; when none has, the last one's reason is raised."""
        trouble = Unavailable("no GPU backend is known")
        for path in self._backends:
            backend = make(path, self._stopping, self._clock)
            try:
                return backend, backend.probe()
            except Unavailable as unavailable:
                trouble = unavailable
        raise trouble

    def _look(self, backend: GpuBackend, rows: Mapping[int, GpuReading]) -> dict[int, GpuReading]:
        """Read every GPU once; `rows` stand in for those not read yet when the driver is slow."""
        fresh: dict[int, GpuReading] = {}
        curves: dict[int, Curve] = {}
        emitted = self._clock()
        self._asked = time.monotonic()
        for seen in backend.read(self._watched):
            self._asked = time.monotonic()
            fresh[seen.reading.index] = seen.reading
            curves[seen.reading.index] = seen.curve
            if self._clock() - emitted > self._period:
                emitted = self._publish({**rows, **fresh}, curves)
                curves = {}
        if curves or fresh.keys() != rows.keys():
            self._publish(fresh, curves)
        return fresh

    def _publish(self, rows: Mapping[int, GpuReading], curves: Mapping[int, Curve]) -> float:
        now = self._clock()
        self._emit(GpuBatch(now, tuple(rows[index] for index in sorted(rows)), curves))
        return now

    def _say(self, remarks: Mapping[str, Remark]) -> None:
        """Emit what is new among the remarks, and withdraw what no longer holds."""
        now = self._clock()
        for key in self._said.keys() - remarks.keys():
            self._emit(Note(now, "gpu", key, ""))
        for key, remark in remarks.items():
            if self._said.get(key) != remark:
                self._emit(Note(now, "gpu", key, remark.what, remark.remedy))
        self._said = dict(remarks)
