"""The timeline: what the headline thread did, with the GPUs, their memory and the CPU on the same time axis."""

from __future__ import annotations

from typing import NamedTuple

from gputop.analysis.results import Headline, Series, Timeline, Window
from gputop.analysis.rounding import rounded
from gputop.analysis.states import BY_ID, COMPUTE, GPU_WAIT, IDLE, OTHER_WAIT
from gputop.model import NA, Value
from gputop.tui import axis
from gputop.tui.bars import Parts, curve, in_order, quantise, stack
from gputop.tui.cells import Line, Span, clock_time, fit, gib, line, percent, width_of
from gputop.tui.panels import marks
from gputop.tui.panels.base import Panel, Rows, padded, rule, swatch
from gputop.tui.view import Scene

_WIDE, _MIDDLE = 100, 60
#: GPUs that get a row of their own; the GPU panel has the others.
_MOST_GPUS = 4
#: Ways to write the legend, tried in turn until one fits: with labels, gap, smallest share.
_LEGENDS = (
    (True, 3, 0.0),
    (True, 2, 0.0),
    (True, 2, 0.02),
    (True, 1, 0.04),
    (False, 2, 0.0),
    (False, 1, 0.03),
    (False, 1, 0.1),
)
_GROUPS = (
    (COMPUTE, "compute", "good"),
    (GPU_WAIT, "gpu wait", "gpu_wait"),
    (OTHER_WAIT, "waiting", "warn"),
    (IDLE, "idle", "dim"),
)


def _gutters(width: int) -> tuple[int, int]:
    """Return the columns left and right of the chart: labels, and the newest values."""
    if width >= _WIDE:
        return 8, 24
    return (7, 9) if width >= _MIDDLE else (5, 6)


def columns(width: int) -> int:
    """Return how many steps the timeline has at this width of the screen."""
    return max(1, width - sum(_gutters(width)))


