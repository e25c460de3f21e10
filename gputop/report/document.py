"""The report as data: `gputop.report/1`, the stable JSON form of a summary (schema.json beside this file)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gputop.analysis.results import CpuUse, Headline, NativePart, Summary, ThreadRow
from gputop.analysis.rounding import rounded
from gputop.analysis.states import COMPUTE, GPU_WAIT, IDLE, OTHER_WAIT
from gputop.collectors.gpu.metrics import DEVICE_METRICS
from gputop.model import NA, CostBatch, GpuReading, HostBatch, ProcessInfo, Value, known

SCHEMA = "gputop.report/1"

#: Shares are rounded to this many digits: finer than sampling can tell, coarser than float noise.
_DIGITS = 5


def document(summary: Summary) -> dict[str, Any]:
    """Return the summary as JSON-ready data; keys are stable, units are in the names."""
    return {
        "schema": SCHEMA,
        "target": _target(summary),
        "window": {
            "start_unix": summary.window.start + summary.session.epoch,
            "duration_s": round(summary.window.seconds, 3),
        },
        "threads": [_thread(row) for row in summary.threads],
        "headline": _headline(summary.headline),
        "functions": [
            {
                "name": row.name,
                "file": row.file,
                "line": row.line,
                "native": row.is_native,
                "self": _share(row.self_share),
                "total": _share(row.total_share),
                "states": _states(row.states),
                "native_calls": _calls(row.native),
            }
            for row in summary.functions
        ],
        "lines": [
            {
                "file": row.file,
                "line": row.line,
                "function": row.function,
                "self": _share(row.self_share),
                "states": _states(row.states),
                "native_calls": _calls(row.native),
            }
            for row in summary.lines
        ],
        "host": _host(summary.host, summary.cpu),
        "gpus": [_gpu(gpu, summary) for gpu in summary.gpus],
        "verdict": {
            "id": summary.verdict.id,
            "title": summary.verdict.title,
            "sentence": summary.verdict.sentence,
            "likely": summary.verdict.likely,
            "evidence": list(summary.verdict.evidence),
            "advice": list(summary.verdict.advice),
        },
        "cost": _cost(summary.cost),
        "notes": [{"source": note.source, "what": note.what, "remedy": note.remedy} for note in summary.notes],
    }


def _calls(parts: Iterable[NativePart]) -> list[dict[str, Any]]:
    return [{"name": part.name, "module": part.module, "share": _share(part.share)} for part in parts]


def _share(value: float) -> float:
    return round(value, _DIGITS)


def _states(states: Mapping[str, float]) -> dict[str, float]:
    """Return what is there of a whole, rounded so that it still sums to the whole."""
    return {name: share for name, share in rounded(states, _DIGITS).items() if share}


def _target(summary: Summary) -> dict[str, Any]:
    root = summary.session.root
    return {
        "pid": root.pid,
        "cmdline": list(root.cmdline),
        "exe": root.exe,
        "python": root.python,
        "frameworks": list(root.frameworks),
        "started_unix": root.started_unix,
        "exited": root.pid in summary.ended,
        "exit_code": summary.ended.get(root.pid),
        "processes": [_process(process) for process in summary.processes],
    }


def _process(process: ProcessInfo) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "ppid": process.ppid,
        "cmdline": list(process.cmdline),
        "python": process.python,
        "rank": process.rank,
    }


def _thread(row: ThreadRow) -> dict[str, Any]:
    return {
        "pid": row.pid,
        "tid": row.tid,
        "name": row.name,
        "role": row.role,
        "main": row.main,
        "samples": row.samples,
        "cpu_share": known(row.cpu),
        "states": _states(row.states),
        "detail": {kind: _share(share) for kind, share in row.detail.items() if share > 0},
    }


def _headline(headline: Headline | None) -> dict[str, Any] | None:
    if headline is None:
        return None
    return {
        "pid": headline.pid,
        "tid": headline.tid,
        "name": headline.name,
        **rounded({group: getattr(headline, group) for group in (COMPUTE, GPU_WAIT, OTHER_WAIT, IDLE)}, _DIGITS),
    }


def _host(host: HostBatch | None, cpu: CpuUse | None) -> dict[str, Any] | None:
    if host is None or cpu is None:
        return None
    return {
        "cores": [round(min(100.0, 100 * core), 1) for core in cpu.cores],
        "target_cores": known(cpu.target),
        "target_children_cores": known(cpu.children),
        "memory_used_bytes": known(host.memory_used_bytes),
        "memory_total_bytes": known(host.memory_total_bytes),
        "load": list(host.load),
    }


#: Metrics of a GPU that have a place of their own, and the energy since attach: the document has the window's.
_PLACED = ("utilization", "memory_used_bytes", "memory_total_bytes", "power_w", "temperature_c", "energy_j")


def _gpu(gpu: GpuReading, summary: Summary) -> dict[str, Any]:
    fields = {name: gpu.metric(name) for name in _PLACED}
    fields["energy_j"] = summary.energy_j.get(gpu.index, NA("not measured"))
    clocks = {name: value for name, value in gpu.metrics.items() if name.startswith("clock_")}
    gpm = {name.removeprefix("gpm."): value for name, value in gpu.metrics.items() if name.startswith("gpm.")}
    placed = {*_PLACED, *clocks, *(f"gpm.{name}" for name in gpm)}
    more = {name: gpu.metric(name) for name in DEVICE_METRICS if name not in placed}
    use = gpu.target
    process = {"sm": use.sm, "memory_bandwidth": use.memory_bandwidth, "memory_bytes": use.memory_bytes}
    found = summary.efficiency.get(gpu.index)
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "error": gpu.error or None,
        **_known(fields),
        "clocks": _known(clocks),
        "throttle": list(gpu.throttle),
        "gpm": _known(gpm) if any(known(value) is not None for value in gpm.values()) else None,
        "more": _known(more),
        "efficiency": {"id": found.id, "title": found.title, "evidence": found.evidence} if found else None,
        "process": {"present": gpu.used, **_known(process)},
        "na": _reasons(fields | clocks | more) | _reasons(gpm, "gpm.") | _reasons(process, "process."),
    }


def _known(values: dict[str, Value]) -> dict[str, float | None]:
    return {name: known(value) for name, value in values.items()}


def _reasons(values: dict[str, Value], prefix: str = "") -> dict[str, str]:
    return {prefix + name: value.reason for name, value in values.items() if isinstance(value, NA)}


def _cost(cost: CostBatch | None) -> dict[str, Any] | None:
    if cost is None:
        return None
    return {
        "own_cpu": _share(sum(cost.own_cpu.values())),
        "own_cpu_parts": {name: _share(share) for name, share in cost.own_cpu.items()},
        "stopped_share": _share(cost.stopped),
        "stack_rate_hz": cost.stack_rate_hz,
        "peek_rate_hz": cost.peek_rate_hz,
        "failed_share": _share(cost.failed),
        "limited": cost.limited or None,
    }
