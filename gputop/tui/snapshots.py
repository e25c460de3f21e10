"""The snapshot key: which trace is possible now, taking one in the background, and what it shows."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

from gputop.errors import GputopError
from gputop.tui.background import spawn

if TYPE_CHECKING:
    from gputop.snapshot.kineto.route import Route
    from gputop.tui.app import GputopApp

#: A path is worth copying: its message stays so long, seconds.
_LONG = 30.0
#: What is possible is looked at so often, seconds: torch may be imported at any time. First when the screen is there.
LOOK_EVERY_S, FIRST_LOOK_S = 10.0, 1.5
#: Sentences of the reading that are shown over the overview; all of them are on the trace screen.
_SHOWN = 6


class Snapshots:
    """Takes one snapshot at a time, on threads of its own."""

    def __init__(self, app: GputopApp) -> None:
        self._app = app
        self._consent: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._looking = threading.Lock()

    # -------------------------------------------------------------------------------------- what is possible

    def look(self) -> None:
        """Find out which trace is possible now, unless that is being done."""
        if self._looking.acquire(blocking=False):
            spawn("route", self._look)

    def _look(self) -> None:
        try:
            route = self._app.scene.source.route()
        finally:
            self._looking.release()
        self._app.later(self._known, route)

    def _known(self, route: Route | None) -> None:
        tracing = self._app.scene.tracing
        if route != tracing.route:
            tracing.route = route
            self._app.draw()

    # -------------------------------------------------------------------------------------------- taking one

    def take(self) -> None:
        """Start to write one, unless one is being written."""
        scene = self._app.scene
        if scene.busy:
            self._app.say(f"one at a time, a trace is being taken already: {scene.busy}", "warn")
            return
        scene.busy = f"snapshot{scene.glyphs.ellipsis}"
        self._app.draw()
        spawn("snapshot", self._write)

    def close(self) -> None:
        """Let a snapshot that waits for consent go on without."""
        self._consent.put(False)

    def _write(self) -> None:
        from gputop.snapshot.kineto.request import Options

        later, source, tracing = self._app.later, self._app.scene.source, self._app.scene.tracing
        options = Options(tracing.seconds, tracing.stacks, tracing.shapes)
        try:
            saved = source.snap(options, lambda text: later(self._progress, text), self._ask)
        except (GputopError, OSError) as error:
            later(self._failed, error)
            return
        files = tuple(file.sentence for file in saved)
        later(self._done, files)
        later(self._read, files, source.reading(saved[0]))

    def _ask(self, question: str) -> bool:
        """Ask the user, from the thread that writes."""
        self._app.later(self._open_dialog, question)
        return self._consent.get()

    def _open_dialog(self, question: str) -> None:
        from gputop.tui.screens.dialog import consent_dialog

        self._app.push_screen(consent_dialog(self._app, question), lambda yes: self._consent.put(bool(yes)))

    def _progress(self, text: str) -> None:
        self._app.scene.busy = f"snapshot: {text}"
        self._app.draw()

    def _done(self, files: tuple[str, ...]) -> None:
        scene = self._app.scene
        scene.busy, scene.tracing.files, scene.tracing.reading = "", files, ()
        self._app.say("\n".join([*files, f"reading it{scene.glyphs.ellipsis}"]), "good", _LONG)

    def _read(self, files: tuple[str, ...], reading: tuple[str, ...]) -> None:
        """Show what these files show, unless others have been written since."""
        tracing = self._app.scene.tracing
        if files != tracing.files:
            return
        tracing.reading = reading
        more = [f"T: all {len(reading)} lines of the reading"] if len(reading) > _SHOWN else []
        self._app.say("\n".join([*files, *reading[:_SHOWN], *more]), "good", _LONG)
        self.look()

    def _failed(self, error: GputopError | OSError) -> None:
        self._app.scene.busy = ""
        remedy = f"; {error.remedy}" if isinstance(error, GputopError) and error.remedy else ""
        self._app.say(f"no snapshot: {error}{remedy}", "bad", _LONG)
