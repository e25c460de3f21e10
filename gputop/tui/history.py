"""A GPU and its history: in full as a block, or as one row of a list; pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gputop.analysis.results import GpuHistory
from gputop.model import NA, GpuReading, Value
from gputop.tui.bars import curve
from gputop.tui.cells import Line, Span, fit, line, number, percent, size, wrap
from gputop.tui.gpu_list import LIMITS, bar_cells, celsius, columns, head, memory_of
from gputop.tui.missing import of_gpu
from gputop.tui.panels.base import padded, rule
from gputop.tui.panels.gpus import traffic, watts
from gputop.tui.view import Scene

#: Columns left of a curve (its name) and right of it (its newest value).
_LEFT, _RIGHT = 11, 24
#: Rows of a curve at most, the first one has twice as many; cells of one fact; a reading older than this is said to be
#: old, seconds.
_TALLEST, _FACT, _OLD = 4, 39, 3.0
#: Rows of a block from which the words on what limits the GPU may take two, and the facts a half.
_TALL = 14
#: Cells of a curve in the list at most; rows at most for what is missing for one reason.
_MOST_CURVE, _MOST_REASON = 90, 8


class _Curve(NamedTuple):
    """A curve of `GpuHistory.curves`: its name, its label and its style."""

    name: str
    label: str
    style: str


#: The most telling first.
_CURVES = (
    _Curve("utilization", "util", "gpu"),
    _Curve("gpm.sm_active", "SM active", "accent"),
    _Curve("memory", "memory", "memory"),
    _Curve("power", "power", "warn"),
    _Curve("gpm.tensor", "tensor", "good"),
    _Curve("gpm.dram", "DRAM", "comm"),
)


def steps(width: int) -> int:
    """Return how many steps a block's curves have at this width."""
    return max(1, width - _LEFT - _RIGHT)


# ------------------------------------------------------------------------------------------------ one in full


def block(scene: Scene, item: GpuHistory, seconds: float, width: int, height: int) -> list[Line]:
    """Return a GPU in full: what limits it, its curves over `seconds`, and its other numbers."""
    head = [_title(scene, item, width), *_limit(item, width, 2 if height >= _TALL else 1)]
    if item.newest.error:
        return padded([head[0], line(((f" {item.newest.error}", "bad"),), width)], width, height)
    facts = _facts_rows(scene, item, width)
    room = max(0, height - len(head))
    least = room // 2 if room > _TALL else room // 3
    below = min(len(facts), max(least, room - (len(_CURVES) + 1) * _TALLEST - 1))
    axis = room - below >= 2 * len(_CURVES) + 1
    curves = _curves(scene, item, width, room - below - axis)
    return padded([*head, *curves, *([_axis(scene, seconds, width)] if axis else []), *facts[:below]], width, height)


def _title(scene: Scene, item: GpuHistory, width: int) -> Line:
    gpu = item.newest
    name: list[Span] = [(f"GPU {gpu.index}", "strong!b"), (f" {scene.glyphs.dot} {gpu.name}", "title")]
    if gpu.used:
        name.append((f" {scene.glyphs.dot} used by this program", "accent"))
    return rule(scene, name, width, _right(scene, item))


def _right(scene: Scene, item: GpuHistory) -> list[Span]:
    age = scene.summary.window.end - item.read_at if scene.summary else 0.0
    if age > _OLD:
        return [(f"read {age:.0f} s ago", "warn!b")]
    if item.newest.throttle:
        return [(f"held down: {', '.join(item.newest.throttle)}", "warn!b")]
    return []


def _limit(item: GpuHistory, width: int, most: int) -> list[Line]:
    found = item.efficiency
    tone = LIMITS.get(found.id, "text").partition("!")[0]
    first, *more = wrap(f"{found.title}: {found.evidence}", width - 2, most)
    head: list[Span] = [(f" {first[: len(found.title)]}", f"{tone}!b"), (first[len(found.title) :], "text")]
    return [line(head, width), *(line(((f" {text}", "text"),), width) for text in more)]