def _rows(scene: Scene, width: int, height: int) -> Rows:
    if height < 16:
        return Rows(2, max(2, height // 3))
    return Rows(5, max(7, height * 2 // 5), 3)


def _draw(scene: Scene, width: int, height: int) -> list[Line]:
    timeline = scene.summary.timeline if scene.summary else None
    curves = _curves(scene, timeline) if timeline else []
    plan = _plan(height, len(curves))
    lines: list[Line] = []
    if plan.title:
        lines.append(_title(scene, width))
    lines.append(legend(scene, width))
    lines += _chart(scene, timeline, width, plan.chart)
    for index, item in enumerate(curves[: plan.curves]):
        lines += _drawn(scene, item, width, 2 if index < plan.tall else 1)
    if plan.axis:
        lines.append(_axis(scene, timeline, width))
    return padded(lines, width, height)


class _Plan(NamedTuple):
    """How many rows each part gets; `tall` of the curves have two."""

    title: bool
    chart: int
    curves: int
    tall: int
    axis: bool


def _plan(height: int, curves: int) -> _Plan:
    title = height >= 5
    rest = height - 1 - title
    shown = min(curves, max(0, (rest - 1) // 2))
    rest -= shown
    axis = rest >= 5
    rest -= axis
    tall = min(shown, max(0, (rest - 4) // 3))
    return _Plan(title, max(1, rest - tall), shown, tall, axis)


def _title(scene: Scene, width: int) -> Line:
    headline = scene.summary.headline if scene.summary else None
    name: list[Span] = (
        [(fit(headline.name, min(28, len(headline.name))), "strong!b")] if headline else [("timeline", "title")]
    )
    if headline:
        process = f" of pid {headline.pid}" if headline.pid != scene.session.root.pid else ""
        name += [(f"{process} {scene.glyphs.dot} what it does", "title")]
    seconds = scene.summary.window.seconds if scene.summary else scene.view.seconds
    span = f"last {seconds:.0f} s"
    right: list[Span] = [(span, "title")]
    if scene.view.paused is not None:
        what = marks.name(scene.view) or "frozen"
        right = [(f"{scene.glyphs.pause} {what}", "warn!b"), (f" {scene.glyphs.dot} {seconds:.0f} s", "title")]
    return rule(scene, name, width, right)


def legend(scene: Scene, width: int) -> Line:
    """Return the states of the headline's thread and their shares, as many as fit."""
    headline = scene.summary.headline if scene.summary else None
    if headline is None or not headline.states:
        return line(((" no thread seen yet", "dim"),), width)
    shares = [(name, share) for name, share in in_order(rounded(headline.states, 2).items()) if share]
    for labels, gap, least in _LEGENDS:
        spans = _items(scene, [item for item in shares if item[1] >= least], labels, gap)
        if width_of(spans) <= width:
            break
    return line(spans, width)


def _items(scene: Scene, shares: list[tuple[str, float]], labels: bool, gap: int) -> list[Span]:
    spans: list[Span] = [(" ", "text")]
    for name, share in shares:
        label = f" {BY_ID[name].label}" if labels else ""
        spans += [swatch(scene, name), (label, "dim"), (f" {percent(share)}", "text"), (" " * gap, "text")]
    return spans


# ------------------------------------------------------------------------------------------------ the areas


def _chart(scene: Scene, timeline: Timeline | None, width: int, height: int) -> list[Line]:
    left, right = _gutters(width)
    count = width - left - right
    if timeline is None:
        return [line((), width)] * height
    parts, first = _parts(timeline, count, height)
    rows = stack(parts, height, first, scene.glyphs, scene.coloured)
    headline = scene.summary.headline if scene.summary else None
    return [
        line((_level(scene, row, height, left), *cells, *_share(headline, row, right, height)), width)
        for row, cells in enumerate(rows)
    ]


def _parts(timeline: Timeline, count: int, height: int) -> tuple[list[Parts], int]:
    """Return the newest `count` columns, filled up on the left, and the running number of the first."""
    shown = timeline.columns[-count:]
    parts = [quantise(in_order(column.states.items()), height) for column in shown]
    first = round(shown[0].start / shown[0].seconds) if shown and shown[0].seconds else 0
    return [()] * (count - len(parts)) + parts, first - (count - len(parts))


def _level(scene: Scene, row: int, height: int, left: int) -> Span:
    marks = {0: "100 %", height - 1: "0 %"} if height > 1 else {}
    if height >= 5 and height % 2:
        marks[height // 2] = "50 %"
    if left < 7:
        marks = {}
    edge = scene.glyphs.axis if row in marks else scene.glyphs.side
    return (
        f"{marks.get(row, ''):>{left - 2}} {edge if left >= 7 else ' '}",
        "faint" if row not in marks else "dim",
    )


def _share(headline: Headline | None, row: int, right: int, height: int) -> tuple[Span, ...]:
    """Return the split of the window beside the chart."""
    if headline is None or right < 20 or height < len(_GROUPS) or row >= len(_GROUPS):
        return ()
    group, label, style = _GROUPS[row]
    share = rounded({name: getattr(headline, name) for name, _, _ in _GROUPS}, 2)[group]
    tone = style if share >= 0.005 else "faint"
    return ((f"   {label:<9}", "dim"), (f"{percent(share):>6}", f"{tone}!b"))


# ----------------------------------------------------------------------------------------------- the curves


class _Curve(NamedTuple):
    """One curve: its label, its values, its style, and its newest value in words, long and short."""

    label: str
    values: tuple[Value, ...]
    style: str
    words: str
    short: str


def _curves(scene: Scene, timeline: Timeline) -> list[_Curve]:
    """Return the curves, the most telling first."""
    own = {f"GPU {gpu.index}" for gpu in scene.summary.gpus if gpu.used} if scene.summary else set()
    own_first = sorted(timeline.gpus, key=lambda series: series.label not in own)
    found = [_gpu_curve(series) for series in own_first[:_MOST_GPUS]]
    found.append(_cpu_curve(scene, timeline.cpu))
    if len(timeline.gpus) == len(timeline.gpu_memory) == 1:
        found.append(_memory_curve(scene, timeline.gpu_memory[0]))
    return found


def _newest(series: Series) -> Value:
    for value in reversed(series.values):
        if not isinstance(value, NA):
            return value
    return series.values[-1] if series.values else NA("nothing was sampled")


def _gpu_curve(series: Series) -> _Curve:
    now = percent(_newest(series))
    return _Curve(series.label, series.values, "gpu", f"util {now}", now)


def _cpu_curve(scene: Scene, series: Series) -> _Curve:
    host = scene.summary.host if scene.summary else None
    words = short = percent(_newest(series))
    if host is not None and not isinstance(used := host.target_cpu, NA):
        words, short = f"{used:.1f} of {len(host.cores)} cores", f"{used:.1f} cores"
    return _Curve("CPU", series.values, "cpu", words, short)


def _memory_curve(scene: Scene, series: Series) -> _Curve:
    gpus = scene.summary.gpus if scene.summary else ()
    words = short = percent(_newest(series))
    if gpus:
        used, total = gib(gpus[0].metric("memory_used_bytes")), gib(gpus[0].metric("memory_total_bytes"))
        words, short = f"{used} of {total} GiB", f"{used} GiB"
    return _Curve("mem", series.values, "memory", words, short)


def _drawn(scene: Scene, item: _Curve, width: int, height: int) -> list[Line]:
    left, right = _gutters(width)
    count = width - left - right
    missing = count - len(item.values[-count:])
    shown = (NA("before the first sample"),) * missing + item.values[-count:]
    lines = []
    for row, cells in enumerate(curve(shown, height, item.style, scene.glyphs)):
        last = row == height - 1
        edge = " " if left < 7 else scene.glyphs.axis if last else scene.glyphs.side
        head = f"{item.label[: left - 2] if last else '':>{left - 2}} {edge}"
        tail = _tail(item, right) if last else ""
        lines.append(line(((head, "dim"), *cells, (tail, "text")), width))
    return lines


def _tail(item: _Curve, right: int) -> str:
    if right >= 20:
        return f"   {item.words}"
    return f"{item.short:>{right}}" if len(item.short) <= right else ""


def _axis(scene: Scene, timeline: Timeline | None, width: int) -> Line:
    left, right = _gutters(width)
    count = width - left - right
    seconds = timeline.columns[-1].seconds * count if timeline and timeline.columns else scene.view.seconds
    end = "now" if scene.view.paused is None else clock_time(scene.clock(scene.view.paused))
    text = axis.labels(seconds, count, scene.glyphs.minus, end)
    return line(((" " * left, "text"), *marks.over(scene, timeline, text)), width)


def _drag(scene: Scene, start: int, end: int, width: int) -> Window | None:
    """Return the time between two columns of the screen."""
    timeline = scene.summary.timeline if scene.summary else None
    left, right = _gutters(width)
    return marks.between(timeline, start - left, end - left, width - left - right) if timeline else None


PANEL = Panel("timeline", "full", 2, _rows, _draw, drag=_drag)
