"""The cores: how busy each is, and how much of that the target is."""

from __future__ import annotations

from gputop.model import HostBatch
from gputop.tui.bars import merged, meter
from gputop.tui.cells import Line, Span, gib, line, percent
from gputop.tui.layout import TWO_COLUMNS, right_width
from gputop.tui.panels.base import Panel, Rows, padded, rule
from gputop.tui.view import Scene

#: A core drawn as a bar takes at least this many cells, with number, bar and percent.
_LEAST_BAR, _MOST_BAR = 15, 30


def _count(scene: Scene) -> int:
    host = scene.summary.host if scene.summary else None
    return len(host.cores) if host else scene.session.cores


def _rows(scene: Scene, width: int, height: int) -> Rows:
    if width < TWO_COLUMNS:
        return Rows(2, 3 if height < 40 else 5, 1)
    room = right_width(width)
    return Rows(2, 1 + min(height // 3, _bar_rows(_count(scene), room)), 2)


def _bar_rows(count: int, width: int) -> int:
    across = max(1, width // _LEAST_BAR)
    return -(-count // across)


def _draw(scene: Scene, width: int, height: int) -> list[Line]:
    host = scene.summary.host if scene.summary else None
    lines = [_title(scene, host, width)]
    if host is None:
        return padded([*lines, line((("  waiting for the first reading", "dim"),), width)], width, height)
    room = height - 1
    if _bar_rows(len(host.cores), width) <= room:
        lines += _as_bars(scene, host, width, room)
    else:
        lines += _as_columns(scene, host, width, room)
    return padded(lines, width, height)


def _title(scene: Scene, host: HostBatch | None, width: int) -> Line:
    title: list[Span] = [("cores", "strong!b")]
    right: list[Span] = []
    if host is not None:
        ours = sum(host.target_cores)
        title.append((f" {scene.glyphs.dot} this process {ours:.1f} of {len(host.cores)}", "title"))
        right = [(f"mem {gib(host.memory_used_bytes)} of {gib(host.memory_total_bytes)} GiB", "title")]
    return rule(scene, title, width, right)


def _parts(core: float, ours: float) -> list[tuple[str, float]]:
    ours = min(core, ours)
    return [("cpu", ours), ("others", core - ours)]


def _as_bars(scene: Scene, host: HostBatch, width: int, room: int) -> list[Line]:
    """Return a grid of bars, filled column by column, as wide as it can be."""
    count = len(host.cores)
    across = next(n for n in range(1, count + 1) if -(-count // n) <= room)
    each = min(_MOST_BAR, width // across)
    down = -(-count // across)
    rows = []
    for row in range(down):
        spans: list[Span] = []
        for core in range(row, count, down):
            spans += _one(scene, core, host.cores[core], _ours(host, core), each)
        rows.append(line(spans, width))
    return rows


def _ours(host: HostBatch, core: int) -> float:
    return host.target_cores[core] if core < len(host.target_cores) else 0.0


def _one(scene: Scene, core: int, share: float, ours: float, width: int) -> list[Span]:
    room = width - 4 - 7
    drawn = meter(_parts(share, ours), room, scene.glyphs)
    return [(f"{core:>3} ", "faint"), *drawn, (f"{percent(share):>6} ", "text" if ours >= 0.05 else "dim")]


def _as_columns(scene: Scene, host: HostBatch, width: int, room: int) -> list[Line]:
    """Return an upright bar for each core, in as few bands as the width allows; the target's cores stand out."""
    across = max(1, width - 2)
    bands = [range(start, min(start + across, len(host.cores))) for start in range(0, len(host.cores), across)][:room]
    high = room // len(bands)
    rows: list[Line] = []
    for band in bands:
        each = min(5, max(1, (width - 2) // len(band)))
        rows += [_upright_row(scene, host, band, (high - 1 - row, high), each, width) for row in range(high)]
    return rows


def _upright_row(scene: Scene, host: HostBatch, cores: range, row: tuple[int, int], each: int, width: int) -> Line:
    """Return one row of upright bars, `each` cells from bar to bar; `row` is (number from the bottom, of)."""
    up, (level, high) = scene.glyphs.up, row
    top = len(up) - 1
    spans: list[Span] = [(" ", "text")]
    for core in cores:
        filled = round(top * high * min(1.0, host.cores[core])) - level * top
        piece = up[min(top, max(0 if level else 1, filled))]
        solid = max(1, each - 1)
        spans.append((piece * solid + " " * (each - solid), "cpu" if _ours(host, core) >= 0.05 else "others"))
    return line(merged(spans), width)


PANEL = Panel("cores", "right", 5, _rows, _draw)
