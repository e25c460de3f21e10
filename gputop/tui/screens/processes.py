"""The program's processes and ranks: what each takes, and what its main thread does; Enter looks at one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import events
from textual.binding import BindingType

from gputop.tui.actions import PROCESSES
from gputop.tui.bars import bar, in_order
from gputop.tui.cells import Line, Span, fit, line, number, size
from gputop.tui.copied import process
from gputop.tui.keys import bindings
from gputop.tui.panels.base import rule
from gputop.tui.screens.sheet import Sheet
from gputop.tui.threadlist import most
from gputop.tui.tree import NO_GPU, ProcessRow, rows

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

_HEAD = 2
#: Widths: of pid, of rank and Python version, of CPU, memory and GPU memory, of the words after the bar.
_PID, _MORE, _NUMBERS, _WORDS = 9, 17, 31, 18
_WIDE, _NARROW = 110, 70


class Processes(Sheet[None]):
    """A tree of processes, with a bar of states for each one's main thread."""

    NAME = PROCESSES
    BINDINGS: ClassVar[list[BindingType]] = bindings(PROCESSES)

    def __init__(self, app: GputopApp) -> None:
        super().__init__(app)
        headline = app.scene.summary.headline if app.scene.summary else None
        self._pid = headline.pid if headline else app.scene.session.root.pid
        self._top, self._page = 0, 1

    def _rows(self) -> tuple[ProcessRow, ...]:
        summary = self._gputop.scene.summary
        return rows(summary) if summary else ()

    def painted(self, width: int, height: int) -> list[Line]:
        """Return the rows that fit, with the chosen one among them."""
        scene, shown = self._gputop.scene, self._rows()
        ended = sum(row.ended for row in shown)
        title: list[Span] = [("processes", "strong!b"), (f" {scene.glyphs.dot} {len(shown) - ended} live", "title")]
        title += [(f", {ended} ended", "title")] if ended else []
        self._page = max(1, height - _HEAD)
        place = self._place(shown)
        self._top = max(0, min(max(self._top, place - self._page + 1), place, len(shown) - self._page))
        lines = [rule(scene, title, width), _heads(width)]
        return lines + [self._row(row, width) for row in shown[self._top : self._top + self._page]]

    def _row(self, row: ProcessRow, width: int) -> Line:
        scene, columns = self._gputop.scene, _columns(width)
        back = "/select" if row.process.pid == self._pid else ""
        tone = f"{'dim' if row.ended else 'strong'}{back}"
        name = "  " * row.depth + (row.process.name or " ".join(row.process.cmdline))
        spans: list[Span] = [
            (f" {fit(name, columns.name - 1, scene.glyphs.ellipsis)}", tone),
            (f"{row.process.pid:>{_PID}}", f"text{back}"),
            (_more(row) if columns.more else "", f"dim{back}"),
        ]
        if row.ended:
            code = "code unknown" if row.code is None else f"code {row.code}"
            spans.append((f"  ended, {code}", f"{'bad' if row.code else 'dim'}{back}"))
            return line(spans, width, fill=(" ", f"text{back}"))
        spans.append((_numbers(row) if columns.numbers else "", f"text{back}"))
        if row.main is not None and columns.bar:
            spans += bar(in_order(row.main.states.items()), columns.bar, scene.glyphs, scene.coloured, "base")
        spans.append((f"  {most(row.main) if row.main else 'not looked at'}", f"text{back}"))
        return line(spans, width, fill=(" ", f"text{back}"))

    def _place(self, shown: tuple[ProcessRow, ...]) -> int:
        return next((place for place, row in enumerate(shown) if row.process.pid == self._pid), 0)

    # ------------------------------------------------------------------------------------------- actions

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        shown = self._rows()
        if shown:
            self._pid = shown[max(0, min(len(shown) - 1, self._place(shown) + step))].process.pid
            self.draw()

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_move(pages * self._page)

    def action_choose(self) -> None:
        """Make the process's main thread the one that the overview is about."""
        row = next((row for row in self._rows() if row.process.pid == self._pid), None)
        if row is None or row.main is None:
            self._gputop.say("no thread of this process was looked at", "warn")
            return
        self.view.thread = (row.main.pid, row.main.tid)
        self._gputop.ask(anew=True)
        self.dismiss(None)

    def copied(self) -> str:
        """Return the chosen process."""
        return next((process(row) for row in self._rows() if row.process.pid == self._pid), "")

    def on_click(self, event: events.Click) -> None:
        """Choose the row clicked; a second click looks at it."""
        shown, place = self._rows(), self._top + event.y - _HEAD
        if event.y >= _HEAD and place < len(shown):
            if shown[place].process.pid == self._pid:
                self.action_choose()
            else:
                self.action_move(place - self._place(shown))


class _Columns(NamedTuple):
    """Widths; `more` shows rank and Python version, `numbers` CPU and memory."""

    name: int
    more: bool
    numbers: bool
    bar: int


def _columns(width: int) -> _Columns:
    more, numbers = width >= _WIDE, width >= _NARROW
    rest = width - _PID - (_NUMBERS if numbers else 0) - _WORDS - (_MORE if more else 0)
    name = max(10, min(40, rest // 2 if rest >= 24 else rest))
    return _Columns(name, more, numbers, max(0, min(40, rest - name)))


def _heads(width: int) -> Line:
    columns = _columns(width)
    more = f"{'rank/local':>11} {'Py':>5}" if columns.more else ""
    numbers = f"{'cpu':>11}{'memory':>9}{'GPU':>9}" if columns.numbers else ""
    text = f" {fit('process', columns.name - 1)}{'pid':>{_PID}}{more}{numbers}"
    return line(((f"{text}  main thread", "dim"),), width)


def _more(row: ProcessRow) -> str:
    rank, local = row.process.rank, row.process.local_rank
    ranks = "" if rank is None else f"{rank}/{'-' if local is None else local}"
    return f"{ranks:>11} {(row.process.python or '').rpartition('.')[0]:>5}"


def _numbers(row: ProcessRow) -> str:
    gpu = "" if row.gpu_bytes == NO_GPU else size(row.gpu_bytes)
    return f"{number(row.cpu, 'cores', 1):>11}{size(row.rss_bytes):>9}{gpu:>9}  "
