"""A source file with the time of each line beside it; pure drawing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gputop.analysis.results import LineRow, NativePart, States, Summary
from gputop.tui import syntax
from gputop.tui.bars import bar, in_order
from gputop.tui.cells import Line, Span, fit_end, line, wrap
from gputop.tui.panels.base import padded, rule
from gputop.tui.table import following
from gputop.tui.view import Scene

if TYPE_CHECKING:
    from gputop.target.code import Code

#: A line is hot from this share of the window's time on.
HOT = 0.005
#: Less is not worth a number.
_LEAST = 0.0005
_SHARE = 8  # " 61.2 % "
#: From this many rows on, the columns have names.
_TALL = 8
#: Characters by which lines scroll sideways, at least; so many stay in sight.
_SIDEWAYS = 8
#: Below this width there is no room for bars and indentation.
_NARROW = 56


class Timed(NamedTuple):
    """The time of one line: in itself, in all, what it went into, and the native functions that it called."""

    own: float
    total: float
    states: States
    function: str
    native: tuple[NativePart, ...] = ()


@dataclass
class Listing:
    """A file as it is shown.

    Attributes:
        file: its name; empty before one is chosen.
        code: its text, None while it is being read.
        colours: the parts of its lines that are not plain.
        times: line number to its time.
        running: the line that the headline's thread is at now, 0 for none in this file; `leaf`: in this very line,
            not in what it calls.
        at: the line chosen.
        top: the first line shown.
        left: characters of each line that are scrolled out of sight.
    """

    file: str = ""
    code: Code | None = None
    colours: Mapping[int, list[syntax.Part]] = field(default_factory=dict)
    times: Mapping[int, Timed] = field(default_factory=dict)
    running: int = 0
    leaf: bool = False
    at: int = 1
    top: int = 1
    left: int = 0

    @property
    def last(self) -> int:
        """Return the number of the last line."""
        return len(self.code.lines) if self.code and self.code.lines else max(self.times, default=1)

    def update(self, summary: Summary | None) -> None:
        """Take the times of a new summary."""
        self.times = timed(row for row in (summary.lines if summary else ()) if row.file == self.file)
        stack = summary.stack if summary else ()
        here = [(place, frame.line) for place, frame in enumerate(stack, 1) if frame.file == self.file]
        place, self.running = here[-1] if here else (0, 0)
        self.leaf = bool(stack) and place == len(stack)

    def go(self, number: int, page: int, *, centre: bool = False) -> None:
        """Choose a line, and bring it in sight; `centre` leaves some lines above it."""
        self.at = max(1, min(self.last, number))
        if centre:
            self.top = self.at - page // 3
        self.top = max(self.at - page + 1, min(self.top, self.at))
        self.top = max(1, min(self.top, self.last - page + 1))

    def aside(self, step: int, page: int) -> None:
        """Scroll sideways, as far as the longest line in sight reaches."""
        lines = self.code.lines[self.top - 1 : self.top - 1 + page] if self.code else ()
        longest = max(map(len, lines), default=0)
        self.left = max(0, min(self.left + step, longest - _SIDEWAYS))

    def hot(self, step: int) -> int:
        """Return the next hot line below (1) or above (-1) the chosen one; the chosen one where there is none."""
        lines = sorted(number for number, time in self.times.items() if time.total >= HOT)
        if step > 0:
            return next((number for number in lines if number > self.at), self.at)
        return next((number for number in reversed(lines) if number < self.at), self.at)

    def find(self, text: str, step: int) -> int:
        """Return the next line that holds a text, from the chosen one on; 0 where there is none."""
        lines = self.code.lines if self.code else ()
        found = [number for number, words in enumerate(lines, 1) if text.lower() in words.lower()]
        return following(found, self.at, step) or 0


def timed(rows: Iterable[LineRow]) -> dict[int, Timed]:
    """Return the time of each line; one that holds two functions (a lambda) has the time of both once."""
    found: dict[int, Timed] = {}
    for row in rows:
        if row.total_share < _LEAST:
            continue
        states = row.total_states or row.states
        before = found.get(row.line)
        if before is None:
            found[row.line] = Timed(row.self_share, row.total_share, states, row.function, row.native)
        elif row.total_share > before.total:
            own = before.own + row.self_share
            found[row.line] = Timed(own, row.total_share, states, row.function, row.native)
        else:
            found[row.line] = before._replace(own=before.own + row.self_share)
    return found


# --------------------------------------------------------------------------------------------------- drawing


class _Columns(NamedTuple):
    """Which columns there are, and their widths."""

    own: bool
    bar: int
    number: int


def _columns(listing: Listing, width: int) -> _Columns:
    number = max(3, len(str(listing.last)))
    if width < _NARROW:
        return _Columns(False, 0, number)
    return _Columns(width >= 84, 8 if width < 84 else 12, number)


def draw(scene: Scene, listing: Listing, width: int, height: int, *, focused: bool) -> list[Line]:
    """Return the title and the lines around the chosen one."""
    lines = [_title(scene, listing, width, focused)]
    if not listing.file:
        return padded([*lines, line((("  choose a function to see its source", "dim"),), width)], width, height)
    if listing.code is None:
        return padded([*lines, line(((f"  reading{scene.glyphs.ellipsis}", "dim"),), width)], width, height)
    columns = _columns(listing, width)
    if height >= _TALL:
        lines.append(_heads(columns, width))
    if not listing.code.lines:
        return padded([*lines, *_without_text(scene, listing, columns, width)], width, height)
    rows = page(listing, height)
    if listing.code.remark:
        lines.append(line(((f"  {scene.glyphs.warn} {listing.code.remark}", "warn"),), width))
    if _tells_native(listing, height):
        lines.append(_native(scene, listing, width))
    biggest = max((time.total for time in listing.times.values()), default=0.0) or 1.0
    numbers = range(listing.top, min(listing.last, listing.top + rows - 1) + 1)
    shape = _Shape(width, biggest, listing.left + (_indent(listing, numbers) if width < _NARROW else 0))
    lines += [_row(scene, listing, number, columns, shape) for number in numbers]
    return padded(lines, width, height)


def page(listing: Listing, height: int) -> int:
    """Return how many lines of the file fit."""
    remark = bool(listing.code and listing.code.lines and listing.code.remark)
    return max(1, height - 1 - (height >= _TALL) - remark - _tells_native(listing, height))


def _tells_native(listing: Listing, height: int) -> bool:
    """Tell whether there is a line for the native functions that the chosen one called."""
    return height >= _TALL and any(time.native for time in listing.times.values())


def _native(scene: Scene, listing: Listing, width: int) -> Line:
    time = listing.times.get(listing.at)
    spans: list[Span] = [(f"  line {listing.at}: ", "dim")]
    if time is None or not time.native:
        return line([*spans, ("no native function", "faint")], width)
    for place, part in enumerate(time.native):
        spans += [(f" {scene.glyphs.dot} " if place else "", "dim"), (part.name, "text"), (f" {part.module}", "dim")]
        spans.append((f" {100 * part.share:.0f} %", "strong"))
    return line(spans, width)


def _title(scene: Scene, listing: Listing, width: int, focused: bool) -> Line:
    right: list[Span] = []
    if listing.code is not None and listing.code.lines and width >= 40:
        right = [(f"line {listing.at} of {listing.last}", "title")]
        if listing.left:
            right.insert(0, (f"from column {listing.left + 1} {scene.glyphs.dot} ", "warn"))
    room = max(8, width - 8 - sum(len(text) for text, _ in right))
    name = fit_end(listing.file, min(room, len(listing.file)), scene.glyphs.ellipsis) if listing.file else "source"
    return rule(scene, [(name, "accent!b" if focused else "strong!b")], width, right)


class _Shape(NamedTuple):
    """How all rows are drawn: their width, the time of a full bar, and the characters left out on the left."""

    width: int
    biggest: float
    indent: int


def _indent(listing: Listing, numbers: Iterable[int]) -> int:
    """Return the indentation that all these lines share: on a narrow screen it is wasted."""
    lines = listing.code.lines if listing.code else ()
    texts = [text for text in (lines[number - 1] for number in numbers) if text.strip()]
    return min((len(text) - len(text.lstrip()) for text in texts), default=0)


def _row(scene: Scene, listing: Listing, number: int, columns: _Columns, shape: _Shape) -> Line:
    back = "/select" if number == listing.at else ""
    spans = _time(scene, listing.times.get(number), columns, shape.biggest, back)
    spans += _number(scene, listing, number, columns, back)
    text = listing.code.lines[number - 1] if listing.code else ""
    colours = [part.moved(-shape.indent) for part in listing.colours.get(number, ())]
    shown = syntax.spans(text[shape.indent :], colours)
    spans += [(words, _on(style) if back else style) for words, style in shown]
    return line(spans, shape.width, fill=(" ", f"text{back}"))


def _on(style: str) -> str:
    """Return a style on the cursor's background."""
    name, mark, attributes = style.partition("!")
    return f"{name}/select{mark}{attributes}"