def _curves(scene: Scene, item: GpuHistory, width: int, height: int) -> list[Line]:
    """Return as many curves as fit; where rows are left over, the first one is taller."""
    shown = [of for of in _CURVES if _measured(item.curves.get(of.name, ()))][: max(0, height)]
    if not shown:
        words = "nothing was measured in this window; below is why" if height > 0 else ""
        return [line(((f" {words}", "dim"),), width)] if words else []
    each = max(1, min(_TALLEST, height // (len(shown) + 1)))
    first = min(2 * _TALLEST, height - each * (len(shown) - 1))
    return [row for place, of in enumerate(shown) for row in _drawn(scene, item, of, width, each if place else first)]


def _measured(values: Sequence[Value]) -> bool:
    return any(not isinstance(value, NA) for value in values)


def _drawn(scene: Scene, item: GpuHistory, of: _Curve, width: int, height: int) -> list[Line]:
    values = item.curves[of.name][-steps(width) :]
    before = (NA("before the first reading"),) * (steps(width) - len(values))
    rows = curve((*before, *values), height, of.style, scene.glyphs)
    lines = []
    for place, cells in enumerate(rows):
        last = place == height - 1
        head = f"{of.label if last else '':>{_LEFT - 2}} {scene.glyphs.axis}"
        lines.append(line(((head, "dim"), *cells, (f"  {_words(item, of)}" if last else "", "text")), width))
    return lines


def _words(item: GpuHistory, of: _Curve) -> str:
    """Return a curve's newest value, with the mean where that says more."""
    gpu = item.newest
    if of.name == "memory":
        return memory_of(gpu)
    if of.name == "power":
        return watts(gpu.metric("power_w"), gpu.metric("power_limit_w"))
    return f"{percent(gpu.metric(of.name)):>5}   mean {percent(item.mean.metric(of.name)):>5}"


def _axis(scene: Scene, seconds: float, width: int) -> Line:
    count = steps(width)
    text = f"{scene.glyphs.minus}{seconds:.0f} s"
    middle = f"{scene.glyphs.minus}{seconds / 2:.0f} s"
    text = fit(fit(text, count // 2) + middle, count - 3) + "now" if count > 24 else ""
    return line(((" " * _LEFT, "text"), (text, "faint")), width)


# ----------------------------------------------------------------------------------------------- other numbers


def _facts_rows(scene: Scene, item: GpuHistory, width: int) -> list[Line]:
    """Return the facts side by side, then what is missing, and why."""
    facts = _facts(scene, item)
    across = max(1, width // _FACT)
    each = width // across
    rows = []
    for start in range(0, len(facts), across):
        spans = [span for label, words in facts[start : start + across] for span in _fact(label, words, each)]
        rows.append(line(spans, width))
    for reason, labels in of_gpu(item.newest).items():
        told = wrap(f"{reason}: {', '.join(labels)}", width - _LEFT, _MOST_REASON)
        heads = ("n/a", *("" for _ in told))
        rows += [line(((f"{head:>{_LEFT - 2}}  ", "faint"), (words, "dim")), width)
                 for head, words in zip(heads, told, strict=False)]  # fmt: skip
    return rows


def _fact(label: str, words: str, width: int) -> list[Span]:
    return [(f"{label:>{_LEFT - 2}}  ", "dim"), (fit(words, width - _LEFT), "text")]


def _facts(scene: Scene, item: GpuHistory) -> list[tuple[str, str]]:
    gpu = item.newest
    read = gpu.metric
    facts = [
        ("process", _known(("SM", percent(gpu.target.sm)), ("memory", size(gpu.target.memory_bytes)))),
        ("GPM", _known(("occupancy", percent(read("gpm.sm_occupancy"))), ("FP32", percent(read("gpm.fp32"))))),
        ("energy", _energy(read("energy_j"))),
        ("throttled", _throttled(item.mean)),
        (
            "clocks",
            _known(("SM", number(read("clock_sm_mhz"), "MHz")), ("memory", number(read("clock_memory_mhz"), "MHz"))),
        ),
        ("chip", _known(("", celsius(read("temperature_c"))), ("slows at", celsius(read("temperature_slowdown_c"))))),
        *((bus, words) for bus, words in traffic(scene, gpu)),
        ("others", _others(gpu.others)),
        ("ECC", _known(("", number(read("ecc_uncorrected"), "uncorrected errors")))),
        ("reserved", _known(("", size(read("memory_reserved_bytes"))))),
        ("video", _known(("encoder", percent(read("encoder"))), ("decoder", percent(read("decoder"))))),
        ("fan", _known(("", percent(read("fan"))))),
        ("mem bw", _known(("", percent(read("memory_bandwidth"))), ("process", percent(gpu.target.memory_bandwidth)))),
        ("MIG", _mig(read("mig_mode"))),
    ]
    return [(label, words) for label, words in facts if words]


def _known(*parts: tuple[str, str]) -> str:
    """Join the parts that have a value."""
    return ", ".join(f"{label} {words}".strip() for label, words in parts if words != "n/a")


def _mig(mode: Value) -> str:
    return "" if isinstance(mode, NA) else "on, a row for each instance" if mode else "off"


def _energy(joules: Value) -> str:
    """Return energy in J and Wh."""
    if isinstance(joules, NA):
        return ""
    amount = f"{joules:.0f} J" if joules < 10_000 else f"{joules / 1000:.1f} kJ"
    return f"{amount}, {joules / 3600:.2f} Wh since attach"


def _throttled(mean: GpuReading) -> str:
    """Return how long each reason held the clocks down, longest first."""
    prefix = "throttle."
    shares = {name: value for name, value in mean.metrics.items() if name.startswith(prefix)}
    measured = {name: value for name, value in shares.items() if not isinstance(value, NA)}
    if not measured:
        return ""
    longest = sorted((name for name in measured if measured[name] >= 0.0005), key=lambda name: -measured[name])
    words = [f"{name.removeprefix(prefix).replace('_', ' ')} {percent(measured[name], 1)}" for name in longest]
    return ", ".join(words) or "never in this window"


def _others(count: Value) -> str:
    if isinstance(count, NA):
        return ""
    return "no other process" if count == 0 else f"{count:.0f} other process" + ("es" if count > 1 else "")


# --------------------------------------------------------------------------------------------------- one row


def heads(width: int) -> Line:
    """Return the heads of the list's columns."""
    names = "".join(f"  {of.head}" if of.head == "use" else f"{of.head:>{of.cells}}" for of in columns(width))
    return line(((f"     {fit('utilisation', bar_cells(width, _MOST_CURVE))}{names}", "dim"),), width)


def row(scene: Scene, item: GpuHistory, width: int, selected: bool) -> Line:
    """Return one GPU as a line: its utilisation over the window, and the newest numbers."""
    gpu = item.newest
    back = "/select" if selected else ""
    begin, fill = head(gpu, scene.glyphs, back), (" ", f"text{back}")
    if gpu.error:
        return line((*begin, (gpu.error, f"bad{back}")), width, fill=fill)
    curve = _squeezed(item.curves.get("utilization", ()), bar_cells(width, _MOST_CURVE), scene)
    said = [column.says(gpu, item.efficiency) for column in columns(width)]
    return line((*begin, (curve, f"gpu{back}"), *((text, style + back) for text, style in said)), width, fill=fill)


def _squeezed(values: Sequence[Value], cells: int, scene: Scene) -> str:
    """Return a curve in fewer cells than it has steps: each cell is the mean of its steps."""
    means: list[Value] = []
    for place in range(cells):
        part = values[place * len(values) // cells : max(place + 1, (place + 1) * len(values) // cells)]
        measured = [value for value in part if not isinstance(value, NA)]
        means.append(sum(measured) / len(measured) if measured else NA("not measured at that time"))
    return curve(means, 1, "gpu", scene.glyphs)[0][0][0]
