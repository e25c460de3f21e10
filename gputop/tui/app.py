"""The app: asks the source, draws the screens, does what the user wants."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from signal import SIGHUP, Signals
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.message import Message as Event
from textual.screen import Screen
from textual.theme import Theme as TextualTheme

from gputop.analysis.results import Summary
from gputop.config import Settings
from gputop.errors import GputopError
from gputop.tui import glyphs, terminal, theme
from gputop.tui.actions import ACTIONS
from gputop.tui.background import Feed, Question, spawn
from gputop.tui.panels import timeline
from gputop.tui.screens.overview import Overview
from gputop.tui.source import Attach, Find, Outcome, Source, Thread
from gputop.tui.table import Table
from gputop.tui.view import Message, Scene, View

#: Messages stay so long, seconds; a path is worth copying.
_BRIEF, _LONG = 5.0, 30.0
#: A summary that takes longer than this is said to be late, seconds.
_LATE = 2.0
_SLOWEST, _FASTEST = 1 / 16, 8.0
#: A snapshot reaches so far back, seconds.
_SNAPSHOT_SECONDS = 5.0
#: Rows of the output that are kept at hand.
_OUTPUT_ROWS = 100
#: Actions that make sense before a process is chosen.
_WITHOUT_SOURCE = frozenset({"quit"})


class Fresh(Event):
    """An answer of the source."""

    def __init__(self, answer: Summary | Exception) -> None:
        super().__init__()
        self.answer = answer

    def can_replace(self, message: Event) -> bool:
        """Let only the newest answer wait."""
        return isinstance(message, Fresh)


class GputopApp(App[Outcome]):
    """The screen over one source, or over a list of processes to choose it from."""

    TITLE = "gputop"
    CSS = "Overview Input, Overview Input:focus { border: none; height: 1; padding: 0 1; background: $surface; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(action.keys), action.method, action.name, show=False, priority="ctrl+c" in action.keys)
        for action in ACTIONS
    ]
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        settings: Settings,
        source: Source | None = None,
        *,
        find: Find = tuple,
        attach: Attach | None = None,
        encoding: str | None = "utf-8",
        colour: bool = True,
    ) -> None:
        """Make an app over `source`, or, without one, over what `find` lists and `attach` opens."""
        self.colours = theme.theme(settings.theme, colour=colour)
        self.glyphs = glyphs.choose(settings.glyphs, encoding)
        super().__init__(ansi_color=self.colours.name in ("plain", "ansi"))
        self.settings = settings
        self._find, self._opener = find, attach
        self._scene: Scene | None = self._scene_of(source) if source is not None else None
        self._feed: Feed | None = None
        self._answered = 0.0
        self._until_exit = ExitStack()

    # ---------------------------------------------------------------------------------------------- life

    @property
    def scene(self) -> Scene:
        """Return what the panels draw."""
        assert self._scene is not None, "no process has been chosen yet"
        return self._scene

    def _scene_of(self, source: Source) -> Scene:
        view = View(seconds=self.settings.window)
        scene = Scene(source, Table(), view, glyphs=self.glyphs, coloured=self.colours.coloured)
        scene.now = time.monotonic()
        return scene

    def get_default_screen(self) -> Screen[None]:
        """Return the first screen: the overview, or an empty one that the picker comes over."""
        return Screen() if self._scene is None else Overview(self)

    def _open_picker(self) -> None:
        from gputop.tui.screens.picker import Picker

        assert self._opener is not None, "without a source the app needs a way to attach"
        self.push_screen(Picker(self, self._find, self._opener))

    def on_mount(self) -> None:
        """Start to ask and to watch the terminal."""
        self._set_theme()
        if not self.is_headless:
            self._watch_terminal()
        if self._scene is not None:
            self._start_feed(self._scene.source)
        else:
            self._open_picker()
        self.set_interval(1 / self.settings.hz, self._tick)

    def on_ready(self) -> None:
        """Take what start-up has made out of the garbage collector's sight: it costs a sixth of all drawing."""
        if not self.is_headless:
            gc.collect()
            gc.freeze()
            gc.set_threshold(50_000, 20, 20)

    def on_unmount(self) -> None:
        """End what was started."""
        if self._feed is not None:
            self._feed.stop()
        self._until_exit.close()

    def _set_theme(self) -> None:
        for name in ("dark", "light"):
            self.register_theme(_textual_theme(name))
        self.theme = self.colours.textual

    def _watch_terminal(self) -> None:
        assert sys.__stdin__ is not None
        watch = terminal.HangupWatch(sys.__stdin__.fileno(), lambda: self.later(self.exit, Outcome.LOST))
        self._until_exit.callback(watch.stop)
        self._until_exit.enter_context(terminal.signals(self._signalled))

    def _signalled(self, signum: Signals) -> None:
        source = self._scene.source if self._scene is not None else None
        launched = source is not None and source.launched and source.exited is None
        if signum in terminal.PASSED_ON:
            if launched and source is not None:
                source.forward(signum)
            return
        self.exit(Outcome.TERMINATE if launched and signum != SIGHUP else Outcome.LOST)

    def later(self, call: Callable[..., object], *args: object) -> None:
        """Call something in the user interface's thread soon; from any thread, also when the app has ended."""
        with suppress(RuntimeError):  # its event loop is closed
            self.call_later(call, *args)

    # -------------------------------------------------------------------------------------------- feeding

    def show_source(self, source: Source) -> None:
        """Look at this from now on."""
        self._scene = self._scene_of(source)
        self._start_feed(source)
        self.switch_screen(Overview(self))

    def look_at(self, thread: Thread | None) -> None:
        """Make one thread the headline; None leaves the choice to analysis."""
        self.scene.view.thread = thread
        self.ask()
        self.draw()

    def _start_feed(self, source: Source) -> None:
        self._feed = Feed(source, self._deliver)
        self._answered = time.monotonic()
        self.ask()

    def _deliver(self, _question: Question, answer: Summary | Exception) -> None:
        with suppress(RuntimeError):  # the app has ended
            self.post_message(Fresh(answer))

    def ask(self) -> None:
        """Ask the source for the picture of now; the answer comes as `Fresh`."""
        if self._feed is None or (self.scene.view.paused is not None and self.scene.summary is not None):
            return
        view = self.scene.view
        source = self.scene.source
        span = source.span()
        if span is None:
            return
        growing = source.live and source.exited is None
        window, columns = view.window(span, timeline.columns(self.size.width), growing=growing)
        if not self._feed.ask(Question(window, columns, view.thread, span.end)):
            self._answered = time.monotonic()

    def _tick(self) -> None:
        if self._scene is None:
            return
        scene = self._scene
        scene.now = time.monotonic()
        behind = scene.now - self._answered
        scene.late = behind if scene.view.paused is None and behind > _LATE else 0.0
        self.ask()
        if behind > 1.5 / self.settings.hz or scene.view.paused is not None:
            self.draw()

    def _read_output(self) -> None:
        if self.scene.source.output is not None:
            self.scene.output = self.scene.source.output_lines(_OUTPUT_ROWS)

    def on_fresh(self, event: Fresh) -> None:
        """Show an answer."""
        self._answered = time.monotonic()
        if isinstance(event.answer, Exception):
            self.say(f"this moment cannot be summed up: {event.answer!r}", "bad")
            return
        if self.scene.view.paused is not None and self.scene.summary is not None:
            return
        self._read_output()
        self.scene.summary = event.answer
        self.scene.now = self._answered
        self.scene.table.update(event.answer, self.scene.view)
        self.draw()

    def draw(self) -> None:
        """Bring the screen in front up to date; what is behind a dialog waits."""
        draw = getattr(self.screen, "draw", None)
        if draw is not None and self._scene is not None:
            draw()

    def say(self, text: str, tone: str = "text", seconds: float = _BRIEF) -> None:
        """Show a message for a while."""
        self.scene.message = Message(text, tone, time.monotonic() + seconds)
        self.draw()

    def changed(self) -> None:
        """Show a changed choice at once."""
        self.scene.table.update(self.scene.summary, self.scene.view)
        self.draw()

    # -------------------------------------------------------------------------------------------- actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow an action of ours only where there is something to act on."""
        ours = any(item.method.partition("(")[0] == action for item in ACTIONS)
        return not ours or self._scene is not None or action in _WITHOUT_SOURCE

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield the actions for the command palette."""
        for action in ACTIONS:
            if action.palette:
                yield SystemCommand(action.name, f"{action.help} ({action.shown})", self._runner(action.method))

    def _runner(self, method: str) -> Callable[[], object]:
        async def run() -> None:
            await self.run_action(method)

        return run

    async def action_quit(self) -> None:
        """Quit; ask first when a launched command still runs."""
        source = self._scene.source if self._scene is not None else None
        if source is None or not source.launched or source.exited is not None:
            self.exit(Outcome.QUIT)
            return
        from gputop.tui.screens.quit import QuitDialog

        self.push_screen(QuitDialog(self), self._decided)

    def _decided(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self.exit(outcome)

    def action_help(self) -> None:
        """Open the help."""
        from gputop.tui.screens.texts import help_text

        self._open_page("help", help_text)

    def action_advice(self) -> None:
        """Open the advice."""
        from gputop.tui.screens.texts import advice_text

        self._open_page("why, and what helps", advice_text)

    def _open_page(self, title: str, text: Callable[[Scene, int], list[tuple[tuple[str, str], ...]]]) -> None:
        from gputop.tui.screens.page import Page

        if isinstance(self.screen, Overview):
            self.push_screen(Page(self, title, text))

    def action_threads(self) -> None:
        """Open the list of threads."""
        from gputop.tui.screens.threads import Threads

        if isinstance(self.screen, Overview):
            self.push_screen(Threads(self))

    def action_pause(self) -> None:
        """Freeze the picture, or let it go on."""
        view = self.scene.view
        view.paused = time.monotonic() if view.paused is None else None
        self.ask()
        self.changed()

    def action_lines(self) -> None:
        """Switch the table between functions and lines."""
        view = self.scene.view
        view.by_line, view.selected, view.top = not view.by_line, None, 0
        self.changed()

    def action_sort(self, column: str) -> None:
        """Sort the table by a column."""
        self.scene.view.sort, self.scene.view.top = column, 0
        self.changed()

    def action_reset(self) -> None:
        """Sum up only what happens from now on; a second time, the whole window again."""
        view = self.scene.view
        fresh = view.reset_at == 0.0
        view.reset_at = time.monotonic() if fresh else 0.0
        self.say("summing up from now on; r for the whole window again" if fresh else "the whole window again")
        self.ask()

    def action_rate(self, factor: float) -> None:
        """Change the sampling rates."""
        view = self.scene.view
        view.rate = min(_FASTEST, max(_SLOWEST, view.rate * factor))
        self.scene.source.set_rate(view.rate)
        self.say(f"sampling at {view.rate:g} {self.glyphs.times} the configured rates, within the budget")

    def action_move(self, step: int) -> None:
        """Move the cursor in the table."""
        self.scene.table.move(self.scene.view, step)
        self.draw()

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.action_move(pages * self.scene.table.page)

    def action_scroll(self, rows: int) -> None:
        """Scroll the table."""
        self.scene.table.scroll(self.scene.view, rows)
        self.draw()

    def action_pick(self, place: int) -> None:
        """Select a row of the table."""
        self.scene.table.select(self.scene.view, place)
        self.draw()

    async def action_back(self) -> None:
        """Undo the last choice: filter, then cursor, then thread."""
        view = self.scene.view
        if view.filter:
            view.filter = ""
        elif view.selected is not None:
            view.selected = None
        elif view.thread is not None:
            self.look_at(None)
        self.changed()

    def action_filter(self) -> None:
        """Ask for a text that rows must hold."""
        if isinstance(self.screen, Overview):
            self.screen.ask_filter()

    # ------------------------------------------------------------------------------------------- snapshot

    def action_snapshot(self) -> None:
        """Save a trace, in the background."""
        if self.scene.busy:
            self.say("a snapshot is being written already", "warn")
            return
        self.scene.busy = "snapshot…" if self.glyphs.fine else "snapshot..."
        self.draw()
        spawn("snapshot", self._snapshot_in_background)

    def _snapshot_in_background(self) -> None:
        try:
            path = self.scene.source.snapshot(None, _SNAPSHOT_SECONDS, lambda text: self.later(self._progress, text))
        except (GputopError, OSError) as error:
            self.later(self._snapshot_failed, error)
        else:
            self.later(self._snapshot_done, path)

    def _progress(self, text: str) -> None:
        self.scene.busy = f"snapshot: {text}"
        self.draw()

    def _snapshot_done(self, path: Path) -> None:
        self.scene.busy = ""
        self.say(f"saved {_homely(path)}  open it at ui.perfetto.dev", "good", _LONG)

    def _snapshot_failed(self, error: GputopError | OSError) -> None:
        self.scene.busy = ""
        remedy = f"; {error.remedy}" if isinstance(error, GputopError) and error.remedy else ""
        self.say(f"no snapshot: {error}{remedy}", "bad", _LONG)


def _homely(path: Path) -> str:
    home = str(Path.home())
    text = str(path)
    return "~" + text[len(home) :] if text.startswith(home + os.sep) else text


def _textual_theme(name: str) -> TextualTheme:
    colours = theme.theme(name).palette
    return TextualTheme(
        name=f"gputop-{name}",
        primary=colours["accent"],
        warning=colours["warn"],
        error=colours["bad"],
        success=colours["good"],
        accent=colours["accent"],
        foreground=colours["text"],
        background=colours["base"],
        surface=colours["bar"],
        panel=colours["select"],
        dark=name == "dark",
    )


# -------------------------------------------------------------------------------------------- for the caller


def show(source: Source, settings: Settings) -> Outcome:
    """Show the screen over a source until the user leaves it."""
    return _run(GputopApp(settings, source, encoding=_encoding(), colour=_colour()), settings)


def pick(attach: Attach, settings: Settings) -> Outcome:
    """Show the list of processes, then the screen over the one that `attach` opens."""
    from gputop.target.find import Finder

    app = GputopApp(settings, find=Finder().find, attach=attach, encoding=_encoding(), colour=_colour())
    return _run(app, settings)


def _run(app: GputopApp, settings: Settings) -> Outcome:
    outcome = app.run(mouse=settings.mouse)
    return outcome if outcome is not None else Outcome.LOST


def _encoding() -> str | None:
    """Return the encoding of the stream that Textual draws on."""
    return sys.__stderr__.encoding if sys.__stderr__ is not None else None


def _colour() -> bool:
    return not os.environ.get("NO_COLOR")
