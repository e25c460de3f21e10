"""The GPUs with their history: in full for one or two, from three up a list and the chosen one in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import BindingType

from gputop.analysis.results import GpuHistory
from gputop.tui import history
from gputop.tui.actions import GPUS
from gputop.tui.background import Feed, Question
from gputop.tui.cells import Line, line
from gputop.tui.keys import bindings
from gputop.tui.panels.base import padded, rule
from gputop.tui.panels.gpus import missing
from gputop.tui.screens.sheet import Sheet

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

#: GPUs that are shown in full one above the other, and the rows that each of them needs; rows of a block that are
#: worth showing below a list; rows above the list.
_FULL, _ROOM, _LEAST, _HEAD = 2, 14, 5, 2


class Gpus(Sheet[None]):
    """Asks for the history while it is open."""

    NAME = GPUS
    BINDINGS: ClassVar[list[BindingType]] = bindings(GPUS)

    def __init__(self, app: GputopApp) -> None:
        super().__init__(app)
        self._items: tuple[GpuHistory, ...] = ()
        self._seconds = app.scene.view.seconds
        self._place = self._top = 0
        self._page = 1
        source = app.scene.source
        self._feed = Feed(lambda asked: source.gpu_history(asked.window, asked.columns), self._deliver)

    def on_unmount(self) -> None:
        """Ask no more."""
        self._feed.stop()

    def draw(self) -> None:
        """Show what is known, and ask for what is newer."""
        question = self._gputop.question(history.steps(self.size.width))
        if question is not None:
            self._feed.ask(question)
        super().draw()

    def on_screen_resume(self) -> None:
        """Ask as soon as the screen is there."""
        self.draw()

    def on_resize(self, _event: events.Resize) -> None:
        """Ask for curves of the new width."""
        self.draw()

    def _deliver(self, question: Question, answer: tuple[GpuHistory, ...] | Exception) -> None:
        self._gputop.later(self._arrived, question, answer)

    def _arrived(self, question: Question, answer: tuple[GpuHistory, ...] | Exception) -> None:
        if isinstance(answer, Exception):
            self._gputop.say(f"the GPUs of this time cannot be summed up: {answer!r}", "bad")
            return
        self._items, self._seconds = answer, question.window.seconds / question.columns * history.steps(self.size.width)
        if self.is_current:
            super().draw()

    # ------------------------------------------------------------------------------------------- drawing

    def painted(self, width: int, height: int) -> list[Line]:
        """Return the blocks, or the list with a block below it."""
        scene, items = self._gputop.scene, self._items
        if not items:
            words = missing(scene)
            return [rule(scene, [("GPUs", "strong!b")], width), line(((f"  {words}", "dim"),), width)]
        each = height // len(items)
        if not self._is_list(height):
            return [row for item in items for row in history.block(scene, item, self._seconds, width, each)]
        return self._listed(width, height)

    def _is_list(self, height: int) -> bool:
        count = len(self._items)
        return count > _FULL or (count > 1 and height // count < _ROOM)

    def _listed(self, width: int, height: int) -> list[Line]:
        scene, count = self._gputop.scene, len(self._items)
        below = height - _HEAD - count
        below = below if below >= _LEAST else 0
        self._page = max(1, height - _HEAD - below)
        self._place = min(self._place, count - 1)
        self._top = max(0, min(max(self._top, self._place - self._page + 1), self._place, count - self._page))
        title = [("GPUs", "strong!b"), (f" {scene.glyphs.dot} {count}, the program's own first", "title")]
        shown = list(enumerate(self._items))[self._top : self._top + self._page]
        lines = [rule(scene, title, width), history.heads(width)]
        lines += [history.row(scene, item, width, place == self._place) for place, item in shown]
        chosen = self._items[self._place]
        return [
            *padded(lines, width, height - below),
            *(history.block(scene, chosen, self._seconds, width, below) if below else ()),
        ]

    # ------------------------------------------------------------------------------------------- actions

    def action_move(self, step: int) -> None:
        """Choose another GPU."""
        self._place = max(0, min(len(self._items) - 1, self._place + step))
        self.draw()

    def action_page(self, pages: int) -> None:
        """Choose a GPU a page further."""
        self.action_move(pages * self._page)

    def copied(self) -> str:
        """Return what limits the chosen GPU."""
        if not self._items:
            return ""
        item = self._items[self._place]
        return f"GPU {item.newest.index} ({item.newest.name}): {item.efficiency.title}: {item.efficiency.evidence}"

    def on_click(self, event: events.Click) -> None:
        """Choose the GPU clicked."""
        place = self._top + event.y - _HEAD
        if self._is_list(self.size.height - 1) and _HEAD <= event.y < _HEAD + self._page and place < len(self._items):
            self.action_move(place - self._place)
