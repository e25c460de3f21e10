"""The snapshot key: write a trace in the background, say how far it is, then where it went."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

from gputop.errors import GputopError
from gputop.tui.background import spawn

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

#: A path is worth copying: its message stays so long, seconds.
_LONG = 30.0


class Snapshots:
    """Takes one snapshot at a time."""

    def __init__(self, app: GputopApp) -> None:
        self._app = app
        self._consent: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def take(self) -> None:
        """Start to write one, unless one is being written."""
        scene = self._app.scene
        if scene.busy:
            self._app.say("a snapshot is being written already", "warn")
            return
        scene.busy = f"snapshot{scene.glyphs.ellipsis}"
        self._app.draw()
        spawn("snapshot", self._write)

    def close(self) -> None:
        """Let a snapshot that waits for consent go on without."""
        self._consent.put(False)

    def _write(self) -> None:
        later = self._app.later
        try:
            sentences = self._app.scene.source.snap(lambda text: later(self._progress, text), self._ask)
        except (GputopError, OSError) as error:
            later(self._failed, error)
        else:
            later(self._done, sentences)

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

    def _done(self, sentences: tuple[str, ...]) -> None:
        self._app.scene.busy = ""
        self._app.say("\n".join(sentences), "good", _LONG)

    def _failed(self, error: GputopError | OSError) -> None:
        self._app.scene.busy = ""
        remedy = f"; {error.remedy}" if isinstance(error, GputopError) and error.remedy else ""
        self._app.say(f"no snapshot: {error}{remedy}", "bad", _LONG)
