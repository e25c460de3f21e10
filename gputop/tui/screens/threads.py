"""The threads: who does what, one row each; Enter looks at one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import events
from textual.binding import BindingType

from gputop.analysis.results import ThreadRow
from gputop.analysis.states import BY_ID
from gputop.tui.actions import THREADS
from gputop.tui.bars import bar, in_order
from gputop.tui.cells import Line, Span, fit, line, percent
from gputop.tui.keys import bindings
from gputop.tui.panels.base import rule
from gputop.tui.screens.sheet import Sheet
from gputop.tui.source import Thread
from gputop.tui.table import following

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

_HEAD = 2


class Threads(Sheet[None]):
    """A list of threads with a bar of states each."""

    NAME = THREADS
    BINDINGS: ClassVar[list[BindingType]] = bindings(THREADS)

    def __init__(self, app: GputopApp) -> None:
        super().__init__(app)
        self._selected: Thread | None = app.scene.view.thread
        self._needle = self._filter = ""
        self._top, self._page = 0, 1

    # ------------------------------------------------------------------------------------------- drawing

    def _rows(self) -> list[ThreadRow]:
        """Return the threads that pass the filter: main threads first, then by role, in an order that does not jump."""
        summary = self._gputop.scene.summary
        rows = [row for row in summary.threads if _holds(row, self._filter)] if summary else []
        return sorted(rows, key=lambda row: (not row.main, row.role, row.pid, row.tid))

    def painted(self, width: int, height: int) -> list[Line]:
        """Return the rows that fit."""
        scene, rows = self._gputop.scene, self._rows()
        self._page = max(1, height - _HEAD)
        self._keep_in_sight(rows)
        title: list[Span] = [(f"{len(rows)} threads", "strong!b")]
        title += [(f" {scene.glyphs.dot} filter ", "title"), (self._filter, "warn!b")] if self._filter else []
        title += [(f" {scene.glyphs.dot} search ", "title"), (self._needle, "warn!b")] if self._needle else []
        lines = [rule(scene, title, width), _heads(width)]
        lines += [self._row(row, width) for row in rows[self._top : self._top + self._page]]
        if not rows:
            words = "no thread holds this text; Esc clears the filter" if self._filter else "no thread seen yet"
            lines.append(line(((f"  {words}", "dim"),), width))
        return lines

    def _row(self, row: ThreadRow, width: int) -> Line:
        scene = self._gputop.scene
        back = "/select" if (row.pid, row.tid) == self._selected else ""
        columns = _columns(width)
        drawn = bar(in_order(row.states.items()), columns.bar, scene.glyphs, scene.coloured, "base")
        mark = scene.glyphs.live if (row.pid, row.tid) == scene.view.thread else " "
        spans: list[Span] = [
            (f"{mark} ", f"accent{back}"),
            (
                fit(row.name, columns.name, scene.glyphs.ellipsis),
                f"{self._tone(row)}{back}" + ("!b" if row.main else ""),
            ),
            (_facts(columns, row.role, str(row.pid), str(row.tid), percent(row.cpu)), f"dim{back}"),
            *drawn,
            (f"  {most(row)}", f"text{back}"),
        ]
        return line(spans, width, fill=(" ", f"text{back}"))

    def _tone(self, row: ThreadRow) -> str:
        return "accent" if self._needle and _holds(row, self._needle) else "strong"

    def _keep_in_sight(self, rows: list[ThreadRow]) -> None:
        place = self._place(rows)
        if place is not None:
            self._top = min(max(self._top, place - self._page + 1), place)
        self._top = max(0, min(self._top, len(rows) - self._page))

    def _place(self, rows: list[ThreadRow]) -> int | None:
        return next((place for place, row in enumerate(rows) if (row.pid, row.tid) == self._selected), None)

    # ------------------------------------------------------------------------------------------- actions

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        threads = self._rows()
        if not threads:
            return
        place = self._place(threads)
        self._select(threads, 0 if place is None else max(0, min(len(threads) - 1, place + step)))

    def _select(self, threads: list[ThreadRow], place: int) -> None:
        self._selected = (threads[place].pid, threads[place].tid)
        self.draw()

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_move(pages * self._page)

    def action_choose(self) -> None:
        """Make the selected thread the one that the overview is about."""
        if self._selected is not None:
            self.view.thread = self._selected
            self._gputop.ask(anew=True)
        self.dismiss(None)

    def action_back(self) -> None:
        """Undo the search, then the filter; then close."""
        if self._needle:
            self._needle = ""
        elif self._filter:
            self._filter = ""
        else:
            super().action_back()
            return
        self.draw()

    def action_search(self) -> None:
        """Open the line in which the text to look for is typed."""
        self.ask_line("search", self._needle, "thread, role or id")

    def action_filter(self) -> None:
        """Open the line in which the filter is typed."""
        self.ask_line("filter", self._filter, "thread, role or id")

    def typed(self, what: str, text: str) -> None:
        """Filter, or go to the first thread that fits."""
        if what == "filter":
            self._filter, self._top = text, 0
        else:
            self._needle = text
            self._find(0)
        self.draw()

    def action_next(self, step: int) -> None:
        """Go to the next thread that holds the text, or to the one before."""
        if not self._needle:
            self.action_search()
        elif not self._find(step):
            self._gputop.say(f"no thread holds “{self._needle}”", "warn")

    def _find(self, step: int) -> bool:
        threads = self._rows()
        found = [place for place, row in enumerate(threads) if self._needle and _holds(row, self._needle)]
        place = following(found, self._place(threads), step)
        if place is not None:
            self._select(threads, place)
        return place is not None

    def on_click(self, event: events.Click) -> None:
        """Select the row clicked; a second click looks at it."""
        place = self._top + event.y - _HEAD
        rows = self._rows()
        if 0 <= place < len(rows) and event.y >= _HEAD:
            if (rows[place].pid, rows[place].tid) == self._selected:
                self.action_choose()
            else:
                self._select(rows, place)

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Move down."""
        self.action_move(3)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Move up."""
        self.action_move(-3)


def _holds(row: ThreadRow, text: str) -> bool:
    return text.lower() in f"{row.name} {row.role} {row.pid} {row.tid}".lower()


class _Columns(NamedTuple):
    """Widths of the columns; `ids` shows role, process and thread id."""

    name: int
    ids: bool
    bar: int


#: Columns of role, ids and CPU use; of CPU use alone; of the words after the bar; of the mark before the name.
_IDS, _CPU, _WORDS, _MARK = 38, 9, 18, 2


def _columns(width: int) -> _Columns:
    ids = width >= 90
    rest = width - _MARK - (_IDS if ids else _CPU) - _WORDS
    name = max(8, min(32, rest // 2))
    return _Columns(name, ids, max(4, min(60, rest - name)))


def _facts(columns: _Columns, role: str, pid: str, tid: str, cpu: str) -> str:
    ids = f" {fit(role, 10)} {pid:>8} {tid:>8}" if columns.ids else ""
    return f"{ids} {cpu:>6}  "


def _heads(width: int) -> Line:
    columns = _columns(width)
    facts = _facts(columns, "role", "pid", "tid", "cpu")
    return line(((f"  {fit('thread', columns.name)}{facts}doing", "dim"),), width)


def most(row: ThreadRow) -> str:
    """Say what a thread does most: "gpu wait 61 %"."""
    if not row.states:
        return "not looked at"
    name, share = max(row.states.items(), key=lambda item: item[1])
    return f"{BY_ID[name].label} {percent(share)}"
