"""A screen of text to read: help, advice; scrolls, closes with Esc."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen

from gputop.tui.canvas import Canvas
from gputop.tui.cells import Line, line
from gputop.tui.panels.base import padded, rule
from gputop.tui.view import Scene

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

#: Makes the text for a scene and a width.
Text = Callable[[Scene, int], list[Line]]
_END = 1_000_000
#: Cells of the words on closing, at the right end of the title.
_CLOSE = 12


class Page(Screen[None]):
    """A text that is made afresh for each size."""

    BINDINGS = [  # noqa: RUF012 - Textual's class variable
        Binding("escape,enter", "close", "Back", show=False),
        Binding("down,j", "scroll_by(1)", "Down", show=False),
        Binding("up,k", "scroll_by(-1)", "Up", show=False),
        Binding("pagedown,space", "page_by(1)", "Next page", show=False),
        Binding("pageup", "page_by(-1)", "Page before", show=False),
        Binding("home,g", f"scroll_by(-{_END})", "Start", show=False),
        Binding("end,G", f"scroll_by({_END})", "End", show=False),
    ]

    def __init__(self, app: GputopApp, title: str, text: Text) -> None:
        super().__init__()
        self._gputop = app
        self._title, self._text = title, text
        self._top = 0
        self._canvas = Canvas(self._painted, app.colours, app.glyphs)

    def compose(self) -> ComposeResult:
        """Yield the text."""
        yield self._canvas

    def _painted(self, width: int, height: int) -> list[Line]:
        scene = self._gputop.scene
        margin = 2 if width >= 60 else 1
        lines = self._text(scene, min(width - 2 * margin, 110))
        page = height - 2
        self._top = max(0, min(self._top, len(lines) - page))
        more = (
            f"{self._top + 1} to {min(len(lines), self._top + page)} of {len(lines)} lines" if len(lines) > page else ""
        )
        head = rule(scene, [(self._title, "strong!b")], width, [("Esc ", "accent!b"), ("back", "dim")])
        body = [line(((" " * margin, "text"), *row), width) for row in lines[self._top : self._top + page]]
        return padded([head, *padded(body, width, page), line(((f" {more}", "dim"),), width)], width, height)

    def draw(self) -> None:
        """Show the newest."""
        self._canvas.update()

    def action_close(self) -> None:
        """Go back to where we came from."""
        self.app.pop_screen()

    def action_scroll_by(self, rows: int) -> None:
        """Scroll by rows."""
        self._top = max(0, self._top + rows)
        self._canvas.update()

    def action_page_by(self, pages: int) -> None:
        """Scroll by pages."""
        self.action_scroll_by(pages * max(1, self.size.height - 3))

    def on_click(self, event: events.Click) -> None:
        """Close by a click on the words that say so."""
        if event.y == 0 and event.x >= self.size.width - _CLOSE:
            self.action_close()

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Scroll down."""
        self.action_scroll_by(3)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Scroll up."""
        self.action_scroll_by(-3)
