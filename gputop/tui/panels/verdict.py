"""The verdict: what is wrong, in words, with the likeliest remedy below."""

from __future__ import annotations

from gputop.analysis.results import Verdict
from gputop.tui.cells import Line, Span, line, width_of, wrap
from gputop.tui.panels.base import Panel, Rows, padded
from gputop.tui.view import Scene

#: How a verdict is meant: is this good news?
_TONES = {"gpu-bound": "good", "idle": "dim", "no-data": "dim", "mixed": "accent", "cpu-bound": "accent"}

#: Below, the sentence goes under the chip as well; from the second width on, one line is enough for it.
_NARROW, _WIDE = 70, 130


def tone(verdict: Verdict) -> str:
    """Return the style name that a verdict is shown in."""
    return _TONES.get(verdict.id, "warn")


def _rows(scene: Scene, width: int, height: int) -> Rows:
    if height < 16:
        return Rows(2, 3) if width < 80 else Rows(1, 1)
    return Rows(2, 3 if width < _WIDE or height >= 30 else 2, 4)


def title_chip(scene: Scene, verdict: Verdict) -> Span:
    """Return the verdict's title on its colour; a question mark says that it is a guess."""
    mark = scene.glyphs.dot if verdict.id in ("no-data", "idle") else scene.glyphs.warn
    mark = scene.glyphs.live if verdict.id == "gpu-bound" else mark
    likely = "?" if verdict.likely else ""
    return f" {mark} {verdict.title.upper()}{likely} ", f"ink/{tone(verdict)}!b"


def _draw(scene: Scene, width: int, height: int) -> list[Line]:
    if scene.summary is None:
        attaching = (f" {scene.glyphs.dot} ATTACHING ", "ink/dim!b")
        return padded([line((attaching, ("  the first samples take about a second", "dim")), width)], width, height)
    verdict = scene.summary.verdict
    chip = title_chip(scene, verdict)
    why = ((f"{scene.glyphs.enter} why ", "dim"),)
    indent = width_of((chip,)) + 2
    if width < _NARROW:
        return padded(_narrow(verdict, chip, width, height), width, height)
    rows = wrap(verdict.sentence, width - indent - 8, max(1, height - 1)) or [""]
    lines = [line((chip, ("  ", "text"), (rows[0], "strong!b")), width, why)]
    lines += [line(((" " * indent, "text"), (text, "strong!b")), width) for text in rows[1:]]
    if verdict.advice:
        lines.append(line(((" " * indent, "text"), ("try  ", "accent"), (verdict.advice[0], "text")), width))
    return padded(lines, width, height)


def _narrow(verdict: Verdict, chip: Span, width: int, height: int) -> list[Line]:
    """Return the sentence beside and under the chip, as much as fits."""
    first = width - width_of((chip,)) - 2
    words = verdict.sentence.split()
    head: list[str] = []
    while words and len(" ".join([*head, words[0]])) <= first:
        head.append(words.pop(0))
    lines = [line((chip, (" ", "text"), (" ".join(head), "strong!b")), width)]
    rest = wrap(" ".join(words), width - 2, max(1, height - 1)) if height > 1 else []
    return lines + [line(((" ", "text"), (text, "strong!b")), width) for text in rest]


def _click(_scene: Scene, _x: int, _y: int, _width: int) -> str:
    return "advice"


PANEL = Panel("verdict", "full", 1, _rows, _draw, _click)
