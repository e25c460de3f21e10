"""The one widget that draws: rows of styled spans, shown through Textual's line API at the least cost.

A row that did not change keeps its `Strip` (expensive to make, cheap to reuse), and only the changed part of a
screen line is painted again. `render_lines` is overridden, so Textual's style cache, borders and padding do not
apply; in return the line filters (NO_COLOR) have to be applied here.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.filter import ANSIToTruecolor
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gputop.tui.cells import Line
from gputop.tui.glyphs import Glyphs
from gputop.tui.lean import LeanStrip
from gputop.tui.selection import Selection
from gputop.tui.theme import Theme

#: Punctuation that has an ASCII cousin.
_PLAIN = str.maketrans("…–−°·“”", '~--\'-""')
#: What was selected stays marked for so long after it was copied, seconds.
_MARKED = 0.7
#: Makes the lines for a width and a height, each exactly that wide.
Painter = Callable[[int, int], list[Line]]


class Selected(Message):
    """Text was selected with the mouse."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class Canvas(Widget):
    """Shows what a painter makes; `update` paints what has changed since. Text on it can be selected with the mouse.

    (Textual's own selection needs the place of every segment in its style: a third more CPU time for each picture.)
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = "Canvas { width: 1fr; height: 1fr; }"

    def __init__(self, painter: Painter, theme: Theme, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.painter = painter
        self.palette = theme
        self._ascii = glyphs.name == "ascii"
        self._lines: list[Line] = []
        self._strips: list[Strip] = []
        self._drawn_at = Size(0, 0)
        self._anchor: tuple[int, int] | None = None
        self._selection: Selection | None = None

    @property
    def text(self) -> str:
        """Return what is shown as plain text, one line a row."""
        return "\n".join(strip.text.rstrip() for strip in self._strips)

    def update(self) -> None:
        """Ask the painter again and paint the difference."""
        size = self.size
        if size.area == 0:
            return
        if size != self._drawn_at:
            self.refresh()
            return
        old = self._lines
        for y, (before, now) in enumerate(zip(old, self._paint(size), strict=True)):
            if before is now:
                continue
            start, end = changed_columns(before, now, size.width)
            self.refresh(Region(start, y, end - start, 1))

    def _paint(self, size: Size) -> list[Line]:
        """Return the new lines (the old object where nothing changed) and bring the strips up to date."""
        lines = self.painter(size.width, size.height)
        if size != self._drawn_at:
            self._lines, self._strips = lines, [self._strip(line) for line in lines]
            self._drawn_at = size
            return lines
        for y, before in enumerate(self._lines):
            if lines[y] == before:
                lines[y] = before
            else:
                self._strips[y] = self._strip(lines[y])
        self._lines = lines
        return lines

    def _strip(self, line: Line) -> Strip:
        style = self.palette.style
        if self._ascii:
            line = tuple((_as_ascii(text), key) for text, key in line)
        strip = Strip([Segment(text, style(key)) for text, key in line])
        background = self.background_colors[1]
        for line_filter in self.get_line_filters():
            if line_filter.enabled and not isinstance(line_filter, ANSIToTruecolor):  # the 256 colours stay short
                strip = strip.apply_filter(line_filter, background)
        return LeanStrip(strip, strip.cell_length)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the strips of a part of the widget; a new size is drawn at once, so that no frame shows the old."""
        if self.size != self._drawn_at:
            self._paint(self.size)
        shown = self._strips[crop.y : crop.bottom]
        if self._selection is not None:
            shown = [self._selection.shown(crop.y + row, strip) for row, strip in enumerate(shown)]
        if crop.column_span == (0, self.size.width):
            return shown
        return [strip.crop(*crop.column_span) for strip in shown]

    # ------------------------------------------------------------------------------------------ selecting

    @property
    def selecting(self) -> bool:
        """Return whether text is selected now."""
        return self._selection is not None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin to select."""
        self._mark(None)
        if event.button == 1:
            self._anchor = (event.y, event.x)
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Show what is selected so far."""
        here = (event.y, max(0, event.x))
        if self._anchor is None or (self._selection is None and here == self._anchor):
            return
        self._mark(Selection(self._anchor, here))

    def on_mouse_up(self, _event: events.MouseUp) -> None:
        """Hand on what is selected."""
        self._anchor = None
        self.release_mouse()
        if self._selection is not None:
            self.post_message(Selected(self._selection.text(self._strips)))
            self.set_timer(_MARKED, lambda: self._mark(None))

    async def on_click(self, event: events.Click) -> None:
        """Let the end of a selection be no click."""
        if self._selection is not None:
            event.stop()

    def _mark(self, selection: Selection | None) -> None:
        if selection != self._selection:
            self._selection = selection
            self.refresh()

    def restyle(self, theme: Theme, glyphs: Glyphs) -> None:
        """Draw in other colours and characters from now on."""
        self.palette, self._ascii = theme, glyphs.name == "ascii"
        self._drawn_at = Size(0, 0)
        self.refresh()

    def notify_style_update(self) -> None:
        """Draw afresh in the new colours."""
        super().notify_style_update()
        self._drawn_at = Size(0, 0)


def _as_ascii(text: str) -> str:
    """Return text that any terminal can show, as wide as before."""
    return "".join(char if char.isascii() else "?" * cell_len(char) for char in text.translate(_PLAIN))


def changed_columns(old: Line, new: Line, width: int) -> tuple[int, int]:
    """Return the columns between the first and the last span that differ."""
    start = 0
    for before, now in zip(old, new, strict=False):
        if before != now:
            break
        start += Segment(now[0]).cell_length
    end = width
    for before, now in zip(reversed(old), reversed(new), strict=False):
        if before != now or end <= start:
            break
        end -= Segment(now[0]).cell_length
    return start, max(start + 1, end)