def _time(scene: Scene, time: Timed | None, columns: _Columns, biggest: float, back: str) -> list[Span]:
    """Return the columns of a line's time, empty for a line that none was seen in."""
    if time is None:
        return [(" " * (_SHARE * (1 + columns.own) + (columns.bar and columns.bar + 2)), f"text{back}")]
    tone = "strong{}!b" if time.total >= HOT else "dim{}"
    spans: list[Span] = []
    if columns.own:
        spans.append((_percent(time.own), f"text{back}" if time.own >= HOT else f"dim{back}"))
    spans.append((_percent(time.total), tone.format(back)))
    if columns.bar:
        shares = [(name, share * time.total / biggest) for name, share in in_order(time.states.items())]
        drawn = bar(shares, columns.bar, scene.glyphs, scene.coloured, "base")
        spans += [(" ", f"text{back}"), *drawn, (" ", f"text{back}")]
    return spans


def _number(scene: Scene, listing: Listing, number: int, columns: _Columns, back: str) -> list[Span]:
    running = number == listing.running
    mark = scene.glyphs.run if running else " "
    tone = "accent{}!b" if running else "faint{}"
    return [(f"{mark}{number:>{columns.number}}  ", tone.format(back))]


def _percent(share: float) -> str:
    return f"{100 * share:5.1f} % "


def _without_text(scene: Scene, listing: Listing, columns: _Columns, width: int) -> list[Line]:
    """Say why there is no text, and what is known of the lines all the same."""
    why = listing.code.missing if listing.code else ""
    lines = [line(((f"  {text}", "warn"),), width) for text in wrap(f"{scene.glyphs.warn} {why}", max(8, width - 4))]
    biggest = max((time.total for time in listing.times.values()), default=0.0) or 1.0
    for number, time in sorted(listing.times.items()):
        spans = _time(scene, time, columns, biggest, "")
        spans += [*_number(scene, listing, number, columns, ""), (f"in {time.function}", "dim")]
        lines.append(line(spans, width))
    return lines


def _heads(columns: _Columns, width: int) -> Line:
    own = f"{'self':>{_SHARE - 1}} " if columns.own else ""
    drawn = f" {'doing':<{columns.bar + 1}}" if columns.bar else ""
    return line(((f"{own}{'total':>{_SHARE - 1}} {drawn}{'line':>{columns.number + 1}}", "dim"),), width)
