"""The counter tracks of a trace: cores, the target's CPU and memory, GPUs.

A counter holds its value until its next event, so each event stands at the start of the time it was averaged over.
A value that is not available has no event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from gputop.collectors.gpu import metrics
from gputop.model import GpuBatch, GpuReading, HostBatch, Value, known
from gputop.snapshot.shot import Shot
from gputop.snapshot.tracks import Axis, metadata

#: Process ids of our own for what belongs to no process, above every real one and within 31 bits.
MACHINE_PID, GPU_PID = 2_000_000_000, 2_000_000_001

_MIB = 1 << 20


#: GPU metrics that are drawn, by the name of their track. A line draws one more of `collectors.gpu.metrics`.
GPU_COUNTERS = {
    "utilization": "GPU utilization",
    "gpm.sm_active": "SM active",
    "gpm.sm_occupancy": "SM occupancy",
    "gpm.tensor": "tensor cores",
    "gpm.dram": "DRAM bandwidth",
    "memory_used_bytes": "GPU memory",
    "power_w": "power",
    "temperature_c": "temperature",
    "clock_sm_mhz": "SM clock",
    "throttled": "throttled",
    "pcie_rx_bps": "PCIe to GPU",
    "pcie_tx_bps": "PCIe to host",
}

#: Units of metrics that are drawn in another one, and the factor to it.
_DRAWN_IN = {metrics.SHARE: ("%", 100.0), metrics.BYTES: ("MiB", 1 / _MIB), metrics.BYTES_PER_SECOND: ("MB/s", 1e-6)}


def machine(shot: Shot, axis: Axis, pids: Mapping[int, int]) -> Iterator[str]:
    """Yield CPU and memory of the machine and of each of the target's processes; `pids` are the trace's own."""
    batches = shot.store.hosts(shot.window)
    if not batches:
        return
    yield metadata("process_name", MACHINE_PID, 0, name=f"{shot.session.hostname} (cores)")
    yield metadata("process_sort_index", MACHINE_PID, 0, sort_index=-90)
    for batch in batches:
        yield ",\n".join(_host_events(batch, axis.us(max(batch.time - batch.seconds, shot.window.start)), pids))


def _host_events(batch: HostBatch, at: float, pids: Mapping[int, int]) -> Iterator[str]:
    yield event(MACHINE_PID, "all cores", "cores", sum(batch.cores), at)
    yield event(MACHINE_PID, "target", "cores", sum(batch.target_cores), at)
    for index, share in enumerate(batch.cores):
        yield event(MACHINE_PID, f"core {index}", "%", share * 100, at)
    yield from _optional(MACHINE_PID, "memory used", "MiB", batch.memory_used_bytes, 1 / _MIB, at)
    for process in batch.processes:
        pid = pids.get(process.pid, process.pid)
        yield from _optional(pid, "CPU", "cores", process.cpu, 1, at)
        yield from _optional(pid, "memory", "MiB", process.rss_bytes, 1 / _MIB, at)


def gpus(shot: Shot, axis: Axis) -> Iterator[str]:
    """Yield the GPUs' metrics; utilisation from the driver's finer curve where there is one."""
    named: set[int] = set()
    before = shot.window.start
    for batch in shot.store.gpus(shot.window):
        for gpu in batch.gpus:
            if gpu.index not in named:
                named.add(gpu.index)
                yield metadata("process_name", GPU_PID + gpu.index, 0, name=f"GPU {gpu.index} {gpu.name} (sampled)")
                yield metadata("process_sort_index", GPU_PID + gpu.index, 0, sort_index=-80 + gpu.index)
            events = list(_gpu_events(batch, gpu, axis, before))
            if events:
                yield ",\n".join(events)
        before = batch.time


def _gpu_events(batch: GpuBatch, gpu: GpuReading, axis: Axis, before: float) -> Iterator[str]:
    pid = GPU_PID + gpu.index
    curve = batch.curve.get(gpu.index, ())
    for time, share in curve:
        if time >= before:
            yield event(pid, "GPU utilization", "%", share * 100, axis.us(time))
    at = axis.us(batch.time)
    for metric, name in GPU_COUNTERS.items():
        if metric != "utilization" or not curve:
            own_unit = metrics.BY_NAME[metric].unit
            unit, factor = _DRAWN_IN.get(own_unit, (own_unit, 1.0))
            yield from _optional(pid, name, unit, gpu.metric(metric), factor, at)
    yield from _optional(pid, "SM used by target", "%", gpu.target.sm, 100, at)
    yield from _optional(pid, "memory of target", "MiB", gpu.target.memory_bytes, 1 / _MIB, at)


def _optional(pid: int, name: str, unit: str, value: Value, factor: float, at: float) -> Iterator[str]:
    number = known(value)
    if number is not None:
        yield event(pid, name, unit, number * factor, at)


def event(pid: int, name: str, unit: str, value: float, at: float) -> str:
    """Return a counter event; Perfetto names the track `name unit`."""
    return (
        f'{{"ph":"C","pid":{pid},"tid":0,"ts":{at:.3f},"name":{json.dumps(name)},'
        f'"args":{{{json.dumps(unit)}:{round(value, 3)}}}}}'
    )
