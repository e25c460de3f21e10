"""The overview: all panels, arranged for the size of the terminal, and what the user can do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Offset, Region, Size, Spacing
from textual.layout import Layout, WidgetPlacement
from textual.widget import Widget

from gputop.analysis.results import Window
from gputop.tui.actions import OVERVIEW
from gputop.tui.canvas import Canvas
from gputop.tui.cells import Line
from gputop.tui.keys import bindings
from gputop.tui.layout import Need, Place, arrange
from gputop.tui.panels import PANELS
from gputop.tui.panels.base import Panel
from gputop.tui.screens.rows import RowsScreen

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

#: Bounds of the factor on the sampling rates.
_SLOWEST, _FASTEST = 1 / 16, 8.0


class PanelCanvas(Canvas):
    """One panel on the screen."""

    def __init__(self, panel: Panel, app: GputopApp) -> None:
        super().__init__(self._painted, app.colours, app.glyphs, id=panel.key)
        self._panel = panel
        self._gputop = app
        self._dragged_from: int | None = None

    def _painted(self, width: int, height: int) -> list[Line]:
        return self._panel.draw(self._gputop.scene, width, height)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin to drag, where columns are times."""
        if self._range(event.x, event.x) is not None:
            self._dragged_from = event.x
            self.capture_mouse()
            event.prevent_default()  # here dragging marks a range instead of text

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Show what is being dragged over."""
        if self._dragged_from is not None:
            self._gputop.scene.view.dragged = self._range(self._dragged_from, event.x)
            self.update()
            event.prevent_default()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Look at the range dragged over; a click alone is none."""
        start, self._dragged_from = self._dragged_from, None
        if start is None:
            return
        event.prevent_default()
        self.release_mouse()
        self._gputop.scene.view.dragged = None
        if event.x != start and (marked := self._range(start, event.x)) is not None:
            assert isinstance(self.screen, Overview), "panels are on the overview only"
            self.screen.mark_range(marked)

    def _range(self, start: int, end: int) -> Window | None:
        return self._panel.drag(self._gputop.scene, start, end, self.size.width)

    async def on_click(self, event: events.Click) -> None:
        """Do what a click here means."""
        action = self._panel.click(self._gputop.scene, event.x, event.y, self.size.width)
        if action and not self.selecting:
            await self.screen.run_action(action)


class _PanelLayout(Layout):
    """Places the panels by `gputop.tui.layout`; those without a place are not shown."""

    name = "panels"

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> list[WidgetPlacement]:
        """Return where each panel that fits goes."""
        placements = []
        for order, child in enumerate(children):
            place = self.places.get(child.id or "")
            if place is not None:
                placements.append(WidgetPlacement(Region(*place), Offset(), Spacing(), child, order))
        return placements


class Overview(RowsScreen):
    """All panels at once."""

    NAME = OVERVIEW
    BINDINGS: ClassVar[list[BindingType]] = bindings(OVERVIEW)

    def __init__(self, app: GputopApp) -> None:
        super().__init__(app)
        self._panels = _PanelLayout()
        self._canvases = [PanelCanvas(panel, app) for panel in PANELS]

    # ------------------------------------------------------------------------------------------- drawing

    @property
    def layout(self) -> Layout:
        """Return the arrangement of the panels, for the size as it is now."""
        self._panels.places = self._places(self.size)
        return self._panels

    def _places(self, size: Size) -> dict[str, Place]:
        needs = []
        for panel in PANELS:
            rows = panel.rows(self._gputop.scene, *size)
            needs.append(Need(panel.key, panel.column, panel.priority, rows.minimum, rows.want, rows.weight))
        return arrange(needs, *size)

    def compose(self) -> ComposeResult:
        """Yield every panel; the layout leaves out those that do not fit."""
        yield from self._canvases

    def draw(self) -> None:
        """Bring every panel up to date; arrange them again when they need other room than before."""
        if self._places(self.size) != self._panels.places:
            self._canvases[0].refresh(layout=True)  # a child's wish is what makes Textual arrange again
        for canvas in self._canvases:
            if canvas.id in self._panels.places:
                canvas.update()

    def on_resize(self, _event: events.Resize) -> None:
        """Ask for a timeline of the new width at once."""
        self.call_after_refresh(self._gputop.ask, anew=True)

    def action_rate(self, factor: float) -> None:
        """Change the sampling rates."""
        self.view.rate = min(_FASTEST, max(_SLOWEST, self.view.rate * factor))
        self._gputop.scene.source.set_rate(self.view.rate)
        times = self._gputop.glyphs.times
        self._gputop.say(f"sampling at {self.view.rate:g} {times} the configured rates, within the budget")

    # ------------------------------------------------------------------------------------------- screens

    def action_advice(self) -> None:
        """Open the advice."""
        from gputop.tui.screens.page import Page
        from gputop.tui.screens.texts import advice_text

        self.app.push_screen(Page(self._gputop, "why, and what helps", advice_text))

    def action_snapshot(self) -> None:
        """Save a trace, in the background."""
        self._gputop.snapshots.take()

    def action_open(self) -> None:
        """Open the source of the chosen row; without one, the reasons for the verdict."""
        if self.table.cursor(self.view) is None:
            self.action_advice()
        else:
            self.action_go("source")

    def action_back(self) -> None:
        """Undo the last choice."""
        self.undone()
        self._gputop.changed()
