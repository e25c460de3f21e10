"""What the program prints: the tail of its output."""

from __future__ import annotations

from gputop.tui.cells import Line, Span, fit, fit_end, line
from gputop.tui.panels.base import Panel, Rows, padded, rule
from gputop.tui.view import Scene


def _rows(scene: Scene, _width: int, height: int) -> Rows:
    if scene.source.output is None:
        return Rows(0, 0)
    return Rows(2, max(4, height // 3), 3)


def _draw(scene: Scene, width: int, height: int) -> list[Line]:
    path = str(scene.source.output or "")
    right: list[Span] = [(fit_end(path, min(len(path), width // 2)), "faint")] if width >= 60 else []
    lines = [rule(scene, [("output", "strong!b")], width, right)]
    shown = scene.output[-(height - 1) :] if height > 1 else []
    lines += [line(((f" {fit(text, width - 1, scene.glyphs.ellipsis)}", "text"),), width) for text in shown]
    if not shown:
        lines.append(line((("  nothing printed yet", "dim"),), width))
    return padded(lines, width, height)


PANEL = Panel("output", "right", 6, _rows, _draw)
