"""The instances that a GPU is divided into by MIG: each gets a row of its own after the whole GPUs."""

from __future__ import annotations

from typing import Any

from gputop.collectors.gpu.nvml_gpm import Gpm
from gputop.collectors.gpu.nvml_gpu import Clocks, Identity, NvmlGpu
from gputop.collectors.gpu.nvml_library import FATAL, UNINITIALIZED, Failure, Library
from gputop.collectors.gpu.nvml_reads import MEMORY, Part
from gputop.collectors.gpu.schedule import Schedule

#: Seconds between two looks for new instances.
EVERY_S = 5.0


class Instances:
    """Finds the MIG instances of all GPUs and numbers them; a number is never given twice."""

    def __init__(self, library: Library, clocks: Clocks, first_index: int) -> None:
        self._library = library
        self._clocks = clocks
        self._next = first_index
        self._known: dict[str, NvmlGpu] = {}
        self._of: dict[int, list[NvmlGpu]] = {}
        self._schedule = Schedule(1)

    def of(self, gpu: NvmlGpu) -> list[NvmlGpu]:
        """Return the instances of a GPU, none unless MIG is on."""
        index, now = gpu.identity.index, self._clocks.now()
        if gpu.handle is None or gpu.metrics["mig_mode"] != 1.0:
            return []
        if self._schedule.is_due(str(index), EVERY_S, now) or index not in self._of:
            self._of[index] = self._find(gpu)
            self._schedule.done(str(index), EVERY_S, now, self._clocks.now())
        return self._of[index]

    def close(self) -> None:
        """Give back what the driver holds for us."""
        for instance in self._known.values():
            instance.close()

    def _find(self, gpu: NvmlGpu) -> list[NvmlGpu]:
        try:
            places = self._library.call("nvmlDeviceGetMaxMigDeviceCount", gpu.handle)
            handles = [self._handle(gpu.handle, place) for place in range(places)]
            return [self._instance(gpu, handle) for handle in handles if handle is not None]
        except Failure as failure:
            if failure.code == UNINITIALIZED:
                raise
            return []  # the row of the whole GPU tells what is wrong

    def _handle(self, whole: Any, place: int) -> Any:
        try:
            return self._library.call("nvmlDeviceGetMigDeviceHandleByIndex", whole, place)
        except Failure as failure:
            if failure.code in FATAL:
                raise
            return None  # no instance at this place

    def _instance(self, gpu: NvmlGpu, handle: Any) -> NvmlGpu:
        number = self._library.call("nvmlDeviceGetGpuInstanceId", handle)
        uuid = self._library.text("nvmlDeviceGetUUID", handle) or f"{gpu.identity.uuid}/{number}"
        if uuid not in self._known:
            parts: tuple[Part, ...] = (MEMORY, Gpm((gpu.handle, number)))
            identity = Identity(self._next, uuid, part=f"(MIG instance {number} of GPU {gpu.identity.index})")
            self._known[uuid] = NvmlGpu(self._library, identity, lambda: handle, parts, self._clocks)
            self._next += 1
        return self._known[uuid]
