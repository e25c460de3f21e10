"""What the screens share: time travel, and a line to type in."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events
from textual.css.query import NoMatches
from textual.screen import Screen

from gputop.model import Window
from gputop.tui.panels.marks import NAMES
from gputop.tui.view import View

if TYPE_CHECKING:
    from textual.widgets import Input

    from gputop.tui.app import GputopApp

Result = TypeVar("Result")

#: One step in time, as a share of the window.
_STEP = 1 / 12
#: Cells of the last row that are not for typing: what it is for, and the keys that end it.
_AROUND = 32
#: A marked range is at least this long, seconds: shorter ones hold too few samples to say anything.
_LEAST_RANGE = 0.5


class GputopScreen(Screen[Result]):
    """A screen over the scene.

    Attributes:
        NAME: what `gputop.tui.actions` calls it.
    """

    NAME: ClassVar[str] = ""
    # The line to type in lies over the last row, between the words that `gputop.tui.hints.prompt` draws there.
    DEFAULT_CSS = """
    GputopScreen { layers: default above; overflow: hidden; }
    GputopScreen Input, GputopScreen Input:focus {
        layer: above; dock: bottom; height: 1; margin: 0 0 0 9; padding: 0 1; border: none;
        background: $surface;
    }
    """

    def __init__(self, app: GputopApp) -> None:
        super().__init__()
        self._gputop = app

    @property
    def view(self) -> View:
        """Return the user's choices."""
        return self._gputop.scene.view

    def draw(self) -> None:
        """Show the newest."""

    def action_go(self, name: str) -> None:
        """Open another screen; it takes this one's place, unless this is the first one."""
        from gputop.tui.screens.doors import opened

        screen = opened(name, self._gputop)
        if len(self.app.screen_stack) > 1:
            self.app.switch_screen(screen)
        else:
            self.app.push_screen(screen)

    def copied(self) -> str:
        """Return what the copy key copies here."""
        from gputop.tui.copied import verdict

        return verdict(self._gputop.scene.summary)

    def action_copy(self) -> None:
        """Put what is chosen on the terminal's clipboard."""
        text = self.copied()
        if text:
            self.app.copy_to_clipboard(text)
            self._gputop.say(f"copied, where the terminal allows it: {text}", "good")

    # ------------------------------------------------------------------------------------ a line to type in

    def ask_line(self, what: str, text: str, placeholder: str) -> None:
        """Open a line in which the user types; `typed` gets the text with each key. Enter keeps it, Esc clears it."""
        from textual.widgets import Input

        if not self.query(Input):
            line = Input(text, placeholder=placeholder, compact=True)
            line.styles.width = self._room()
            self.mount(line)
            line.focus()
            self._gputop.scene.prompt = what
            self.draw()

    def _room(self) -> int:
        """Return the width of the line to type in."""
        return max(8, self.size.width - _AROUND)

    def on_resize(self, _event: events.Resize) -> None:
        """Fit the line to the screen."""
        for line in self.query("Input"):
            line.styles.width = self._room()

    def typed(self, what: str, text: str) -> None:
        """Take what has been typed so far."""

    def on_input_changed(self, event: Input.Changed) -> None:
        """Use the text as the user types."""
        self.typed(self._gputop.scene.prompt, event.value.strip())

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the text."""
        await self._close_line(event.input.value)

    async def on_key(self, event: events.Key) -> None:
        """Let Esc close the line, and clear the text."""
        if event.key == "escape" and self._gputop.scene.prompt:
            event.stop()
            event.prevent_default()
            await self._close_line("")

    async def _close_line(self, text: str) -> None:
        what, self._gputop.scene.prompt = self._gputop.scene.prompt, ""
        try:
            await self.query_one("Input").remove()
        except NoMatches:  # Enter and Esc came together
            return
        self.typed(what, text.strip())

    # ------------------------------------------------------------------------------------------------- time

    def action_pause(self) -> None:
        """Freeze the picture, or let it go on."""
        self._gputop.freeze(self.view.paused is None)

    def action_travel(self, steps: int) -> None:
        """Show an earlier or a later window; a marked range moves by its own length."""
        span = self._gputop.scene.source.span()
        if span is None:
            return
        if self.view.paused is None:
            self._gputop.freeze(True)
        if self.view.range is not None:
            self._gputop.look_at_range(_moved(self.view.range, steps, span))
            return
        step = _STEP * min(self.view.seconds, span.seconds)
        self.view.paused = min(span.end, max(span.start + step, (self.view.paused or span.end) + steps * step))
        self._gputop.ask(anew=True)
        self.draw()

    def action_end(self) -> None:
        """Go back to now; when it is now already, to the last row."""
        if self.view.paused is not None:
            self._gputop.freeze(False)
        else:
            self.action_move(1_000_000)

    def action_move(self, step: int) -> None:
        """Move the cursor."""

    def action_mark(self) -> None:
        """Mark the moment at the window's end: as a range's start, then as its end."""
        summary = self._gputop.scene.summary
        at = summary.window.end if summary is not None else time.monotonic()
        if self.view.mark is None:
            self.view.mark = at
            self._gputop.say("start marked; m again at the end of the range", "accent")
            return
        start, self.view.mark = self.view.mark, None
        self.mark_range(Window(min(start, at), max(start, at)))

    def mark_range(self, marked: Window) -> None:
        """Keep a range for comparing, and look at it."""
        if marked.seconds < _LEAST_RANGE:
            self._gputop.say("that range is too short; mark at least half a second", "warn")
            return
        self.view.mark = None
        self.view.ranges = (*self.view.ranges[-1:], marked)
        self._gputop.look_at_range(marked)
        name = NAMES[len(self.view.ranges) - 1]
        words = "c compares A and B" if name == "B" else "c compares it with now; or mark another range"
        self._gputop.say(f"range {name} marked, {marked.seconds:.1f} s; {words}; End: back to now", "accent")

    def action_compare(self) -> None:
        """Compare the two marked ranges, or the one with now."""
        if self.view.ranges:
            self.action_go("compare")
        else:
            self._gputop.say("mark a range first: m at its start and m at its end, or drag over the timeline", "warn")


def _moved(shown: Window, steps: int, span: Window) -> Window:
    """Return a range moved by steps, inside what is known."""
    by = steps * _STEP * shown.seconds
    by = max(span.start - shown.start, min(by, span.end - shown.end))
    return Window(shown.start + by, shown.end + by)
