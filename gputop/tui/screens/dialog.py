"""A question over the screen, with a few answers to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from gputop.tui.canvas import Canvas
from gputop.tui.cells import Line, Span, line, wrap
from gputop.tui.panels.base import padded, rule
from gputop.tui.source import Outcome

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

Answer = TypeVar("Answer")
_WIDTH = 64


class Choice(NamedTuple):
    """One answer: the key that gives it, what it means in words, and its value."""

    key: str
    words: str
    value: object


class Dialog(ModalScreen[Answer]):
    """Asks; the first choice is marked at first and is what Esc gives, so it has to be the harmless one."""

    DEFAULT_CSS = f"""
    Dialog {{ align: center middle; background: $background 60%; }}
    Dialog Canvas {{ width: {_WIDTH}; max-width: 100%; max-height: 100%; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "choose(0)", "Cancel", show=False, priority=True),
        Binding("down,j,tab", "step(1)", "Down", show=False),
        Binding("up,k,shift+tab", "step(-1)", "Up", show=False),
        Binding("enter", "choose(-1)", "Choose", show=False),
    ]

    def __init__(self, app: GputopApp, title: str, question: str, choices: Sequence[Choice]) -> None:
        super().__init__()
        self._gputop = app
        self._title, self._question, self._choices = title, question, choices
        self._at = 0
        self._canvas = Canvas(self._painted, app.colours, app.glyphs)
        self._canvas.styles.height = len(self._words(_WIDTH)) + len(choices) + 4

    def compose(self) -> ComposeResult:
        """Yield the box."""
        yield self._canvas

    def _words(self, width: int) -> list[str]:
        return wrap(self._question, width - 4, 8)

    def _painted(self, width: int, height: int) -> list[Line]:
        scene = self._gputop.scene
        lines = [rule(scene, [(self._title, "strong!b")], width)]
        lines += [line(((f"  {words}", "text"),), width) for words in self._words(width)]
        lines.append(line((), width))
        for place, choice in enumerate(self._choices):
            back = "/select" if place == self._at else ""
            spans: list[Span] = [(f"  {choice.key} ", f"accent{back}!b"), (f" {choice.words}", f"text{back}")]
            lines.append(line(spans, width, fill=(" ", f"text{back}")))
        return padded([*lines, line((), width), line((), width, fill=(scene.glyphs.rule, "rule"))], width, height)

    def action_step(self, step: int) -> None:
        """Move between the choices."""
        self._at = (self._at + step) % len(self._choices)
        self._canvas.update()

    def action_choose(self, place: int) -> None:
        """Take a choice; -1 is the one that is marked."""
        self.dismiss(self._choices[self._at if place < 0 else place].value)  # type: ignore[arg-type]

    def on_key(self, event: events.Key) -> None:
        """Take the choice whose key was pressed."""
        for place, choice in enumerate(self._choices):
            if event.key == choice.key:
                event.stop()
                self.action_choose(place)
                return

    def on_click(self, event: events.Click) -> None:
        """Take the choice clicked."""
        place = event.y - len(self._words(self._canvas.size.width)) - 2
        if event.widget is self._canvas and 0 <= place < len(self._choices):
            self.action_choose(place)


def quit_dialog(app: GputopApp) -> Dialog[Outcome | None]:
    """Ask what becomes of a launched command.

    The key that ends it means nothing on any other screen: nobody presses it by habit.
    """
    pid = app.scene.session.root.pid
    return Dialog(
        app,
        "quit gputop",
        f"pid {pid} is still running; what becomes of it?",
        (
            Choice("c", "cancel: stay here", None),
            Choice("l", "leave it running, without gputop", Outcome.LEAVE),
            Choice("e", "end it (SIGTERM, then SIGKILL)", Outcome.TERMINATE),
        ),
    )


def consent_dialog(app: GputopApp, question: str) -> Dialog[bool]:
    """Ask before anything is run inside the target."""
    choices = (Choice("n", "no: save what can be had without it", False), Choice("y", "yes", True))
    return Dialog(app, "snapshot", question, choices)
