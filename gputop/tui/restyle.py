"""Settings that are applied while the screen runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.config import Settings
from gputop.tui import glyphs, theme
from gputop.tui.canvas import Canvas

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

#: The settings that `apply` applies; the others hold from the next start on.
AT_ONCE = frozenset({"hz", "window", "theme", "glyphs"})


def apply(app: GputopApp, settings: Settings) -> None:
    """Use these settings from now on, as far as they can be changed."""
    before, app.settings = app.settings, settings
    if settings.hz != before.hz:
        app.tick_at(settings.hz)
    if settings.window != before.window:
        app.scene.view.seconds = settings.window
        app.ask(anew=True)
    if (settings.theme, settings.glyphs) != (before.theme, before.glyphs):
        _restyle(app, settings)


def _restyle(app: GputopApp, settings: Settings) -> None:
    scene = app.scene
    app.colours = theme.theme(settings.theme, colour=scene.coloured)
    app.glyphs = scene.glyphs = glyphs.choose(settings.glyphs, app.encoding)
    app.ansi_color = app.colours.name in ("plain", "ansi")
    app.theme = app.colours.textual
    for screen in app.screen_stack:
        for canvas in screen.query(Canvas):
            canvas.restyle(app.colours, app.glyphs)
