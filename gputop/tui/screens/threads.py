"""The threads: who does what, one row each, over time and in sum; Enter looks at one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import events
from textual.binding import BindingType

from gputop.analysis.results import Column, ThreadRow, Window
from gputop.tui import threadlist, threadrows
from gputop.tui.actions import THREADS
from gputop.tui.background import spawn
from gputop.tui.cells import Line, Span, line, many
from gputop.tui.keys import bindings
from gputop.tui.panels.base import rule
from gputop.tui.screens.sheet import Sheet
from gputop.tui.source import Thread
from gputop.tui.table import following
from gputop.tui.threadlist import Entry
from gputop.tui.threadrows import Look

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

_HEAD = 2
#: While the picture follows the time, strips are made anew this often, seconds: about as long as a cell stands for.
_EVERY = 1.0


class _Question(NamedTuple):
    """Of what there are strips."""

    window: Window
    threads: tuple[Thread, ...]
    steps: int


class Threads(Sheet[None]):
    """A list of threads, with what each did over time and a bar of states."""

    NAME = THREADS
    BINDINGS: ClassVar[list[BindingType]] = bindings(THREADS)

    def __init__(self, app: GputopApp) -> None:
        super().__init__(app)
        self._selected: Thread | None = app.scene.view.thread
        self._needle = self._filter = ""
        self._sort, self._own = "role", False
        self._top, self._page = 0, 1
        self._strips: Mapping[Thread, tuple[Column, ...]] = {}
        self._asked: _Question | None = None
        self._asked_at = 0.0
        self._busy = False

    # ------------------------------------------------------------------------------------------- drawing

    def _rows(self) -> list[ThreadRow]:
        summary = self._gputop.scene.summary
        return threadlist.listed(summary.threads, self._sort, self._filter, own=self._own) if summary else []

    def _entries(self, rows: list[ThreadRow]) -> list[Entry]:
        return threadlist.grouped(rows) if self._sort == "role" else [*rows]

    def painted(self, width: int, height: int) -> list[Line]:
        """Return the rows that fit."""
        scene, entries = self._gputop.scene, self._entries(self._rows())
        self._page = max(1, height - _HEAD)
        self._keep_in_sight(entries)
        shown = entries[self._top : self._top + self._page]
        columns = threadrows.columns(width)
        self._ask(tuple(_key(entry) for entry in shown if not isinstance(entry, str)), columns.strip)
        look = Look(columns, width, self._strips, self._selected, scene.view.thread, self._needle)
        lines = [self._title(entries, width), threadrows.heads(scene, self._sort, look)]
        lines += [threadrows.drawn(scene, entry, look) for entry in shown]
        if not entries:
            lines.append(line(((f"  {self._nothing()}", "dim"),), width))
        return lines

    def _title(self, entries: list[Entry], width: int) -> Line:
        dot = f" {self._gputop.glyphs.dot} "
        count = sum(not isinstance(entry, str) for entry in entries)
        title: list[Span] = [(many(count, "thread"), "strong!b")]
        title += [(dot, "title"), ("own threads", "warn!b")] if self._own else []
        title += [(f"{dot}filter ", "title"), (self._filter, "warn!b")] if self._filter else []
        title += [(f"{dot}search ", "title"), (self._needle, "warn!b")] if self._needle else []
        last = min(len(entries), self._top + self._page)
        right: list[Span] = [(f"{self._top + 1}–{last} of {len(entries)}", "title")]
        return rule(self._gputop.scene, title, width, right if len(entries) > self._page else ())

    def _nothing(self) -> str:
        if self._filter:
            return "no thread holds this text; Esc clears the filter"
        return "none of the program's own; o shows all threads" if self._own else "no thread seen yet"

    def _keep_in_sight(self, entries: list[Entry]) -> None:
        place = _place(entries, self._selected)
        if place is not None:
            above = place - (place > 0 and isinstance(entries[place - 1], str))  # with the head of its group
            self._top = min(max(self._top, place - self._page + 1), above)
        self._top = max(0, min(self._top, len(entries) - self._page))

    # ------------------------------------------------------------------------------------------- strips

    def _ask(self, threads: tuple[Thread, ...], steps: int) -> None:
        """Ask what the threads in sight did over time, unless that is being worked out."""
        summary = self._gputop.scene.summary
        if summary is None or self._busy or not steps or not threads:
            return
        question, before = _Question(summary.window, threads, steps), self._asked
        moved_on = before is not None and question == before._replace(window=question.window) and not self.view.paused
        if question == before or (moved_on and time.monotonic() - self._asked_at < _EVERY):
            return
        self._asked, self._asked_at, self._busy = question, time.monotonic(), True
        spawn("strips", lambda: self._answer(question))

    def _answer(self, question: _Question) -> None:
        try:
            found = self._gputop.scene.source.strips(*question)
        except Exception as error:  # shown to the user: a fault in analysis must not end the screen
            self._gputop.later(self._take, {}, f"what threads did over time is not known: {error!r}")
        else:
            self._gputop.later(self._take, found, "")

    def _take(self, found: Mapping[Thread, tuple[Column, ...]], fault: str) -> None:
        self._busy = False
        self._strips = found
        if fault:
            self._gputop.say(fault, "bad")
        elif self.is_attached:
            self.draw()

    # ------------------------------------------------------------------------------------------- actions

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        threads = self._rows()
        if not threads:
            return
        rows: list[Entry] = [*threads]
        place = _place(rows, self._selected)
        self._select(threads[0 if place is None else max(0, min(len(threads) - 1, place + step))])

    def _select(self, row: ThreadRow) -> None:
        self._selected = _key(row)
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

    def action_own(self) -> None:
        """Show the program's own threads only, or all again."""
        self._own, self._top = not self._own, 0
        self.draw()

    def action_sort(self, column: str) -> None:
        """Sort by a column; by role, the list is in groups."""
        self._sort, self._top = column, 0
        self.draw()

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

    def copied(self) -> str:
        """Return the chosen thread and what it does, else the verdict."""
        row = next((row for row in self._rows() if _key(row) == self._selected), None)
        return (
            super().copied() if row is None else f"{row.name} ({row.role}, {row.pid}/{row.tid}): {threadlist.most(row)}"
        )

    # -------------------------------------------------------------------------------------------- search

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
        found = [place for place, row in enumerate(threads) if self._needle and threadlist.holds(row, self._needle)]
        rows: list[Entry] = [*threads]
        place = following(found, _place(rows, self._selected), step)
        if place is not None:
            self._select(threads[place])
        return place is not None

    # --------------------------------------------------------------------------------------------- mouse

    async def on_click(self, event: events.Click) -> None:
        """Sort by the column clicked, or select the row; a second click looks at it."""
        entries = self._entries(self._rows())
        place = self._top + event.y - _HEAD
        if event.y == _HEAD - 1:
            self.action_sort(threadrows.columns(self.size.width).at(event.x))
        elif event.y >= _HEAD and place < len(entries) and event.y < self.size.height - 1:
            entry = entries[place]
            if isinstance(entry, str):
                return
            if _key(entry) == self._selected:
                self.action_choose()
            else:
                self._select(entry)

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Move down."""
        self.action_move(3)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Move up."""
        self.action_move(-3)


def _key(row: ThreadRow) -> Thread:
    return row.pid, row.tid


def _place(entries: list[Entry], thread: Thread | None) -> int | None:
    return next((place for place, row in enumerate(entries) if not isinstance(row, str) and _key(row) == thread), None)
