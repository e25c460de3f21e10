"""What could not be measured, and why: every "n/a" of the screen has its reason here."""

from __future__ import annotations

from collections.abc import Iterator

from gputop.analysis.results import Summary
from gputop.collectors.gpu.metrics import METRICS, PROCESS
from gputop.model import NA, GpuReading, Value
from gputop.tui.cells import many


def of_gpu(gpu: GpuReading) -> dict[str, list[str]]:
    """Return reason to the labels of what is missing for it."""
    found: dict[str, list[str]] = {}
    for metric in METRICS:
        own = metric.scope == PROCESS
        value: Value = getattr(gpu.target, metric.name.partition(".")[2]) if own else gpu.metric(metric.name)
        label = f"process {metric.label}" if own else metric.label
        if isinstance(value, NA) and label not in found.setdefault(value.reason, []):
            found[value.reason].append(label)
    return {reason: labels for reason, labels in found.items() if labels}


def sentences(summary: Summary) -> Iterator[str]:
    """Yield one sentence for each reason; GPUs that miss the same are named together."""
    if summary.host is not None and isinstance(summary.host.memory_used_bytes, NA):
        yield f"memory of the machine: {summary.host.memory_used_bytes.reason}"
    without = [row.cpu for row in summary.threads if isinstance(row.cpu, NA)]
    if without:
        yield f"CPU use of {many(len(without), 'thread')}: {without[0].reason}"
    same: dict[tuple[str, str], list[int]] = {}
    for gpu in summary.gpus:
        missing = {gpu.error: ["everything"]} if gpu.error else of_gpu(gpu)
        for reason, labels in missing.items():
            same.setdefault((reason, ", ".join(labels)), []).append(gpu.index)
    for (reason, names), indexes in same.items():
        yield f"GPU {', '.join(map(str, indexes))}: {names}: {reason}"
