"""Two ranges of time side by side: what changed, by how much, and what each of them is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import events
from textual.binding import BindingType

from gputop.analysis.compare import Change, Comparison, compare
from gputop.analysis.results import Summary, Window
from gputop.analysis.states import BY_ID
from gputop.tui.actions import COMPARE
from gputop.tui.background import spawn
from gputop.tui.cells import Line, Span, clock_time, fit, fit_end, line, wrap
from gputop.tui.keys import bindings
from gputop.tui.panels.base import padded, rule, swatch
from gputop.tui.panels.marks import NAMES
from gputop.tui.panels.verdict import tone
from gputop.tui.screens.sheet import Sheet
from gputop.tui.view import Scene

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

#: Steps of each range's timeline: how much shares vary along them tells chance from change.
_STEPS = 40
#: Widths: of a name, of a share (" 61.2 % "), of a difference ("+12.0 points"), of the bar for it.
_NAME, _SHARE, _POINTS, _BAR = 26, 9, 14, 21
_UNIT, _WIDE = " points", 100
#: The smallest change that fills a bar.
_FULL_BAR = 0.1


class Compare(Sheet[None]):
    """The last two marked ranges; with one, that and the newest time."""

    NAME = COMPARE
    BINDINGS: ClassVar[list[BindingType]] = bindings(COMPARE)

    def __init__(self, app: GputopApp) -> None:
        super().__init__(app)
        self._swapped = False
        self._windows = self._chosen()
        self._found: Comparison | None = None
        self._fault = ""
        self._top = 0

    def _chosen(self) -> tuple[Window, Window]:
        """Return what is compared."""
        view, scene = self.view, self._gputop.scene
        if len(view.ranges) == len(NAMES):
            return view.ranges[0], view.ranges[1]
        span = scene.source.span()
        assert span is not None, "without samples there is no range"
        newest, _ = replace(view, range=None, paused=None).window(span, _STEPS, growing=scene.source.live)
        return view.ranges[0], newest

    def on_mount(self) -> None:
        """Sum up both, on a thread of its own."""
        spawn("compare", self._answer)

    def _answer(self) -> None:
        source, thread = self._gputop.scene.source, self.view.thread
        try:
            before, after = (source.summary(window, _STEPS, thread) for window in self._windows)
            found = compare(before, after)
        except Exception as error:  # shown to the user: a fault in analysis must not end the screen
            self._gputop.later(self._take, None, f"these ranges cannot be compared: {error!r}")
        else:
            self._gputop.later(self._take, found, "")

    def _take(self, found: Comparison | None, fault: str) -> None:
        self._found, self._fault = found, fault
        if self.is_attached:
            self.draw()

    # ------------------------------------------------------------------------------------------- drawing

    def painted(self, width: int, height: int) -> list[Line]:
        """Return both verdicts, the answer, and the changes."""
        scene = self._gputop.scene
        lines = [rule(scene, [("what changed", "strong!b")], width)]
        if self._found is None:
            words = self._fault or f"summing up both ranges{scene.glyphs.ellipsis}"
            return padded([*lines, line(((f"  {words}", "bad" if self._fault else "dim"),), width)], width, height)
        body = _body(scene, self._found, self._names(), width)
        room = height - len(lines)
        self._top = max(0, min(self._top, len(body) - room))
        return padded([*lines, *body[self._top :]], width, height)

    def _names(self) -> tuple[str, str]:
        names = ("A", "B" if len(self.view.ranges) == len(NAMES) else "now")
        return (names[1], names[0]) if self._swapped else names

    # ------------------------------------------------------------------------------------------- actions

    def action_swap(self) -> None:
        """Compare the other way round."""
        self._swapped = not self._swapped
        if self._found is not None:
            self._found = compare(self._found.after, self._found.before)
        self.draw()

    def action_move(self, step: int) -> None:
        """Scroll."""
        self._top = max(0, self._top + step)
        self.draw()

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        self.action_move(pages * max(1, self.size.height - 3))

    def action_end(self) -> None:
        """Scroll to the end."""
        self.action_move(1_000_000)

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Scroll down."""
        self.action_move(3)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Scroll up."""
        self.action_move(-3)


# --------------------------------------------------------------------------------------------------- drawing


def _body(scene: Scene, found: Comparison, names: tuple[str, str], width: int) -> list[Line]:
    mood = {True: "good", False: "bad", None: "strong"}[found.better]
    longest = max(map(len, names))
    sides = zip(names, (found.before, found.after), strict=True)
    lines = [_side(scene, name, longest, summary, width) for name, summary in sides]
    lines.append(line((), width))
    lines += [line(((f" {text}", f"{mood}!b"),), width) for text in wrap(_sentence(found.answer), max(8, width - 2))]
    lines += [line((), width), _heads(names, "share of the time", width)]
    drawn = _Drawn(scene, width, _largest(found))
    if found.gpu is not None:
        lines.append(drawn.row([("GPU busy", "gpu!b")], found.gpu))
    lines += [drawn.row(_state(scene, change), change) for change in found.states if _worth(change)]
    lines += [line((), width), _heads(names, "functions, self", width)]
    lines += [drawn.function(change) for change in found.functions if _worth(change)]
    return lines


def _largest(found: Comparison) -> float:
    """Return the change that a whole bar stands for."""
    changes = [*found.states, *found.functions, *([found.gpu] if found.gpu else [])]
    return max([_FULL_BAR, *(abs(change.points) for change in changes)])


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _side(scene: Scene, name: str, longest: int, summary: Summary, width: int) -> Line:
    """Return one range: when it was, and its verdict."""
    verdict, window = summary.verdict, summary.window
    when = f" {clock_time(scene.clock(window.start))}, {window.seconds:.1f} s " if width >= 60 else " "
    spans: list[Span] = [
        (f" {name:<{longest}} ", "ink/accent!b"),
        (when, "dim"),
        (f" {verdict.title.upper()} ", f"ink/{tone(verdict)}!b"),
        (f"  {verdict.sentence}" if width >= _WIDE else "", "text"),
    ]
    return line(spans, width)


def _worth(change: Change) -> bool:
    return max(change.before or 0.0, change.after or 0.0) >= 0.005


def _points_width(width: int) -> int:
    return _POINTS if width >= 60 else _POINTS - len(_UNIT)


def _name_width(width: int) -> int:
    return max(6, min(_NAME, width - 2 * _SHARE - _points_width(width) - 1))


def _heads(names: tuple[str, str], what: str, width: int) -> Line:
    shares = "".join(f"{name:>{_SHARE - 1}} " for name in names)
    return line(((f" {fit(what, _name_width(width))}{shares}{'change':>{_points_width(width) - 1}}", "dim"),), width)


def _state(scene: Scene, change: Change) -> list[Span]:
    return [swatch(scene, change.name), (f" {BY_ID[change.name].label}", "text")]


class _Drawn(NamedTuple):
    """Draws changes: `largest` is what a whole bar stands for."""

    scene: Scene
    width: int
    largest: float

    def row(self, name: list[Span], change: Change, more: str = "") -> Line:
        """Return one change; `more` follows where there is room."""
        clear = change.clear and abs(change.points) >= 0.005
        spans: list[Span] = [
            (" ", "text"),
            *line(name, _name_width(self.width)),
            (self._share(change.before), "text"),
            (self._share(change.after), "text"),
            (f"{self._points(change.points):>{_points_width(self.width) - 1}} ", "strong!b" if clear else "dim"),
        ]
        if self.width >= _WIDE:
            spans += [(" ", "text"), *self._bar(change, clear)]
            spans.append(("  " + (change.remark or more), "dim"))
        return line(spans, self.width)

    def function(self, change: Change) -> Line:
        """Return the change of a function."""
        room = max(0, self.width - _name_width(self.width) - 2 * _SHARE - _POINTS - _BAR - 6)
        dots = self.scene.glyphs.ellipsis
        where = fit_end(change.place, room, dots) if self.width >= _WIDE else ""
        return self.row([(fit(change.name, _name_width(self.width) - 1, dots), "strong")], change, where)

    def _share(self, share: float | None) -> str:
        text = self.scene.glyphs.minus if share is None else f"{100 * share:.1f} %"
        return f"{text:>{_SHARE - 1}} "

    def _points(self, points: float) -> str:
        sign = "" if abs(points) < 0.0005 else "+" if points > 0 else self.scene.glyphs.minus
        return f"{sign}{abs(100 * points):.1f}{_UNIT if self.width >= 60 else ''}"

    def _bar(self, change: Change, clear: bool) -> Line:
        """Return the difference as a bar from the middle: less to the left, more to the right."""
        half = _BAR // 2
        cells = max(1 if clear else 0, round(abs(change.points) / self.largest * half))
        full, _, empty = self.scene.glyphs.meter
        style = _main_state(change) if clear else "faint"
        drawn: Line = ((empty * (half - cells), "rule"), (full * cells, style))
        none: Line = ((empty * half, "rule"),)
        middle: Span = (self.scene.glyphs.axis, "dim")
        return (*drawn, middle, *none) if change.points < 0 else (*none, middle, *reversed(drawn))


def _main_state(change: Change) -> str:
    """Return the style of what a change is of: the state, or what a function does mostly."""
    states = {change.name: 1.0} if change.name in BY_ID and not change.file else change.states or {"gpu": 1.0}
    most = max(states, key=states.__getitem__)
    return "dim" if most == "idle" else most
