"""The threads: who does what, one row each; Enter looks at one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen

from gputop.analysis.results import ThreadRow
from gputop.analysis.states import BY_ID
from gputop.tui.bars import bar, in_order
from gputop.tui.canvas import Canvas
from gputop.tui.cells import Line, Span, fit, line, percent
from gputop.tui.panels.base import padded, rule
from gputop.tui.source import Thread

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

_HEAD = 2
_END = 1_000_000


class Threads(Screen["Thread | None"]):
    """A list of threads with a bar of states each; the result is the one to look at, None for no change."""

    BINDINGS = [  # noqa: RUF012 - Textual's class variable
        Binding("escape,t,H", "close", "Back", show=False),
        Binding("enter", "choose", "Look at this thread", show=False),
        Binding("down,j", "step(1)", "Down", show=False),
        Binding("up,k", "step(-1)", "Up", show=False),
        Binding("pagedown", "page(1)", "Next page", show=False),
        Binding("pageup", "page(-1)", "Page before", show=False),
        Binding("home,g", f"step(-{_END})", "First", show=False),
        Binding("end,G", f"step({_END})", "Last", show=False),
    ]

    def __init__(self, app: GputopApp) -> None:
        super().__init__()
        self._gputop = app
        self._selected: Thread | None = app.scene.view.thread
        self._top, self._page = 0, 1
        self._canvas = Canvas(self._painted, app.colours, app.glyphs)

    def compose(self) -> ComposeResult:
        """Yield the list."""
        yield self._canvas

    def draw(self) -> None:
        """Show the newest."""
        self._canvas.update()

    # ------------------------------------------------------------------------------------------- drawing

    def _rows(self) -> list[ThreadRow]:
        """Return the threads: main threads first, then by CPU time, in an order that does not jump."""
        summary = self._gputop.scene.summary
        rows = summary.threads if summary else ()
        return sorted(rows, key=lambda row: (not row.main, row.role, row.pid, row.tid))

    def _painted(self, width: int, height: int) -> list[Line]:
        scene, rows = self._gputop.scene, self._rows()
        self._page = max(1, height - _HEAD - 1)
        self._keep_in_sight(rows)
        back = [("Enter ", "accent!b"), ("look at it", "dim"), ("   Esc ", "accent!b"), ("back", "dim")]
        lines = [rule(scene, [(f"{len(rows)} threads", "strong!b")], width, back), _heads(width)]
        lines += [self._row(row, width) for row in rows[self._top : self._top + self._page]]
        if not rows:
            lines.append(line((("  no thread seen yet", "dim"),), width))
        return padded(lines, width, height)

    def _row(self, row: ThreadRow, width: int) -> Line:
        scene = self._gputop.scene
        back = "/select" if (row.pid, row.tid) == self._selected else ""
        columns = _columns(width)
        drawn = bar(in_order(row.states.items()), columns.bar, scene.glyphs, scene.coloured, "base")
        mark = scene.glyphs.live if (row.pid, row.tid) == scene.view.thread else " "
        spans: list[Span] = [
            (f"{mark} ", f"accent{back}"),
            (fit(row.name, columns.name, scene.glyphs.ellipsis), f"strong{back}" + ("!b" if row.main else "")),
            (_facts(columns, row.role, str(row.pid), str(row.tid), percent(row.cpu)), f"dim{back}"),
            *drawn,
            (f"  {most(row)}", f"text{back}"),
        ]
        return line(spans, width, fill=(" ", f"text{back}"))

    def _keep_in_sight(self, rows: list[ThreadRow]) -> None:
        place = self._place(rows)
        if place is not None:
            self._top = min(max(self._top, place - self._page + 1), place)
        self._top = max(0, min(self._top, len(rows) - self._page))

    def _place(self, rows: list[ThreadRow]) -> int | None:
        return next((place for place, row in enumerate(rows) if (row.pid, row.tid) == self._selected), None)

    # ------------------------------------------------------------------------------------------- actions

    def action_step(self, rows: int) -> None:
        """Move the cursor."""
        threads = self._rows()
        if not threads:
            return
        place = self._place(threads)
        place = 0 if place is None else min(len(threads) - 1, max(0, place + rows))
        self._selected = (threads[place].pid, threads[place].tid)
        self._canvas.update()

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_step(pages * self._page)

    def action_choose(self) -> None:
        """Make the selected thread the one that the overview is about."""
        self.dismiss(self._selected)

    def action_close(self) -> None:
        """Go back."""
        self.dismiss(None)

    def on_click(self, event: events.Click) -> None:
        """Select the row clicked; a second click looks at it."""
        place = self._top + event.y - _HEAD
        rows = self._rows()
        if 0 <= place < len(rows) and event.y >= _HEAD:
            clicked = (rows[place].pid, rows[place].tid)
            if clicked == self._selected:
                self.action_choose()
                return
            self._selected = clicked
            self._canvas.update()

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Move down."""
        self.action_step(3)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Move up."""
        self.action_step(-3)


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
