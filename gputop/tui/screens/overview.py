"""The overview: all panels, arranged for the size of the terminal."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.geometry import Offset, Region, Size, Spacing
from textual.layout import Layout, WidgetPlacement
from textual.screen import Screen
from textual.widget import Widget

from gputop.tui.canvas import Canvas
from gputop.tui.cells import Line
from gputop.tui.layout import Need, Place, arrange
from gputop.tui.panels import PANELS
from gputop.tui.panels.base import Panel
from gputop.tui.view import Scene

if TYPE_CHECKING:
    from textual.widgets import Input

    from gputop.tui.app import GputopApp


#: Room for the words around the filter's input, in cells.
_PROMPT_LEFT, _PROMPT_RIGHT = 9, 23


class PanelCanvas(Canvas):
    """One panel on the screen."""

    def __init__(self, panel: Panel, app: GputopApp) -> None:
        super().__init__(self._painted, app.colours, app.glyphs, id=panel.key)
        self._panel = panel
        self._gputop = app

    def _painted(self, width: int, height: int) -> list[Line]:
        return self._panel.draw(self._gputop.scene, width, height)

    async def on_click(self, event: events.Click) -> None:
        """Do what a click here means."""
        action = self._panel.click(self._gputop.scene, event.x, event.y, self.size.width)
        if action:
            await self._gputop.run_action(action)


class _PanelLayout(Layout):
    """Places the panels by `gputop.tui.layout`; other widgets (the filter's input) go over the status line."""

    name = "panels"

    def __init__(self, places: dict[str, Place]) -> None:
        self.places = places

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> list[WidgetPlacement]:
        """Return where each panel that fits goes."""
        prompt = Place(_PROMPT_LEFT, max(0, size.height - 1), max(8, size.width - _PROMPT_LEFT - _PROMPT_RIGHT), 1)
        placements = []
        for order, child in enumerate(children):
            place = self.places.get(child.id or "") if isinstance(child, PanelCanvas) else prompt
            if place is not None:
                placements.append(WidgetPlacement(Region(*place), Offset(), Spacing(), child, order))
        return placements


class Overview(Screen[None]):
    """All panels at once."""

    def __init__(self, app: GputopApp) -> None:
        super().__init__()
        self._gputop = app
        self._panels = _PanelLayout({})
        self._canvases = [PanelCanvas(panel, app) for panel in PANELS]

    @property
    def layout(self) -> Layout:
        """Return the arrangement of the panels, for the size as it is now."""
        self._panels.places = self._places(self._gputop.scene, self.size)
        return self._panels

    def _places(self, scene: Scene, size: Size) -> dict[str, Place]:
        width, height = size
        needs = []
        for panel in PANELS:
            rows = panel.rows(scene, width, height)
            needs.append(Need(panel.key, panel.column, panel.priority, rows.minimum, rows.want, rows.weight))
        return arrange(needs, width, height)

    def compose(self) -> ComposeResult:
        """Yield every panel; the layout leaves out those that do not fit."""
        yield from self._canvases

    def draw(self) -> None:
        """Bring every panel up to date; arrange them again when they need other room than before."""
        places = self._panels.places
        if self._places(self._gputop.scene, self.size) != places:
            self._canvases[0].refresh(layout=True)  # a child's wish is what makes Textual arrange again
        for canvas in self._canvases:
            if canvas.id in places:
                canvas.update()

    def ask_filter(self) -> None:
        """Open the line in which the filter is typed; Enter keeps it, Esc clears it."""
        from textual.widgets import Input

        if not self.query(Input):
            line = Input(self._gputop.scene.view.filter, placeholder="function or file", compact=True)
            self.mount(line)
            line.focus()
            self._gputop.scene.prompt = "filter"
            self.draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter as the user types."""
        self._gputop.scene.view.filter = event.value.strip()
        self._gputop.scene.view.top = 0
        self._gputop.changed()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter."""
        await self._close_filter(event.input.value)

    async def _close_filter(self, text: str) -> None:
        await self.query("Input").remove()
        self._gputop.scene.prompt = ""
        self._gputop.scene.view.filter = text.strip()
        self._gputop.changed()

    async def on_key(self, event: events.Key) -> None:
        """Let Esc close the filter's line, and clear the filter."""
        if event.key == "escape" and self._gputop.scene.prompt:
            event.stop()
            event.prevent_default()
            await self._close_filter("")

    def on_resize(self, _event: events.Resize) -> None:
        """Ask for a timeline of the new width at once."""
        self.call_after_refresh(partial(self._gputop.ask))

    async def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Scroll the table."""
        await self._gputop.run_action("scroll(3)")

    async def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Scroll the table."""
        await self._gputop.run_action("scroll(-3)")
