"""NVIDIA GPUs through NVML."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gputop.collectors.gpu import holders, pci
from gputop.collectors.gpu.backend import Remark, Seen, Unavailable, Watched, unread
from gputop.collectors.gpu.holders import Holders
from gputop.collectors.gpu.nvml_counters import Counters, Energy
from gputop.collectors.gpu.nvml_gpm import Gpm
from gputop.collectors.gpu.nvml_gpu import Clocks, Identity, NvmlGpu
from gputop.collectors.gpu.nvml_library import Failure, Library, load
from gputop.collectors.gpu.nvml_mig import Instances
from gputop.collectors.gpu.nvml_reads import READS, Part

_ASLEEP = "asleep; reading it would wake it"

_ON_THE_HOST = "run gputop on the host, or start the container with --pid=host"
_FOREIGN_PIDS = Remark(
    "the driver lists processes by pids of another PID namespace, so this program's part of the GPU is not known",
    _ON_THE_HOST,
)
_INFERRED = Remark(
    "the driver does not list this program's pids (another PID namespace): its GPUs are those that it has mapped, and "
    "numbers of its own are shown for those that nobody else uses",
    _ON_THE_HOST,
)
_WSL_PIDS = Remark("under WSL the driver lists processes by Windows' numbers: this program's part is not known")
_SHARED_MEMORY = Remark("a GPU has no memory of its own: its memory figures are those of the whole machine")


class NvmlBackend:
    """All NVIDIA GPUs of the machine. Sleeping ones are left asleep: while all are, NVML is not even opened."""

    name = "nvml"

    def __init__(
        self,
        stopping: threading.Event,
        clock: Callable[[], float] = time.monotonic,
        *,
        wall: Callable[[], float] = time.time,
        load: Callable[[], Any] = load,
        devices: Path = pci.DEVICES,
        proc: Path = holders.PROC,
    ) -> None:
        self._stopping = stopping
        self._clocks = Clocks(clock, wall)
        self._load = load
        self._devices = devices
        self._addresses = pci.nvidia_gpus(devices)
        self._library: Library | None = None
        self._gpus: list[NvmlGpu] = []
        self._instances: Instances | None = None
        self._maps = holders.Maps(clock, proc)

    def probe(self) -> int:
        """Open NVML and return the number of GPUs, or that of the sleeping ones when all of them are.

        Raises:
            Unavailable: no pynvml, no driver, no GPU.
        """
        if self._all_asleep():
            return len(self._addresses)
        self._open()
        return len(self._gpus)

    def read(self, watched: Watched) -> Iterator[Seen]:
        """Yield each GPU, then its MIG instances if it has some.

        Raises:
            Unavailable: the driver was unloaded.
        """
        if self._library is None:
            if self._all_asleep():
                yield from (_sleeping(index, address) for index, address in enumerate(self._addresses))
                return
            self._open()
        mapped = self._mapped(watched)
        try:
            for gpu in self._gpus:
                yield from self._read(gpu, watched, mapped)
        except Failure as failure:
            raise Unavailable(f"the NVIDIA driver was unloaded (NVML error {failure.code})", retry_s=5.0) from None

    def remarks(self) -> Mapping[str, Remark]:
        """Tell of pids that cannot be matched, and of memory that is shared with the machine."""
        found = {}
        if any(gpu.processes.usage.inferred for gpu in self._gpus):
            found["pid-namespace"] = _INFERRED
        elif any(gpu.processes.usage.foreign for gpu in self._gpus):
            found["pid-namespace"] = _WSL_PIDS if self._library and self._library.wsl else _FOREIGN_PIDS
        if any(gpu.metrics["memory_shared"] == 1.0 for gpu in self._gpus):
            found["shared-memory"] = _SHARED_MEMORY
        return found

    def close(self) -> None:
        """Free the GPM samples and shut NVML down."""
        if self._library is None:
            return
        for gpu in self._gpus:
            gpu.close()
        if self._instances:
            self._instances.close()
        with contextlib.suppress(Failure):  # it may be gone already
            self._library.finish("nvmlShutdown")
        self._library, self._gpus, self._instances = None, [], None

    def _open(self) -> None:
        library = Library(self._load(), self._stopping)
        library.open()
        self._library = library
        try:
            count = library.call("nvmlDeviceGetCount")
        except Failure as failure:
            self.close()
            raise Unavailable(f"the NVIDIA driver does not count its GPUs (NVML error {failure.code})") from None
        if not count:
            self.close()
            raise Unavailable("the NVIDIA driver finds no GPU", "lspci | grep -i nvidia shows whether there is one")
        self._gpus = [self._gpu(library, index, count) for index in range(count)]
        self._instances = Instances(library, self._clocks, count)

    def _gpu(self, library: Library, index: int, count: int) -> NvmlGpu:
        parts: tuple[Part, ...] = (*READS, Gpm(), Counters(), Energy())

        def find() -> Any:
            return library.call("nvmlDeviceGetHandleByIndex", index)

        return NvmlGpu(library, Identity(index, name=f"GPU {index}"), find, parts, self._clocks, count)

    def _mapped(self, watched: Watched) -> Holders | None:
        """Return who has which GPU mapped, once the driver's lists have been read and name none of the processes."""
        usages = [gpu.processes.usage for gpu in self._gpus if gpu.processes.asked]
        if not usages or any(usage.matched for usage in usages):
            return None
        return self._maps.holders(watched)

    def _read(self, gpu: NvmlGpu, watched: Watched, mapped: Holders | None) -> Iterator[Seen]:
        index = gpu.identity.index
        if len(self._addresses) == len(self._gpus) and pci.asleep(self._addresses[index], self._devices):
            yield _sleeping(index, gpu.identity.uuid or self._addresses[index], gpu.identity.name)
            return
        yield gpu.read(watched, mapped)
        if self._instances:
            for instance in self._instances.of(gpu):
                yield instance.read(watched)

    def _all_asleep(self) -> bool:
        return bool(self._addresses) and all(pci.asleep(address, self._devices) for address in self._addresses)


def _sleeping(index: int, uuid: str, name: str = "NVIDIA GPU") -> Seen:
    return Seen(unread(index, _ASLEEP, uuid=uuid, name=name, error=_ASLEEP))
