"""The picker: which process to look at, when the command line does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Input

from gputop.errors import GputopError
from gputop.tui.background import spawn
from gputop.tui.canvas import Canvas
from gputop.tui.cells import Line, Span, fit, line, number, size, width_of
from gputop.tui.panels.base import padded
from gputop.tui.source import Attach, Find, Outcome, Source

if TYPE_CHECKING:
    from gputop.target.find import Candidate
    from gputop.tui.app import GputopApp

_HEAD, _FOOT = 1, 1
_REFRESH_EVERY = 2.0


class Picker(Screen[None]):
    """A list of processes; typing filters it, Enter attaches."""

    DEFAULT_CSS = """
    Picker Input, Picker Input:focus { border: none; height: 1; padding: 0 1; background: $surface; }
    """
    BINDINGS = [  # noqa: RUF012 - Textual's class variable
        Binding("down", "step(1)", "Down", show=False, priority=True),
        Binding("up", "step(-1)", "Up", show=False, priority=True),
        Binding("pagedown", "page(1)", "Next page", show=False, priority=True),
        Binding("pageup", "page(-1)", "Page before", show=False, priority=True),
        Binding("escape", "clear", "Clear the filter, or quit", show=False, priority=True),
    ]

    def __init__(self, app: GputopApp, find: Find, attach: Attach) -> None:
        super().__init__()
        self._gputop, self._find, self._opener = app, find, attach
        self._found: list[Candidate] = []
        self._selected: int | None = None
        self._top, self._page = 0, 1
        self._said, self._tone = "looking for Python and GPU processes", "dim"
        self._looking = self._attaching = False
        self._input = Input(placeholder="type to filter by command, user or pid", compact=True)
        self._canvas = Canvas(self._painted, app.colours, app.glyphs)

    def compose(self) -> ComposeResult:
        """Yield the filter and the list."""
        yield self._input
        yield self._canvas

    def on_mount(self) -> None:
        """Look now and every two seconds."""
        self._input.focus()
        self._look()
        self.set_interval(_REFRESH_EVERY, self._look)

    def _look(self) -> None:
        if not self._looking and not self._attaching:
            self._looking = True
            spawn("find", self._look_in_background)

    def _look_in_background(self) -> None:
        try:
            found, said = list(self._find()), ""
        except (GputopError, OSError) as error:
            found, said = [], f"processes cannot be listed: {error}"
        self._gputop.later(self._take, found, said)

    def _take(self, found: list[Candidate], said: str) -> None:
        self._looking = False
        self._found = found
        if self._tone != "bad":
            self._said, self._tone = (said, "bad") if said else ("", "dim")
        self._canvas.update()

    # ------------------------------------------------------------------------------------------- drawing

    def _rows(self) -> list[Candidate]:
        words = self._input.value.lower().split()
        return [
            row for row in self._found if all(word in f"{row.pid} {row.user} {row.command}".lower() for word in words)
        ]

    def _painted(self, width: int, height: int) -> list[Line]:
        rows = self._rows()
        self._page = max(1, height - _HEAD - _FOOT)
        place = self._place(rows)
        if self._selected is None and rows:
            self._selected = rows[0].pid
        self._top = min(max(self._top, place - self._page + 1), place)
        lines = [_heads(width)]
        lines += [self._row(row, place == at, width) for at, row in enumerate(rows)][self._top : self._top + self._page]
        if not rows:
            lines.append(line(((f"  {self._said or self._nothing()}", self._tone),), width))
        return [*padded(lines, width, height - _FOOT), self._foot(len(rows), width)]

    def _nothing(self) -> str:
        if self._found:
            return f"none of {len(self._found)} processes fits the filter"
        return "no Python or GPU process that you may look at; start one with: gputop -- COMMAND"

    def _row(self, row: Candidate, selected: bool, width: int) -> Line:
        back = "/select" if selected else ""
        glyphs = self._gputop.glyphs
        head: list[Span] = [(f"{glyphs.cursor if selected else ' '}{row.pid:>8} ", f"accent{back}")]
        wide = width >= 80
        if wide:
            head.append((f"{fit(row.user, 10, glyphs.ellipsis)} ", f"dim{back}"))
        head.append((f"{number(row.cpu, 'cores', 1):>10} ", f"text{back}"))
        if wide:
            head += [
                (f"{size(row.rss_bytes):>9} ", f"text{back}"),
                (f" {row.python or ('yes' if row.runs_python else '-'):<8}", f"dim{back}"),
            ]
        head.append((" GPU " if row.uses_gpu else "     ", f"gpu{back}!b"))
        tone = "strong" if row.readable else "dim"
        whole: Span = (row.command, f"{tone}{back}")
        fits = width_of([*head, whole]) <= width
        return line([*head, whole if fits else (row.brief, whole[1])], width, fill=(" ", f"text{back}"))

    def _foot(self, count: int, width: int) -> Line:
        keys = [("↑↓ " if self._gputop.glyphs.fine else "arrows ", "accent/bar!b"), ("choose  ", "dim/bar")]
        keys += [
            ("Enter ", "accent/bar!b"),
            ("look at it  ", "dim/bar"),
            ("Esc ", "accent/bar!b"),
            ("quit ", "dim/bar"),
        ]
        words = self._said or f"{count} of {len(self._found)} processes"
        tone = f"{self._tone if self._said else 'dim'}/bar"
        return line(((f" {words}", tone),), width, keys, (" ", "text/bar"))

    def _place(self, rows: list[Candidate]) -> int:
        return next((at for at, row in enumerate(rows) if row.pid == self._selected), 0)

    # ------------------------------------------------------------------------------------------- actions

    def action_step(self, step: int) -> None:
        """Move the cursor."""
        rows = self._rows()
        if rows:
            self._selected = rows[min(len(rows) - 1, max(0, self._place(rows) + step))].pid
            self._canvas.update()

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_step(pages * self._page)

    def action_clear(self) -> None:
        """Clear the filter; with none, quit."""
        if self._input.value:
            self._input.value = ""
        else:
            self._gputop.exit(Outcome.QUIT)

    def on_input_changed(self, _event: Input.Changed) -> None:
        """Filter as the user types; the first row that fits is chosen."""
        self._selected, self._top = None, 0
        self._canvas.update()

    def on_input_submitted(self, _event: Input.Submitted) -> None:
        """Attach to the row that the cursor is on."""
        rows = self._rows()
        if rows and not self._attaching:
            self._start(rows[self._place(rows)].pid)

    def on_click(self, event: events.Click) -> None:
        """Choose the row clicked; a second click attaches."""
        at = self._top + event.y - _HEAD
        rows = self._rows()
        if event.widget is not self._canvas or event.y < _HEAD or at >= len(rows):
            return
        again = rows[at].pid == self._selected
        self._selected = rows[at].pid
        self._canvas.update()
        if again and not self._attaching:
            self._start(rows[at].pid)

    def _start(self, pid: int) -> None:
        self._attaching = True
        self._said, self._tone = f"attaching to {pid}", "accent"
        self._canvas.update()
        spawn("attach", lambda: self._attach_in_background(pid))

    def _attach_in_background(self, pid: int) -> None:
        try:
            source = self._opener(pid)
        except GputopError as error:
            self._gputop.later(self._refused, f"{error.what}; {error.remedy}" if error.remedy else error.what)
        except OSError as error:
            self._gputop.later(self._refused, f"cannot attach to {pid}: {error}")
        else:
            self._gputop.later(self._attached, source)

    def _refused(self, said: str) -> None:
        self._attaching = False
        self._said, self._tone = said, "bad"
        self._canvas.update()

    def _attached(self, source: Source) -> None:
        self._gputop.show_source(source)


def _heads(width: int) -> Line:
    if width < 80:
        return line(((f"{'pid':>9} {'cpu':>10}      command", "dim"),), width)
    text = f"{'pid':>9} {fit('user', 10)} {'cpu':>10} {'memory':>9}  {fit('Python', 8)}     command"
    return line(((text, "dim"),), width)
