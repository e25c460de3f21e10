"""Leaving a launched command: end it, leave it running, or stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen

from gputop.tui.canvas import Canvas
from gputop.tui.cells import Line, Span, line
from gputop.tui.panels.base import padded, rule
from gputop.tui.source import Outcome

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

_CHOICES: tuple[tuple[str, str, Outcome | None], ...] = (
    ("c", "cancel: stay here", None),
    ("l", "leave it running, without gputop", Outcome.LEAVE),
    ("t", "terminate it (SIGTERM, then SIGKILL)", Outcome.TERMINATE),
)
_FIRST_ROW = 3


class QuitDialog(ModalScreen["Outcome | None"]):
    """Asks; the result is None for cancel."""

    DEFAULT_CSS = """
    QuitDialog { align: center middle; background: $background 60%; }
    QuitDialog Canvas { width: 52; max-width: 100%; height: 8; max-height: 100%; }
    """
    BINDINGS = [  # noqa: RUF012 - Textual's class variable
        Binding("escape,c,ctrl+c", "choose(0)", "Cancel", show=False),
        Binding("l", "choose(1)", "Leave running", show=False),
        Binding("t", "choose(2)", "Terminate", show=False),
        Binding("down,j,tab", "step(1)", "Down", show=False),
        Binding("up,k,shift+tab", "step(-1)", "Up", show=False),
        Binding("enter", "choose(-1)", "Choose", show=False),
    ]

    def __init__(self, app: GputopApp) -> None:
        super().__init__()
        self._gputop = app
        self._at = 0
        self._canvas = Canvas(self._painted, app.colours, app.glyphs)

    def compose(self) -> ComposeResult:
        """Yield the box."""
        yield self._canvas

    def _painted(self, width: int, height: int) -> list[Line]:
        scene = self._gputop.scene
        pid = scene.session.root.pid
        lines = [rule(scene, [("quit gputop", "strong!b")], width)]
        lines.append(line(((f"  pid {pid} is still running; what becomes of it?", "text"),), width))
        lines.append(line((), width))
        for place, (key, text, _) in enumerate(_CHOICES):
            back = "/select" if place == self._at else ""
            spans: list[Span] = [(f"  {key} ", f"accent{back}!b"), (f" {text}", f"text{back}")]
            lines.append(line(spans, width, fill=(" ", f"text{back}")))
        return padded([*lines, line((), width), rule(scene, [], width)], width, height)

    def action_step(self, step: int) -> None:
        """Move between the choices."""
        self._at = (self._at + step) % len(_CHOICES)
        self._canvas.update()

    def action_choose(self, place: int) -> None:
        """Take a choice; -1 is the one that is marked."""
        self.dismiss(_CHOICES[self._at if place < 0 else place][2])

    def on_click(self, event: events.Click) -> None:
        """Take the choice clicked."""
        if event.widget is self._canvas and 0 <= event.y - _FIRST_ROW < len(_CHOICES):
            self.action_choose(event.y - _FIRST_ROW)
