"""A screen of one canvas, with a last line that says what is shown and which keys work."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from textual import events
from textual.app import ComposeResult

from gputop.tui import hints
from gputop.tui.canvas import Canvas
from gputop.tui.cells import Line, Span, fit
from gputop.tui.panels.base import padded
from gputop.tui.panels.status import mode
from gputop.tui.screens.base import GputopScreen

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

Result = TypeVar("Result")


class _SheetCanvas(Canvas):
    """The canvas of a sheet: a click on a hint of its last line does what the hint says."""

    async def on_click(self, event: events.Click) -> None:
        """Do what the hint says; other clicks are the screen's."""
        sheet = self.screen
        assert isinstance(sheet, Sheet), "only sheets have one"
        if event.y == self.size.height - 1 and not self.selecting:
            event.stop()
            if action := sheet.hint_at(event.x):
                await sheet.run_action(action)


class Sheet(GputopScreen[Result]):
    """Draws what `painted` returns above its last line."""

    def __init__(self, app: GputopApp) -> None:
        super().__init__(app)
        self.canvas = _SheetCanvas(self._drawn, app.colours, app.glyphs)

    def compose(self) -> ComposeResult:
        """Yield the canvas."""
        yield self.canvas

    def draw(self) -> None:
        """Show the newest."""
        self.canvas.update()

    def painted(self, width: int, height: int) -> list[Line]:
        """Return the lines of the screen without its last one."""
        raise NotImplementedError

    def _drawn(self, width: int, height: int) -> list[Line]:
        if height < 2:
            return self.painted(width, height)
        return [*padded(self.painted(width, height - 1), width, height - 1), self._foot(width)]

    def _foot(self, width: int) -> Line:
        scene = self._gputop.scene
        return hints.prompt(scene.prompt, width) if scene.prompt else hints.foot(self.NAME, self._words(width), width)

    def _words(self, width: int) -> list[Span]:
        """Return what the last line says on the left."""
        scene = self._gputop.scene
        (chip, tone), words = mode(scene)
        said = scene.said
        spans: list[Span] = [(f" {chip} ", f"ink/{tone}!b")]
        if said is not None:
            text = " ".join(said.text.split())
            room = max(0, width - len(chip) - 4)
            spans.append((f" {fit(text, min(room, len(text)))}", f"{said.tone}/bar!b"))
        elif words and width >= 100:
            spans.append((f" {words}", "text/bar"))
        return spans

    def hint_at(self, x: int) -> str:
        """Return the action of the hint at a column of the last line, "" for none."""
        width = self.size.width
        words = self._words(width)
        return "" if self._gputop.scene.prompt else hints.clicked(self.NAME, hints.room(words, width), x, width)

    def action_back(self) -> None:
        """Close the screen; what was said goes away by itself."""
        self.dismiss(None)
