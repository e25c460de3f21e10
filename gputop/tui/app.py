"""The app: asks the source, shows the screens, ends when it is told to."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from signal import SIGHUP, Signals
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.message import Message as Event
from textual.screen import Screen
from textual.timer import Timer

from gputop.analysis.results import Summary
from gputop.config import Settings
from gputop.errors import GputopError
from gputop.model import Window
from gputop.tui import glyphs, terminal, theme
from gputop.tui.actions import ACTIONS, APP
from gputop.tui.background import Feed, Question
from gputop.tui.canvas import Selected
from gputop.tui.panels import timeline
from gputop.tui.screens.overview import Overview
from gputop.tui.snapshots import FIRST_LOOK_S, LOOK_EVERY_S, Snapshots
from gputop.tui.source import Attach, Find, Outcome, Source
from gputop.tui.sparing import Sparing
from gputop.tui.table import Table
from gputop.tui.view import Message, Scene, View

#: A summary that takes longer than this is said to be late, seconds.
_LATE = 2.0
#: Rows of the output that are kept at hand.
_OUTPUT_ROWS = 100


class Fresh(Event):
    """An answer of the source."""

    def __init__(self, question: Question, answer: Summary | Exception) -> None:
        super().__init__()
        self.question, self.answer = question, answer

    def can_replace(self, message: Event) -> bool:
        """Let only the newest answer wait."""
        return isinstance(message, Fresh)


class GputopApp(App[Outcome]):
    """The screen over one source, or over a list of processes to choose it from."""

    TITLE = "gputop"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(action.keys), action.method, action.name, show=False, priority="ctrl+c" in action.keys)
        for action in ACTIONS
        if action.method.startswith(APP)
    ]

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
        self.encoding = encoding
        self._find, self._opener = find, attach
        self._scene: Scene | None = self._scene_of(source) if source is not None else None
        self._timer: Timer | None = None
        self._feed: Feed[Summary] | None = None
        self._wanted: Question | None = None
        self._answered = 0.0
        self._sparing = Sparing(settings.own_budget, time.monotonic())
        self.snapshots = Snapshots(self)
        self._until_exit = ExitStack()
        self._hangup: terminal.HangupWatch | None = None

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

    def on_mount(self) -> None:
        """Start to ask and to watch the terminal."""
        for themed in theme.textual_themes():
            self.register_theme(themed)
        self.theme = self.colours.textual
        if not self.is_headless:
            self._watch_terminal()
        if self._scene is not None:
            self._start_feed(self._scene.source)
        else:
            self._open_picker()
        self.tick_at(self.settings.hz)

    def tick_at(self, hz: float) -> None:
        """Update the screen so often from now on, as far as gputop may."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_interval(1 / self._sparing.rate(hz), self._tick)

    def _open_picker(self) -> None:
        from gputop.tui.screens.picker import Picker

        assert self._opener is not None, "without a source the app needs a way to attach"
        self.push_screen(Picker(self, self._find, self._opener))

    def on_ready(self) -> None:
        """Take what start-up has made out of the garbage collector's sight: it costs a sixth of all drawing."""
        if not self.is_headless:
            gc.collect()
            gc.freeze()
            gc.set_threshold(50_000, 20, 20)

    def on_unmount(self) -> None:
        """End what was started."""
        self.snapshots.close()
        if self._feed is not None:
            self._feed.stop()
        self._until_exit.close()

    def _watch_terminal(self) -> None:
        assert sys.__stdin__ is not None
        self._hangup = terminal.HangupWatch(sys.__stdin__.fileno(), lambda: self.later(self.exit, Outcome.LOST))
        self._until_exit.enter_context(terminal.signals(self._signalled))

    def _signalled(self, signum: Signals) -> None:
        source = self._scene.source if self._scene is not None else None
        launched = source is not None and source.launched and source.exited is None
        if signum in terminal.PASSED_ON:
            if launched and source is not None:
                source.forward(signum)
            return
        self.exit(Outcome.TERMINATE if launched and signum != SIGHUP else Outcome.LOST)

    def end_watch(self) -> None:
        """End the watch over the terminal; not before Textual has ended, which may block on a terminal that is gone."""
        if self._hangup is not None:
            self._hangup.stop()

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

    def _start_feed(self, source: Source) -> None:
        def answer(asked: Question) -> Summary:
            summary = source.summary(asked.window, asked.columns, asked.thread, alone=asked.alone, native=asked.native)
            now = source.live and source.exited is None and asked.of_now
            return source.about_now(summary) if now else summary

        self._feed = Feed(answer, self._deliver)
        self._answered = time.monotonic()
        self.ask()
        self.set_timer(FIRST_LOOK_S, self.snapshots.look)
        self.set_interval(LOOK_EVERY_S, self.snapshots.look)

    def _deliver(self, question: Question, answer: Summary | Exception) -> None:
        with suppress(RuntimeError):  # the app has ended
            self.post_message(Fresh(question, answer))

    def ask(self, *, anew: bool = False) -> None:
        """Ask the source for the picture to show; the answer comes as `Fresh`.

        A frozen picture stays as it is unless the user wants another one (`anew`: moved in time, chose a thread).
        """
        frozen = self.scene.view.paused is not None and self.scene.summary is not None
        question = None if frozen and not anew else self.question(timeline.columns(self.size.width))
        if self._feed is None or question is None:
            return
        if self._feed.ask(question):
            self._wanted = question
        else:
            self._answered = time.monotonic()

    def question(self, steps: int) -> Question | None:
        """Return what to ask for a picture with an axis of `steps` steps; None before the first sample."""
        view, source = self.scene.view, self.scene.source
        span = source.span()
        if span is None:
            return None
        growing = source.live and source.exited is None
        window, columns = view.window(span, steps, growing=growing)
        return Question(window, columns, view.thread, span.end, view.alone, view.native)

    def _tick(self) -> None:
        if self._scene is None:
            return
        scene = self._scene
        scene.now = time.monotonic()
        behind = scene.now - self._answered
        scene.late = behind if scene.view.paused is None and behind > _LATE else 0.0
        self.ask()
        over = scene.message is not None and scene.said is None
        if over:
            scene.message = None
        if over or behind > 1.5 / self._sparing.rate(self.settings.hz) or scene.view.paused is not None:
            self.draw()

    def on_fresh(self, event: Fresh) -> None:
        """Show an answer, unless the picture was frozen after it was asked for."""
        scene = self.scene
        self._answered = time.monotonic()
        if isinstance(event.answer, Exception):
            self.say(f"this moment cannot be summed up: {event.answer!r}", "bad")
            return
        if scene.view.paused is not None and scene.summary is not None and event.question != self._wanted:
            return
        if scene.source.output is not None:
            scene.output = scene.source.output_lines(_OUTPUT_ROWS)
        scene.summary, scene.now = event.answer, self._answered
        if scene.source.live and self._sparing.take(event.answer.cost, self._answered):
            scene.sparing = self._sparing.on
            self.tick_at(self.settings.hz)
        self.changed()

    def on_selected(self, event: Selected) -> None:
        """Copy what was selected with the mouse."""
        if event.text.strip():
            self.copy_to_clipboard(event.text)
            if self._scene is not None:
                rows = event.text.count("\n") + 1
                self.say(f"copied, where the terminal allows it: {f'{rows} lines' if rows > 1 else event.text}", "good")

    def freeze(self, frozen: bool) -> None:
        """Freeze the picture as it is shown, or let it follow the time again."""
        view, summary = self.scene.view, self.scene.summary
        view.paused = (summary.window.end if summary else time.monotonic()) if frozen else None
        if not frozen:
            view.range = None
        self._wanted = None
        self.ask()
        self.changed()

    def look_at_range(self, marked: Window) -> None:
        """Freeze the picture on a range of time."""
        self.scene.view.range, self.scene.view.paused = marked, marked.end
        self.ask(anew=True)
        self.draw()

    def draw(self) -> None:
        """Bring the screen in front up to date; what is behind a dialog waits."""
        stack = self.screen_stack  # empty once the app ends; answers may come still
        draw = getattr(stack[-1], "draw", None) if stack else None
        if draw is not None and self._scene is not None:
            draw()

    def say(self, text: str, tone: str = "text", seconds: float = 5.0) -> None:
        """Show a message for a while."""
        self.scene.message = Message(text, tone, time.monotonic() + seconds)
        self.draw()

    def changed(self) -> None:
        """Show a changed choice, or a new summary."""
        self.scene.table.update(self.scene.summary, self.scene.view)
        self.draw()

    # -------------------------------------------------------------------------------------------- actions

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield the actions for the command palette."""
        for action in ACTIONS:
            if action.palette and (getattr(screen, "NAME", "") in action.screens or action.method.startswith(APP)):
                yield SystemCommand(action.name, f"{action.help} ({action.shown})", self._runner(action.method, screen))

    def _runner(self, method: str, screen: Screen[object]) -> Callable[[], object]:
        async def run() -> None:
            await self.run_action(method, screen)

        return run

    async def action_quit(self) -> None:
        """Quit; ask first when a launched command still runs."""
        source = self._scene.source if self._scene is not None else None
        if source is None or not source.launched or source.exited is not None:
            self.exit(Outcome.QUIT)
            return
        from gputop.tui.screens.dialog import Dialog, quit_dialog

        if not isinstance(self.screen, Dialog):  # asked once is enough, however often Ctrl-C is pressed
            self.push_screen(quit_dialog(self), self._decided)

    def _decided(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self.exit(outcome)

    def action_help(self) -> None:
        """Open the help."""
        from gputop.tui.screens.page import Page
        from gputop.tui.screens.texts import help_text

        if self._scene is not None and not isinstance(self.screen, Page):
            self.push_screen(Page(self, "help", help_text))


# -------------------------------------------------------------------------------------------- for the caller


def show(source: Source, settings: Settings) -> Outcome:
    """Show the screen over a source until the user leaves it.

    Raises:
        GputopError: the screen failed.
    """
    return _run(GputopApp(settings, source, encoding=_encoding(), colour=_colour()))


def pick(attach: Attach, settings: Settings) -> Outcome:
    """Show the list of processes, then the screen over the one that `attach` opens.

    Raises:
        GputopError: the screen failed.
    """
    from gputop.target.find import Finder

    find = Finder(os.getpid()).find
    return _run(GputopApp(settings, find=find, attach=attach, encoding=_encoding(), colour=_colour()))


def _run(app: GputopApp) -> Outcome:
    try:
        outcome = app.run(mouse=app.settings.mouse)
    finally:
        app.end_watch()
    if outcome is None:  # Textual has printed the traceback
        raise GputopError("the screen ended by a fault of its own", "gputop report works without it")
    return outcome


def _encoding() -> str | None:
    """Return the encoding of the stream that Textual draws on."""
    return sys.__stderr__.encoding if sys.__stderr__ is not None else None


def _colour() -> bool:
    return not os.environ.get("NO_COLOR")
