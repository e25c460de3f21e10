"""What the program prints: the newest lines, followed or scrolled, with search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from rich.cells import chop_cells
from textual import events
from textual.binding import BindingType

from gputop.tui.actions import OUTPUT
from gputop.tui.cells import Line, Span, fit_end, line, many, wrap
from gputop.tui.keys import bindings
from gputop.tui.panels.base import padded, rule
from gputop.tui.screens.sheet import Sheet

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

#: More lines than any source keeps.
_ALL = 1_000_000


class Output(Sheet[None]):
    """Follows the output until the reader scrolls; then the text stands still, until `End`."""

    NAME = OUTPUT
    BINDINGS: ClassVar[list[BindingType]] = bindings(OUTPUT)

    def __init__(self, app: GputopApp) -> None:
        super().__init__(app)
        self._lines: list[str] = []
        self._top, self._page = 0, 1
        self._follows = True
        self._search = ""
        self._match: int | None = None

    # ------------------------------------------------------------------------------------------- drawing

    def painted(self, width: int, height: int) -> list[Line]:
        """Return as many lines as fit, long ones over several rows."""
        scene = self._gputop.scene
        self._page = max(1, height - 1)
        if self._follows:
            self._lines = scene.source.output_lines(_ALL)
            self._top = self._last_top(width)
        self._top = max(0, min(self._top, len(self._lines) - 1))
        lines = [self._title(width)]
        if not self._lines:
            return lines + [line(((f"  {words}", "dim"),), width) for words in wrap(self._nothing(), width - 3)]
        for place in range(self._top, len(self._lines)):
            if len(lines) > self._page:
                break
            lines += self._shown(place, width)
        return padded(lines, width, height)

    def _title(self, width: int) -> Line:
        source, glyphs = self._gputop.scene.source, self._gputop.glyphs
        title: list[Span] = [("output", "strong!b"), (f" {glyphs.dot} {many(len(self._lines), 'line')}", "title")]
        if self._search:
            count = sum(1 for _ in self._matches())
            title += [(f" {glyphs.dot} {count} with ", "title"), (self._search, "warn!b")]
        if not self._follows:
            title.append((f" {glyphs.dot} {glyphs.pause} stands still, End follows", "warn"))
        path = str(source.output or "")
        return rule(self._gputop.scene, title, width, [(fit_end(path, min(len(path), width // 3)), "title")])

    def _nothing(self) -> str:
        source = self._gputop.scene.source
        if source.output is not None:
            return "nothing printed yet"
        if not source.live:
            return "a recording does not hold what the program printed"
        return "gputop did not start this program: it prints where it printed before (gputop -- COMMAND shows it here)"

    def _shown(self, place: int, width: int) -> list[Line]:
        found = bool(self._search) and self._holds(place)
        back = "/select" if place == self._match else ""
        spans = ((f"{'strong' if found else 'text'}{back}", part) for part in _rows(self._lines[place], width - 2))
        return [line(((f" {part}", style),), width, fill=(" ", f"text{back}")) for style, part in spans]

    def _last_top(self, width: int) -> int:
        """Return the first line of the last page."""
        room = self._page
        for place in range(len(self._lines) - 1, -1, -1):
            room -= len(_rows(self._lines[place], width - 2))
            if room < 0:
                return min(place + 1, len(self._lines) - 1)
        return 0

    # ------------------------------------------------------------------------------------------- actions

    def action_move(self, step: int) -> None:
        """Scroll by lines, which stops following; past the last page, following goes on."""
        last = self._last_top(self.size.width)
        self._top = max(0, min(last, self._top + step))
        self._follows = step > 0 and self._top == last
        self.draw()

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        self.action_move(pages * self._page)

    def action_end(self) -> None:
        """Follow what is printed."""
        self._follows, self._match = True, None
        self.draw()

    def action_search(self) -> None:
        """Open the line in which the text to look for is typed."""
        self.ask_line("search", self._search, "text in the output")

    def typed(self, what: str, text: str) -> None:
        """Go to the last line that holds the text, as the user types."""
        self._search, self._match = text.lower(), None
        if text:
            self.action_next(-1)
        self.draw()

    def action_next(self, step: int) -> None:
        """Go to the next line that holds the text, or to the one before; round at the ends."""
        found = list(self._matches())
        if not found:
            if self._search:
                self._gputop.say(f"no line holds “{self._search}”", "warn")
            return
        at = len(self._lines) if self._match is None else self._match
        if step > 0:
            self._match = next((place for place in found if place > at), found[0])
        else:
            self._match = next((place for place in reversed(found) if place < at), found[-1])
        self._follows = False
        if not self._top <= self._match < self._top + self._page // 2:
            self._top = min(self._last_top(self.size.width), max(0, self._match - self._page // 3))
        self.draw()

    def _matches(self) -> Iterator[int]:
        return (place for place in range(len(self._lines)) if self._search and self._holds(place))

    def _holds(self, place: int) -> bool:
        return self._search in self._lines[place].lower()

    def copied(self) -> str:
        """Return the line found last, else the newest one."""
        return self._lines[-1 if self._match is None else self._match] if self._lines else ""

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Scroll down."""
        self.action_move(3)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Scroll up."""
        self.action_move(-3)


def _rows(text: str, width: int) -> list[str]:
    """Break a line of output into rows of at most `width` cells."""
    return chop_cells(text, max(2, width)) or [""]
