"""The overview: all panels, arranged for the size of the terminal, and what the user can do with them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Region, Size, Spacing
from textual.layout import Layout, WidgetPlacement
from textual.screen import Screen
from textual.widget import Widget

from gputop.tui.actions import ACTIONS, APP
from gputop.tui.canvas import Canvas
from gputop.tui.cells import Line
from gputop.tui.layout import Need, Place, arrange
from gputop.tui.panels import PANELS
from gputop.tui.panels.base import Panel
from gputop.tui.snapshots import Snapshots
from gputop.tui.source import Thread
from gputop.tui.view import View

if TYPE_CHECKING:
    from textual.widgets import Input

    from gputop.tui.app import GputopApp

#: Room for the words around the filter's input, in cells.
_PROMPT_LEFT, _PROMPT_RIGHT = 9, 23
#: Bounds of the factor on the sampling rates.
_SLOWEST, _FASTEST = 1 / 16, 8.0
#: One step back in time, as a share of the window.
_STEP = 1 / 12


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
            await self.screen.run_action(action)


class _PanelLayout(Layout):
    """Places the panels by `gputop.tui.layout`; other widgets (the filter's input) go over the status line."""

    name = "panels"

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}

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

    DEFAULT_CSS = (
        "Overview Input, Overview Input:focus { border: none; height: 1; padding: 0 1; background: $surface; }"
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(action.keys), action.method, action.name, show=False)
        for action in ACTIONS
        if not action.method.startswith(APP)
    ]

    def __init__(self, app: GputopApp) -> None:
        super().__init__()
        self._gputop = app
        self._panels = _PanelLayout()
        self._canvases = [PanelCanvas(panel, app) for panel in PANELS]
        self._snapshots = Snapshots(app)

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

    # -------------------------------------------------------------------------------------------- filter

    def action_filter(self) -> None:
        """Open the line in which the filter is typed; Enter keeps it, Esc clears it."""
        from textual.widgets import Input

        if not self.query(Input):
            line = Input(self._view.filter, placeholder="function or file", compact=True)
            self.mount(line)
            line.focus()
            self._gputop.scene.prompt = "filter"
            self.draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter as the user types."""
        self._view.filter = event.value.strip()
        self._view.top = 0
        self._gputop.changed()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter."""
        await self._close_filter(event.input.value)

    async def on_key(self, event: events.Key) -> None:
        """Let Esc close the filter's line, and clear the filter."""
        if event.key == "escape" and self._gputop.scene.prompt:
            event.stop()
            event.prevent_default()
            await self._close_filter("")

    async def _close_filter(self, text: str) -> None:
        await self.query("Input").remove()
        self._gputop.scene.prompt = ""
        self._view.filter = text.strip()
        self._gputop.changed()

    # --------------------------------------------------------------------------------------------- table

    @property
    def _view(self) -> View:
        return self._gputop.scene.view

    def action_lines(self) -> None:
        """Switch the table between functions and lines."""
        self._view.by_line, self._view.selected, self._view.top = not self._view.by_line, None, 0
        self._gputop.changed()

    def action_sort(self, column: str) -> None:
        """Sort the table by a column."""
        self._view.sort, self._view.top = column, 0
        self._gputop.changed()

    def action_move(self, step: int) -> None:
        """Move the cursor in the table."""
        self._gputop.scene.table.move(self._view, step)
        self.draw()

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_move(pages * self._gputop.scene.table.page)

    def action_scroll(self, rows: int) -> None:
        """Scroll the table."""
        self._gputop.scene.table.scroll(self._view, rows)
        self.draw()

    def action_pick(self, place: int) -> None:
        """Select a row of the table."""
        self._gputop.scene.table.select(self._view, place)
        self.draw()

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Scroll the table."""
        self.action_scroll(3)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Scroll the table."""
        self.action_scroll(-3)

    # ---------------------------------------------------------------------------------------------- time

    def action_pause(self) -> None:
        """Freeze the picture, or let it go on."""
        self._gputop.freeze(self._view.paused is None)

    def action_travel(self, steps: int) -> None:
        """Show an earlier or a later window."""
        span = self._gputop.scene.source.span()
        if span is None:
            return
        if self._view.paused is None:
            self._gputop.freeze(True)
        end = (self._view.paused or span.end) + steps * _STEP * self._view.seconds
        self._view.paused = min(span.end, max(span.start + _STEP * self._view.seconds, end))
        self._gputop.ask(anew=True)
        self.draw()

    def action_reset(self) -> None:
        """Sum up only what happens from now on; a second time, the whole window again."""
        afresh = self._view.reset_at == 0.0
        self._view.reset_at = time.monotonic() if afresh else 0.0
        self._gputop.say("summing up from now on; r for the whole window again" if afresh else "the whole window again")
        self._gputop.ask()

    def action_rate(self, factor: float) -> None:
        """Change the sampling rates."""
        self._view.rate = min(_FASTEST, max(_SLOWEST, self._view.rate * factor))
        self._gputop.scene.source.set_rate(self._view.rate)
        times = self._gputop.glyphs.times
        self._gputop.say(f"sampling at {self._view.rate:g} {times} the configured rates, within the budget")

    # ------------------------------------------------------------------------------------------- screens

    def action_advice(self) -> None:
        """Open the advice."""
        from gputop.tui.screens.page import Page
        from gputop.tui.screens.texts import advice_text

        self.app.push_screen(Page(self._gputop, "why, and what helps", advice_text))

    def action_threads(self) -> None:
        """Open the list of threads."""
        from gputop.tui.screens.threads import Threads

        self.app.push_screen(Threads(self._gputop), self.look_at)

    def look_at(self, thread: Thread | None) -> None:
        """Make one thread the headline; None changes nothing."""
        if thread is not None:
            self._view.thread = thread
            self._gputop.ask(anew=True)
            self.draw()

    def action_snapshot(self) -> None:
        """Save a trace, in the background."""
        self._snapshots.take()

    def on_unmount(self) -> None:
        """Let nothing wait for an answer that will not come."""
        self._snapshots.close()

    def action_back(self) -> None:
        """Undo the last choice: message, filter, cursor, thread, then time."""
        if self._gputop.scene.said:
            self._gputop.scene.message = None
        elif self._view.filter:
            self._view.filter = ""
        elif self._view.selected is not None:
            self._view.selected = None
        elif self._view.thread is not None:
            self._view.thread = None
            self._gputop.ask(anew=True)
        elif self._view.paused is not None:
            self._gputop.freeze(False)
        self._gputop.changed()
