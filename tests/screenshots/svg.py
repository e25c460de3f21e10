"""Screens as SVG: one frame is a picture, several are an animation by CSS alone.

A row of text that stays the same over several frames is written once. Blocks and lines are drawn as shapes, so that
they meet whatever font the reader has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

_WIDTH, _HEIGHT, _FONT, _BASE = 10.0, 20.0, 16.6, 15.5
_PAD, _TITLE = 12.0, 32.0
#: Characters drawn as rectangles: (left, top, width, height) in shares of the cell.
_SHAPES: dict[str, tuple[float, float, float, float]] = {
    **{char: (0, 1 - n / 8, 1, n / 8) for n, char in enumerate("▁▂▃▄▅▆▇█", 1)},
    **{char: (0, 0, n / 8, 1) for n, char in enumerate("▏▎▍▌▋▊▉", 1)},
    "─": (0, 0.48, 1, 0.05),
    "━": (0, 0.43, 1, 0.14),
    "╾": (0, 0.43, 0.5, 0.14),
}

#: A row of the screen.
Row = Sequence[Segment]


class Frame(NamedTuple):
    """What the screen shows, and for how many seconds."""

    rows: Sequence[Row]
    seconds: float = 1.0


def draw(frames: Sequence[Frame], title: str, base: str) -> str:
    """Return the SVG of a terminal with this title; `base` is its background ("#121212")."""
    columns = sum(segment.cell_length for segment in frames[0].rows[0])
    width, height = columns * _WIDTH + 2 * _PAD, len(frames[0].rows) * _HEIGHT + _TITLE + _PAD
    groups, styles = _animated(frames, base)
    dark = int(base[1:3], 16) < 128
    bar, ink = ("#2a2a2a", "#b2b2b2") if dark else ("#dcdcdc", "#4e4e4e")
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}">',
            f"<style>text{{font:{_FONT}px 'Fira Code','DejaVu Sans Mono',Menlo,Consolas,monospace;"
            f"white-space:pre}}.b{{font-weight:700}}.i{{font-style:italic}}{styles}</style>",
            f'<rect width="100%" height="100%" rx="8" fill="{bar}"/>',
            f'<path d="M0 {_TITLE}H{width:.0f}V{height - 8:.0f}q0 8 -8 8H8q-8 0 -8 -8z" fill="{base}"/>',
            *(f'<circle cx="{20 + 20 * n}" cy="16" r="6" fill="{colour}"/>' for n, colour in enumerate(_LIGHTS)),
            f'<text x="{width / 2:.0f}" y="21" fill="{ink}" text-anchor="middle">{escape(title)}</text>',
            f'<g transform="translate({_PAD} {_TITLE})" shape-rendering="crispEdges">',
            *groups,
            "</g></svg>\n",
        )
    )


_LIGHTS = ("#ff5f57", "#febc2e", "#28c840")


def _animated(frames: Sequence[Frame], base: str) -> tuple[list[str], str]:
    """Return the rows, each once, and the style sheet that shows each when it is its turn."""
    shown: dict[tuple[int, str], list[int]] = {}
    for number, frame in enumerate(frames):
        for y, row in enumerate(frame.rows):
            shown.setdefault((y, _row(row, y, base)), []).append(number)
    groups, classes = [], dict[tuple[int, ...], str]()
    for (_, drawn), numbers in shown.items():
        if len(numbers) == len(frames):
            groups.append(drawn)
        elif drawn:
            name = classes.setdefault(tuple(numbers), f"f{len(classes)}")
            groups.append(f'<g class="{name}">{drawn}</g>')
    total = sum(frame.seconds for frame in frames)
    return groups, "".join(_keyframes(name, numbers, frames, total) for numbers, name in classes.items())


def _keyframes(name: str, numbers: Sequence[int], frames: Sequence[Frame], total: float) -> str:
    steps, at, before = [], 0.0, None
    for number, frame in enumerate(frames):
        state = "visible" if number in numbers else "hidden"
        if state != before:
            steps.append(f"{100 * at / total:.2f}%{{visibility:{state}}}")
        at, before = at + frame.seconds, state
    first = "visible" if 0 in numbers else "hidden"
    return (
        f".{name}{{visibility:{first};animation:{name} {total:g}s step-end infinite}}"
        f"@keyframes {name}{{{''.join(steps)}}}"
    )


def _row(row: Row, y: int, base: str) -> str:
    """Return one row: backgrounds first, then what is written on them."""
    behind: list[str] = []
    before: list[str] = []
    x = 0
    for segment in row:
        style = segment.style or Style()
        ink, ground = _colours(style, base)
        if ground != base:
            behind.append(_rect(x, y, segment.cell_length, ground))
        before += _written(segment.text, x, y, ink, style)
        x += segment.cell_length
    return "".join([*behind, *before])


def _colours(style: Style, base: str) -> tuple[str, str]:
    ink, ground = _hex(style.color, "#d0d0d0"), _hex(style.bgcolor, base)
    return (ground, ink) if style.reverse else (ink, ground)


def _hex(colour: Color | None, otherwise: str) -> str:
    return otherwise if colour is None or colour.is_default else colour.get_truecolor().hex


def _rect(x: float, y: float, cells: float, colour: str, top: float = 0, height: float = 1) -> str:
    return (
        f'<rect x="{x * _WIDTH:.1f}" y="{(y + top) * _HEIGHT:.1f}" width="{cells * _WIDTH:.1f}" '
        f'height="{height * _HEIGHT:.1f}" fill="{colour}"/>'
    )


def _written(text: str, x: int, y: int, ink: str, style: Style) -> Iterable[str]:
    """Yield the shapes and the words of a span."""
    word, start = "", x
    for run, shape in _runs(text):
        cells = cell_len(run)
        if shape is None:
            word, start = run, x
            yield from _words(word, start, y, ink, style)
        else:
            left, top, width, height = shape
            yield _rect(x + left, y, cells if width == 1 else width, ink, top, height)
        x += cells


def _runs(text: str) -> Iterable[tuple[str, tuple[float, float, float, float] | None]]:
    """Yield stretches of one shape, or of text; a shape that does not fill its cell's width stands alone."""
    run = ""
    for char in text:
        shape = _SHAPES.get(char)
        if run and (_SHAPES.get(run[-1]) != shape or (shape and shape[2] < 1)):
            yield run, _SHAPES.get(run[-1])
            run = ""
        run += char
    if run:
        yield run, _SHAPES.get(run[-1])


def _words(text: str, x: int, y: int, ink: str, style: Style) -> Iterable[str]:
    """Yield text without the blanks round it, set to its exact width."""
    stripped = text.strip(" ")
    if not stripped:
        return
    x += len(text) - len(text.lstrip(" "))
    names = " ".join(name for name, on in (("b", style.bold), ("i", style.italic)) if on)
    attribute = f' class="{names}"' if names else ""
    faint = ' opacity="0.7"' if style.dim else ""
    yield (
        f'<text x="{x * _WIDTH:.1f}" y="{y * _HEIGHT + _BASE:.1f}" textLength="{cell_len(stripped) * _WIDTH:.1f}" '
        f'fill="{ink}"{attribute}{faint} xml:space="preserve">{escape(stripped)}</text>'
    )
