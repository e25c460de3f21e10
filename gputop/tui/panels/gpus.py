"""The GPUs: in full for one or two, one line each from three up; what cannot be read says why."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.model import NA, GpuReading, Value
from gputop.tui.bars import meter
from gputop.tui.cells import Line, Span, fit, gib, line, number, percent, size, width_of, wrap
from gputop.tui.gpu_list import LIMITS, bar_cells, columns, head, in_brief, names
from gputop.tui.layout import TWO_COLUMNS, right_width
from gputop.tui.panels.base import Panel, Rows, padded, rule
from gputop.tui.view import Scene

#: Rows of a GPU in full, and the fewest that are worth it (title, utilisation, memory).
_FULL, _LEAST = 7, 3
#: A reading older than this is said to be old, seconds.
_OLD = 3.0
#: Rows for the reason why there is no GPU.
_MOST_REASON = 3
_LABEL, _VALUE, _MORE, _MOST_BAR = 7, 17, 17, 24
#: What GPM says about the use of the GPU while it is busy: metric, label, and label where room is scarce.
_EFFICIENCY = (
    ("sm_active", "SM active", "SM"),
    ("sm_occupancy", "occupancy", "occ."),
    ("tensor", "tensor", "tensor"),
    ("dram", "DRAM", "DRAM"),
)


def _rows(scene: Scene, width: int, height: int) -> Rows:
    gpus = scene.summary.gpus if scene.summary else ()
    if not gpus:
        return Rows(2, 1 + len(_reason(scene, width))) if scene.summary else Rows(2, _FULL)
    if height < 40 and width < 116:
        return Rows(2, 1 + len(gpus) if len(gpus) > 1 else 3, 2)
    if len(gpus) <= 2:
        return Rows(2, _FULL * len(gpus), 3)
    return Rows(2, 1 + len(gpus), 3)


def _draw(scene: Scene, width: int, height: int) -> list[Line]:
    gpus = _first_used(scene)
    if not gpus:
        why = [line(((f"  {words}", "dim"),), width) for words in wrap(missing(scene), width - 3, max(1, height - 1))]
        return padded([rule(scene, [("GPU", "strong!b")], width), *why], width, height)
    each = height // len(gpus)
    if len(gpus) == 1 or (len(gpus) == 2 and each >= _LEAST):
        lines = [row for gpu in gpus for row in padded(_full(scene, gpu, width), width, min(each, _FULL))]
    else:
        lines = _listed(scene, gpus, width, height)
    return padded(lines, width, height)


def _first_used(scene: Scene) -> Sequence[GpuReading]:
    """Return the GPUs, those that the program uses first."""
    return sorted(scene.summary.gpus if scene.summary else (), key=lambda gpu: (not gpu.used, gpu.index))


def _reason(scene: Scene, width: int) -> list[str]:
    """Return why there is no GPU to show, as the right column or the whole width has it, in a few rows."""
    room = right_width(width) if width >= TWO_COLUMNS else width
    return wrap(missing(scene), room - 3, _MOST_REASON)


def missing(scene: Scene) -> str:
    """Return why there is no GPU to show."""
    if scene.summary is None:
        return "waiting for the first reading"
    note = next((note for note in scene.summary.notes if note.source == "gpu"), None)
    if note is not None:
        return note.what
    return f"asking the driver{scene.glyphs.ellipsis}" if scene.source.live else "nothing about GPUs in this window"


# --------------------------------------------------------------------------------------------- one in full


def _full(scene: Scene, gpu: GpuReading, width: int) -> list[Line]:
    title: list[Span] = [(f"GPU {gpu.index}", "strong!b"), (f" {scene.glyphs.dot} {gpu.name}", "title")]
    if gpu.used and scene.summary and len(scene.summary.gpus) > 1:
        title.append((f" {scene.glyphs.dot} {scene.glyphs.live} this program", "accent"))
    head = rule(scene, title, width, _age(scene) or _company(gpu))
    if gpu.error:
        return [head, line(((f"  {gpu.error}", "bad"),), width)]
    util, used, total = gpu.metric("utilization"), gpu.metric("memory_used_bytes"), gpu.metric("memory_total_bytes")
    power, limit, mine = gpu.metric("power_w"), gpu.metric("power_limit_w"), gpu.target.memory_bytes
    return [
        head,
        _meter(scene, "util", util, "gpu", percent(util), _own(percent(gpu.target.sm)), width),
        _meter(scene, "memory", _ratio(used, total), "memory", _of(used, total), _own(size(mine)), width),
        _meter(scene, "power", _ratio(power, limit), "warn", watts(power, limit), _climate(gpu), width),
        _use(scene, gpu, width),
        _efficiency(gpu, width),
        _traffic(scene, gpu, width),
    ]


def _age(scene: Scene) -> list[Span]:
    """Say how old the reading is, once it is: a driver may hang."""
    age = scene.summary.window.end - scene.summary.gpus_at if scene.summary else 0.0
    return [(f"read {age:.0f} s ago", "warn!b")] if age > _OLD else []


def _company(gpu: GpuReading) -> list[Span]:
    if gpu.throttle:
        return [(f"held down: {', '.join(gpu.throttle)}", "warn!b")]
    if isinstance(gpu.others, NA) or gpu.others == 0:
        return []
    return [(f"{gpu.others:.0f} other processes" if gpu.others != 1 else "1 other process", "title")]


def _own(text: str) -> str:
    return "" if text == "n/a" else f"process {text}"


def _ratio(value: Value, most: Value) -> Value:
    if isinstance(value, NA) or isinstance(most, NA):
        return value if isinstance(value, NA) else most
    return value / most if most > 0 else NA("no limit known")


def _of(used: Value, total: Value) -> str:
    return f"{gib(used)} of {gib(total)} GiB"


def watts(power: Value, limit: Value) -> str:
    """Return the power drawn, of the limit where that is known."""
    if isinstance(power, NA):
        return "n/a"
    return f"{power:.0f} W" if isinstance(limit, NA) else f"{power:.0f} of {limit:.0f} W"


def _climate(gpu: GpuReading) -> str:
    parts = [number(gpu.metric("temperature_c"), "°C"), number(gpu.metric("clock_sm_mhz"), "MHz")]
    return "  ".join(part for part in parts if part != "n/a")


def _meter(scene: Scene, label: str, share: Value, style: str, value: str, more: str, width: int) -> Line:
    cells = max(4, min(_MOST_BAR, width - _LABEL - _VALUE - _MORE - 3))
    known = [] if isinstance(share, NA) else [(style, share)]
    drawn = meter(known, cells, scene.glyphs)
    tone = "dim" if value == "n/a" else "strong!b"
    reason = share.reason if isinstance(share, NA) and value == "n/a" else more
    return line(((f" {label:<{_LABEL}}", "dim"), *drawn, (f"  {fit(value, _VALUE)}", tone), (reason, "dim")), width)


def _use(scene: Scene, gpu: GpuReading, width: int) -> Line:
    """Return what limited the GPU in the window, in words."""
    found = scene.summary.efficiency.get(gpu.index) if scene.summary else None
    if found is None:
        return line((), width)
    words = f"{found.title}: {found.number or found.evidence}"
    return line(((f" {'use':<{_LABEL}}", "dim"), (words, LIMITS.get(found.id, "text"))), width)


def _efficiency(gpu: GpuReading, width: int) -> Line:
    """Return how well the GPU is used while it is busy; utilisation alone does not tell."""
    spans: list[Span] = []
    reason = ""
    for name, long, short in _EFFICIENCY:
        value = gpu.metric(f"gpm.{name}")
        if isinstance(value, NA):
            reason = value.reason
            continue
        spans += [(f" {long if width >= 60 else short} ", "dim"), (f"{percent(value):<5}", "text"), (" ", "text")]
    if not spans:
        return line(((f" SM active, tensor, DRAM: {reason}", "dim"),), width)
    return line(spans, width)


def _traffic(scene: Scene, gpu: GpuReading, width: int) -> Line:
    spans: list[Span] = []
    for bus, words in traffic(scene, gpu):
        more: list[Span] = [(f" {bus} ", "dim"), (f"{words}  ", "text")]
        if width_of(spans) + width_of(more) <= width:
            spans += more
    return line(spans, width)


def traffic(scene: Scene, gpu: GpuReading) -> list[tuple[str, str]]:
    """Return (bus, bytes a second each way) for the buses that can be measured."""
    found = []
    for bus, label in (("pcie", "PCIe"), ("nvlink", "NVLink")):
        ways = [_rate(gpu, f"{bus}_{way}_bps") for way in ("rx", "tx")]
        arrows = (scene.glyphs.receive, scene.glyphs.send)
        known = [f"{arrow} {way}" for arrow, way in zip(arrows, ways, strict=True) if way]
        if known:
            found.append((label, f"{'  '.join(known)} MB/s"))
    return found


def _rate(gpu: GpuReading, name: str) -> str:
    """Return a rate in MB/s as GPM has it, else as the byte counters do; empty where neither does."""
    value = gpu.metric(f"gpm.{name}")
    value = gpu.metric(name) if isinstance(value, NA) else value
    return "" if isinstance(value, NA) else f"{value / 1e6:.0f}"


# -------------------------------------------------------------------------------------------- many as lines


def _listed(scene: Scene, gpus: Sequence[GpuReading], width: int, height: int) -> list[Line]:
    """Return a line for each GPU; those for which there is no room share the last one."""
    room = height - 1
    shown = gpus if len(gpus) <= room else gpus[: max(0, room - 1)]
    title: list[Span] = [("GPUs", "strong!b"), (f" {scene.glyphs.dot} {names(gpus, scene.glyphs)}", "title")]
    if any(gpu.used for gpu in gpus):
        title.append((f" {scene.glyphs.dot} {scene.glyphs.live} used by this program", "accent"))
    lines = [rule(scene, title, width, _age(scene))]
    lines += [_listed_one(scene, gpu, width) for gpu in shown]
    if len(shown) < len(gpus):
        lines.append(line(in_brief(gpus[len(shown) :], width), width, [("d all", "dim")]))
    return lines


def _listed_one(scene: Scene, gpu: GpuReading, width: int) -> Line:
    begin = head(gpu, scene.glyphs)
    if gpu.error:
        return line((*begin, (gpu.error, "bad")), width)
    found = scene.summary.efficiency.get(gpu.index) if scene.summary else None
    busy = gpu.metric("utilization")
    bar = meter([] if isinstance(busy, NA) else [("gpu", busy)], bar_cells(width, _MOST_BAR), scene.glyphs)
    return line((*begin, *bar, *(column.says(gpu, found) for column in columns(width))), width)


PANEL = Panel("gpus", "right", 4, _rows, _draw)
