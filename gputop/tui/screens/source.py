"""The functions, and beside them the source: what each line takes, and which one runs now."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import events
from textual.binding import BindingType

from gputop.tui import listing, syntax
from gputop.tui.actions import SOURCE
from gputop.tui.background import spawn
from gputop.tui.cells import Line
from gputop.tui.keys import bindings
from gputop.tui.layout import Place
from gputop.tui.listing import Listing
from gputop.tui.panels import hot
from gputop.tui.screens.rows import RowsScreen
from gputop.tui.screens.sheet import Sheet

if TYPE_CHECKING:
    from gputop.target.code import Code
    from gputop.tui.app import GputopApp

#: From this width on, list and source stand side by side; from this height on, one above the other.
_WIDE, _HIGH = 110, 18
_GAP = 2


class _Panes(NamedTuple):
    """Where the list and the source are; None for one that is not shown."""

    rows: Place | None
    source: Place | None


def panes(width: int, height: int, in_source: bool) -> _Panes:
    """Return the places of the list and of the source."""
    if width >= _WIDE:
        left = min(72, width * 2 // 5)
        return _Panes(Place(0, 0, left, height), Place(left + _GAP, 0, width - left - _GAP, height))
    if height >= _HIGH:
        high = height // 3
        return _Panes(Place(0, 0, width, high), Place(0, high, width, height - high))
    whole = Place(0, 0, width, height)
    return _Panes(None, whole) if in_source else _Panes(whole, None)


class SourceScreen(Sheet[None], RowsScreen):
    """The table of functions, with the source of the chosen one."""

    NAME = SOURCE
    BINDINGS: ClassVar[list[BindingType]] = bindings(SOURCE)

    def __init__(self, app: GputopApp) -> None:
        super().__init__(app)
        self.listing = Listing()
        self._in_source = False
        self._chosen: tuple[str, ...] | None = None
        self._files: dict[str, tuple[Code, dict[int, list[syntax.Part]]] | None] = {}
        self._panes = _Panes(None, None)

    def on_mount(self) -> None:
        """Begin with the chosen row, or with the first; a small screen shows its source at once."""
        self._in_source = self.table.cursor(self.view) is not None
        if not self._in_source:
            self.table.select(self.view, self.view.top)
        self.view.native = True
        self._gputop.ask(anew=True)

    def on_unmount(self) -> None:
        """Ask no longer for what is shown here alone."""
        self.view.native = False

    # ------------------------------------------------------------------------------------------- drawing

    def painted(self, width: int, height: int) -> list[Line]:
        """Return list and source, as there is room for them."""
        self._panes = places = panes(width, height, self._in_source)
        self._follow()
        rows = hot.PANEL.draw(self._gputop.scene, *places.rows[2:]) if places.rows else []
        source = self._source(*places.source[2:]) if places.source else []
        if places.rows and places.source and places.source.x:
            return [(*left, (" " * _GAP, "text"), *right) for left, right in zip(rows, source, strict=True)]
        return [*rows, *source]

    def _source(self, width: int, height: int) -> list[Line]:
        self.listing.update(self._gputop.scene.summary)
        self.listing.go(self.listing.at, listing.page(self.listing, height))
        return listing.draw(self._gputop.scene, self.listing, width, height, focused=self._in_source)

    def _page(self) -> int:
        return listing.page(self.listing, self._panes.source.height) if self._panes.source else 1

    def _follow(self) -> None:
        """Show the source of the row that is chosen now."""
        place = self.table.cursor(self.view)
        if place is None or self.view.selected == self._chosen:
            return
        self._chosen = self.view.selected
        row = self.table.rows[place]
        if row.file != self.listing.file:
            self.listing = Listing(row.file)
            self._open(row.file)
        self.listing.update(self._gputop.scene.summary)
        self.listing.go(row.line, self._page(), centre=True)

    def _open(self, file: str) -> None:
        if file not in self._files:
            self._files[file] = None
            spawn("source", lambda: self._read(file))
        elif (known := self._files[file]) is not None:
            self.listing.code, self.listing.colours = known

    def _read(self, file: str) -> None:
        """Read a file, on a thread of its own: its disk may hang."""
        code = self._gputop.scene.source.code(file)
        self._gputop.later(self._take, file, code, syntax.parts(code.lines))

    def _take(self, file: str, code: Code, colours: dict[int, list[syntax.Part]]) -> None:
        self._files[file] = code, colours
        if file == self.listing.file:
            self.listing.code, self.listing.colours = code, colours
            self.listing.go(self._line(), self._page(), centre=True)
        self.draw()

    def _line(self) -> int:
        place = self.table.cursor(self.view)
        return self.listing.at if place is None else self.table.rows[place].line

    # ------------------------------------------------------------------------------------------- actions

    def action_focus_other(self) -> None:
        """Let the arrow keys move in the other half."""
        self._in_source = not self._in_source
        self.draw()

    def action_hot(self, step: int) -> None:
        """Go to the next hot line of the file."""
        self._go(self.listing.hot(step), centre=True)

    def action_aside(self, step: int) -> None:
        """Scroll the source sideways."""
        room = self._panes.source.width if self._panes.source else self.size.width
        self.listing.aside(step * room // 4, self._page())
        self.draw()

    def action_move(self, step: int) -> None:
        """Move in the half that has the keys."""
        if self._in_source:
            self._go(self.listing.at + step)
        else:
            super().action_move(step)

    def action_page(self, pages: int) -> None:
        """Move by pages in the half that has the keys."""
        if self._in_source:
            self._go(self.listing.at + pages * self._page())
        else:
            super().action_page(pages)

    def _go(self, number: int, *, centre: bool = False) -> None:
        self.listing.go(number, self._page(), centre=centre)
        self.draw()

    def typed(self, what: str, text: str) -> None:
        """Search where the keys are; the filter is the list's."""
        if what == "search" and self._in_source:
            self.view.search = text
            self._find(0)
        else:
            super().typed(what, text)

    def action_next(self, step: int) -> None:
        """Go to the next match where the keys are."""
        if self._in_source and self.view.search:
            self._find(step)
        else:
            super().action_next(step)

    def _find(self, step: int) -> None:
        number = self.listing.find(self.view.search, step) if self.view.search else 0
        if number:
            self._go(number, centre=True)
        elif self.view.search:
            self._gputop.say(f"no line holds “{self.view.search}”", "warn")

    def action_back(self) -> None:
        """Undo the search, then close."""
        if self.view.search:
            self.view.search = ""
            self.draw()
        else:
            super().action_back()

    # --------------------------------------------------------------------------------------------- mouse

    async def on_click(self, event: events.Click) -> None:
        """Choose the row or the line clicked."""
        rows, source = self._panes
        if rows and _within(rows, event):
            self._in_source = False
            await self.run_action(hot.PANEL.click(self._gputop.scene, event.x, event.y, rows.width))
        elif source and _within(source, event):
            self._in_source = True
            first = source.y + source.height - self._page()
            self._go(self.listing.top + max(0, event.y - first))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll the half under the mouse."""
        self._scroll(event, 3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll the half under the mouse."""
        self._scroll(event, -3)

    def _scroll(self, event: events.MouseEvent, rows: int) -> None:
        if self._panes.source and _within(self._panes.source, event):
            self._go(self.listing.at + rows)
        else:
            self.action_scroll(rows)


def _within(place: Place, event: events.MouseEvent) -> bool:
    return place.x <= event.x < place.x + place.width and place.y <= event.y < place.y + place.height
