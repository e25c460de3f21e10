"""What the screens with the table of functions share: cursor, order, search and what is left out."""

from __future__ import annotations

import time

from textual import events

from gputop.tui.screens.base import GputopScreen
from gputop.tui.table import Table

#: Thresholds to go through, shares of the window.
_THRESHOLDS = (0.0, 0.005, 0.01, 0.05)


class RowsScreen(GputopScreen[None]):
    """A screen that shows the table."""

    @property
    def table(self) -> Table:
        """Return the rows."""
        return self._gputop.scene.table

    # --------------------------------------------------------------------------------------------- what is shown

    def action_lines(self) -> None:
        """Switch the table between functions and lines."""
        self.view.by_line, self.view.selected, self.view.top = not self.view.by_line, None, 0
        self._gputop.changed()

    def action_sort(self, column: str) -> None:
        """Sort the table by a column."""
        self.view.sort, self.view.top = column, 0
        self._gputop.changed()

    def action_own(self) -> None:
        """Hide library code, or show it again."""
        self.view.own, self.view.top = not self.view.own, 0
        self._gputop.changed()

    def action_threshold(self) -> None:
        """Hide rows below the next threshold."""
        place = _THRESHOLDS.index(self.view.least)
        self.view.least, self.view.top = _THRESHOLDS[(place + 1) % len(_THRESHOLDS)], 0
        self._gputop.changed()

    def action_alone(self) -> None:
        """Sum up the timeline's thread alone, or all threads' work."""
        self.view.alone = not self.view.alone
        self._gputop.say("the timeline's thread alone" if self.view.alone else "the work of all threads")
        self._gputop.ask(anew=True)

    def action_reset(self) -> None:
        """Sum up only what happens from now on; a second time, the whole window again."""
        afresh = self.view.reset_at == 0.0
        self.view.reset_at = time.monotonic() if afresh else 0.0
        self._gputop.say("summing up from now on; r for the whole window again" if afresh else "the whole window again")
        self._gputop.ask()

    # --------------------------------------------------------------------------------------- filter and search

    def action_filter(self) -> None:
        """Open the line in which the filter is typed."""
        self.ask_line("filter", self.view.filter, "function or file")

    def action_search(self) -> None:
        """Open the line in which the text to look for is typed."""
        self.ask_line("search", self.view.search, "function or file")

    def typed(self, what: str, text: str) -> None:
        """Filter, or go to the first row that fits, as the user types."""
        if what == "filter":
            self.view.filter, self.view.top = text, 0
        else:
            self.view.search = text
            self.table.find(self.view, 0)
        self._gputop.changed()

    def action_next(self, step: int) -> None:
        """Go to the next row that holds the text, or to the one before."""
        if not self.view.search:
            self.action_search()
        elif not self.table.find(self.view, step):
            self._gputop.say(f"no row holds “{self.view.search}”", "warn")
        self.draw()

    # ------------------------------------------------------------------------------------------------- cursor

    def action_move(self, step: int) -> None:
        """Move the cursor in the table."""
        self.table.move(self.view, step)
        self.draw()

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_move(pages * self.table.page)

    def action_scroll(self, rows: int) -> None:
        """Scroll the table."""
        self.table.scroll(self.view, rows)
        self.draw()

    def action_pick(self, place: int) -> None:
        """Select a row of the table."""
        self.table.select(self.view, place)
        self.draw()

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Scroll the table."""
        self.action_scroll(3)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Scroll the table."""
        self.action_scroll(-3)

    def copied(self) -> str:
        """Return the chosen row, else the verdict."""
        from gputop.tui.copied import function

        place = self.table.cursor(self.view)
        return super().copied() if place is None else function(self.table.rows[place])

    # --------------------------------------------------------------------------------------------------- back

    def undone(self) -> bool:
        """Undo the last choice: message, search, filter, cursor, thread, then time; return whether there was one."""
        view = self.view
        if self._gputop.scene.said:
            self._gputop.scene.message = None
        elif view.search:
            view.search = ""
        elif view.filter:
            view.filter = ""
        elif view.selected is not None:
            view.selected = None
        elif view.thread is not None:
            view.thread = None
            self._gputop.ask(anew=True)
        elif view.mark is not None:
            view.mark = None
        elif view.paused is not None:
            self._gputop.freeze(False)
        else:
            return False
        return True
