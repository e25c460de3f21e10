"""The flame graph: down which call paths the time went; the root on top, each call as wide as its time."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import events
from textual.binding import BindingType

from gputop.analysis import calls
from gputop.analysis.results import FlameNode, Window
from gputop.analysis.rules_python import is_library
from gputop.analysis.states import BY_ID
from gputop.model import Frame
from gputop.tui import flamegraph
from gputop.tui.actions import FLAME
from gputop.tui.background import spawn
from gputop.tui.cells import Line, Span, fit, line, percent
from gputop.tui.flamegraph import Box, Look, Orders, Path
from gputop.tui.keys import bindings
from gputop.tui.order import Order
from gputop.tui.panels.base import padded, rule
from gputop.tui.screens.sheet import Sheet
from gputop.tui.source import Thread
from gputop.tui.table import following

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

#: The interpreter as the module of a native call.
_INTERPRETER = re.compile(r"python\d(\.\d+)?t?$")
#: While the picture follows the time, the tree is made anew this often, seconds.
_EVERY = 2.0


class _Question(NamedTuple):
    """What tree is shown."""

    window: Window
    thread: Thread | None
    alone: bool
    by_line: bool
    inverted: bool
    own: bool


class Flame(Sheet[None]):
    """The call tree of the window that the overview shows."""

    NAME = FLAME
    BINDINGS: ClassVar[list[BindingType]] = bindings(FLAME)

    def __init__(self, app: GputopApp) -> None:
        super().__init__(app)
        self._root: FlameNode | None = None
        self._whole = 0.0
        self._fault = ""
        self._asked: _Question | None = None
        self._asked_at = 0.0
        self._busy = False
        self._inverted = self._by_state = False
        self._zoom: Path = ()
        self._selected: Path = ()
        self._needle = ""
        self._top = 0
        self._boxes: list[list[Box]] = []
        self._hues: dict[str, str] = {}
        self._orders: dict[Path, Order] = {}
        self._laid_out = (0, 0, False)

    # -------------------------------------------------------------------------------------------- asking

    def on_mount(self) -> None:
        """Ask for the tree: a recording has no news that would."""
        self._ask()

    def draw(self) -> None:
        """Show the newest; ask for a newer tree when it is time."""
        self._ask()
        super().draw()

    def _ask(self) -> None:
        summary = self._gputop.scene.summary
        if summary is None or self._busy:
            return
        view = self.view
        question = _Question(summary.window, view.thread, view.alone, view.by_line, self._inverted, view.own)
        before = self._asked
        if question == before:
            return
        moved_on = before is not None and question == before._replace(window=question.window) and view.paused is None
        if moved_on and time.monotonic() - self._asked_at < _EVERY:
            return
        self._asked, self._asked_at, self._busy = question, time.monotonic(), True
        spawn("flame", lambda: self._answer(question))

    def _answer(self, question: _Question) -> None:
        try:
            tree = self._gputop.scene.source.flame(question.window, question.thread, alone=question.alone)
            root = _seen_as(tree.root, question)
        except Exception as error:  # shown to the user: a fault in analysis must not end the screen
            self._gputop.later(self._take, None, f"this window has no call tree: {error!r}")
        else:
            self._gputop.later(self._take, root, "", tree.seconds)

    def _take(self, tree: FlameNode | None, fault: str, whole: float = 0.0) -> None:
        """Show an answer; `whole` is what shares are of, the same as in the table."""
        self._busy = False
        self._root, self._fault, self._whole = tree, fault, whole
        if tree is not None:
            self._hues = flamegraph.hues(tree, self._hues)
            self._zoom = flamegraph.node_at(tree, self._zoom, by_line=self.view.by_line)[1]
            zoomed, _ = flamegraph.node_at(tree, self._zoom, by_line=self.view.by_line)
            self._selected = flamegraph.node_at(zoomed, self._selected, by_line=self.view.by_line)[1]
        if self.is_attached:
            self.draw()

    # ------------------------------------------------------------------------------------------- drawing

    def painted(self, width: int, height: int) -> list[Line]:
        """Return title, boxes, and one line about the chosen call."""
        lines = [self._title(width)]
        if self._root is None:
            words = self._fault or f"adding up the call paths{self._gputop.glyphs.ellipsis}"
            return padded([*lines, line(((f"  {words}", "bad" if self._fault else "dim"),), width)], width, height)
        zoomed, _ = flamegraph.node_at(self._root, self._zoom, by_line=self.view.by_line)
        if not zoomed.total:
            return padded([*lines, line((("  no stack was seen in this window", "dim"),), width)], width, height)
        self._lay_out(zoomed, width)
        if self._zoom:
            lines.append(self._crumbs(width))
        room = max(1, height - len(lines) - 1)
        depth = len(self._selected)
        self._top = max(0, min(max(self._top, depth - room + 1), depth, len(self._boxes) - 1))
        look = Look(
            glyphs=self._gputop.glyphs,
            coloured=self._gputop.scene.coloured,
            by_state=self._by_state,
            hues=self._hues,
            whole=self._whole,
            wanted=self._matches if self._needle else None,
            selected=self._selected,
        )
        shown = self._boxes[self._top : self._top + room]
        lines += [flamegraph.drawn(row, width, look) for row in shown]
        return [*padded(lines, width, height - 1), self._details(width)]

    def _lay_out(self, zoomed: FlameNode, width: int) -> None:
        laid_out = (id(zoomed), width, self.view.by_line)  # the boxes keep the node, so that its identity stays its own
        if self._laid_out != laid_out:
            self._laid_out = laid_out
            assert self._root is not None, "what is zoomed is part of it"
            ordered = Orders(self._root.total, self._zoom, by_line=self.view.by_line, orders=self._orders)
            self._boxes = flamegraph.rows(zoomed, width, by_line=self.view.by_line, ordered=ordered)

    def _title(self, width: int) -> Line:
        scene = self._gputop.scene
        what = "callers of each function" if self._inverted else "flame graph"
        title: list[Span] = [(what, "strong!b")]
        if scene.summary is not None:
            title.append((f" {scene.glyphs.dot} {scene.summary.window.seconds:.0f} s", "title"))
            headline = scene.summary.headline
            who = headline.name if headline else "threads"
            more = "" if self.view.alone else ", and what other threads work"
            title.append((f" {scene.glyphs.dot} {who}{more}", "title"))
        title += [(f" {scene.glyphs.dot} ", "title"), ("own code", "warn!b")] if self.view.own else []
        if self._needle and self._root is not None:
            zoomed, _ = flamegraph.node_at(self._root, self._zoom, by_line=self.view.by_line)
            count, seconds = calls.matched(zoomed, self._matches)
            share = percent(seconds / zoomed.total if zoomed.total else 0.0, 1)
            title.append((f" {scene.glyphs.dot} “{self._needle}” {count} calls, {share}", "warn!b"))
        colours: Span = ("colours: states" if self._by_state else "colours: modules", "title")
        return rule(scene, title, width, [colours] if width >= 100 else [])

    def _crumbs(self, width: int) -> Line:
        arrow = " > "
        names = arrow.join(step[0] for step in self._zoom)
        room = width - 8
        text = names if len(names) <= room else self._gputop.glyphs.ellipsis + names[-room:]
        return line(((" in ", "dim"), (text, "accent")), width)

    def _details(self, width: int) -> Line:
        node = self._chosen().node if self._boxes else None
        if node is None or self._root is None:
            return line((), width)
        whole = self._whole
        dot = self._gputop.glyphs.dot
        spans: list[Span] = [
            (f" {fit(node.frame.name, min(len(node.frame.name), max(8, width // 3)))}", "strong!b"),
            (f"  total {percent(node.total / whole, 1)}", "text"),
            (f"  self {percent(node.self / whole, 1)}", "text"),
        ]
        if node.frame.file:
            number = f":{node.frame.line}" if node.frame.line else ""  # native functions have none
            spans.append((f"  {node.frame.file.rpartition('/')[2]}{number}", "dim"))
        if width >= 80:
            spans.append((f"  {node.total:.1f} s", "dim"))
            states = sorted(node.states.items(), key=lambda item: -item[1])[:3]
            words = f" {dot} ".join(f"{BY_ID[name].label} {percent(share)}" for name, share in states if share >= 0.01)
            spans.append((f"  {words}", "text"))
        return line(spans, width)

    # ------------------------------------------------------------------------------------------- choosing

    def _chosen(self) -> Box:
        """Return the chosen box; where it is too thin to be seen, its nearest caller that is not."""
        for depth in range(min(len(self._selected), len(self._boxes) - 1), -1, -1):
            for box in self._boxes[depth]:
                if box.path == self._selected[:depth]:
                    return box
        return self._boxes[0][0]

    def _select(self, box: Box) -> None:
        self._selected = box.path
        self.draw()

    def action_move(self, step: int) -> None:
        """Go down to the heaviest call, or up to the caller, as far as `step` says."""
        if not self._boxes:
            return
        box = self._chosen()
        for _ in range(min(abs(step), len(self._boxes))):
            box = self._deeper(box) if step > 0 else self._caller(box)
        self._select(box)

    def _deeper(self, box: Box) -> Box:
        depth = len(box.path) + 1
        row = self._boxes[depth] if depth < len(self._boxes) else []
        inside = [below for below in row if below.path[:-1] == box.path]
        return max(inside, key=lambda below: below.node.total, default=box)

    def _caller(self, box: Box) -> Box:
        path = box.path[:-1]
        return next((above for above in self._boxes[len(path)] if above.path == path), box)

    def action_page(self, pages: int) -> None:
        """Go down or up by many calls."""
        self.action_move(pages * max(1, self.size.height - 4))

    def action_aside(self, step: int) -> None:
        """Go to the neighbour on the same level."""
        if not self._boxes:
            return
        box = self._chosen()
        row = self._boxes[len(box.path)]
        self._select(row[max(0, min(len(row) - 1, row.index(box) + step))])

    # --------------------------------------------------------------------------------------------- zoom

    def action_zoom(self) -> None:
        """Let the chosen call fill the width."""
        if self._boxes and (path := self._chosen().path):
            self._zoom, self._selected, self._top = (*self._zoom, *path), (), 0
            self.draw()

    def action_unzoom(self) -> None:
        """Show the caller of what fills the width."""
        if self._zoom:
            *rest, last = self._zoom
            self._zoom, self._selected, self._top = tuple(rest), (last, *self._selected), 0
            self.draw()

    def action_back(self) -> None:
        """Undo the search, then the zoom, then close."""
        if self._needle:
            self._needle = ""
        elif self._zoom:
            self._selected, self._zoom, self._top = (*self._zoom, *self._selected), (), 0
        else:
            super().action_back()
            return
        self.draw()

    # ------------------------------------------------------------------------------------------- choices

    def action_invert(self) -> None:
        """Turn the tree round: functions on top, their callers below."""
        self._inverted, self._zoom, self._selected = not self._inverted, (), ()
        self._orders.clear()
        self.draw()

    def action_lines(self) -> None:
        """Tell calls from different lines apart, or not."""
        self.view.by_line, self._zoom, self._selected = not self.view.by_line, (), ()
        self._orders.clear()
        self._gputop.changed()

    def action_own(self) -> None:
        """Fold what libraries call among themselves into the call that enters them, or show it again."""
        self.view.own, self._zoom, self._selected = not self.view.own, (), ()
        self._orders.clear()
        self._gputop.changed()

    def action_alone(self) -> None:
        """Show the timeline's thread alone, or all threads' work."""
        self.view.alone = not self.view.alone
        self._gputop.ask(anew=True)
        self.draw()

    def action_colours(self) -> None:
        """Colour by module, or by state."""
        self._by_state = not self._by_state
        self.draw()

    # -------------------------------------------------------------------------------------------- search

    def action_search(self) -> None:
        """Open the line in which the text to look for is typed."""
        self.ask_line("search", self._needle, "function or file")

    def typed(self, what: str, text: str) -> None:
        """Mark what matches, as the user types."""
        self._needle = text
        self.draw()

    def _matches(self, frame: Frame) -> bool:
        return self._needle.lower() in f"{frame.name} {frame.file}".lower()

    def action_next(self, step: int) -> None:
        """Go to the next match, row by row, or to the one before."""
        if not self._needle or not self._boxes:
            self.action_search()
            return
        order = [box for row in self._boxes for box in row]
        found = [place for place, box in enumerate(order) if box.path and self._matches(box.node.frame)]
        place = following(found, order.index(self._chosen()), step)
        if place is None:
            self._gputop.say(f"no call that can be seen holds “{self._needle}”", "warn")
        else:
            self._select(order[place])

    # --------------------------------------------------------------------------------------------- mouse

    def on_click(self, event: events.Click) -> None:
        """Choose the call clicked; a second click zooms."""
        depth = self._top + event.y - 1 - bool(self._zoom)
        row = self._boxes[depth] if 0 <= depth < len(self._boxes) else []
        box = next((box for box in row if box.x <= event.x < box.x + box.width), None)
        if box is None:
            return
        if box.path == self._selected:
            self.action_zoom()
        else:
            self._select(box)

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Go deeper."""
        self.action_move(1)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Go up."""
        self.action_move(-1)


def _seen_as(tree: FlameNode, question: _Question) -> FlameNode:
    """Return the tree as it is looked at: what only runs modules is left out, as in Python's own tracebacks."""
    tree = calls.without(tree, _inside_libraries if question.own else _runs_modules, by_line=True)
    if question.inverted:
        return calls.inverted(tree, by_line=question.by_line)
    return tree if question.by_line else calls.by_function(tree)


def _runs_modules(frame: Frame, _caller: Frame) -> bool:
    """Return whether a call is of the machinery of `import` and of `python -m`."""
    return frame.file.startswith(("<frozen importlib.", "<frozen runpy>"))


def _inside_libraries(frame: Frame, caller: Frame) -> bool:
    return _runs_modules(frame, caller) or (_foreign(frame) and _foreign(caller))


def _foreign(frame: Frame) -> bool:
    """Return whether a call is a library's, or one inside the interpreter."""
    return is_library(frame.file) or _INTERPRETER.match(frame.file) is not None
