"""The screens that can be opened from any other: name to class, imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gputop.tui.screens.base import GputopScreen

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

#: Name, as actions give it, to module and class.
DOORS = {
    "threads": ("gputop.tui.screens.threads", "Threads"),
    "compare": ("gputop.tui.screens.compare", "Compare"),
    "source": ("gputop.tui.screens.source", "SourceScreen"),
    "flame": ("gputop.tui.screens.flame", "Flame"),
    "gpus": ("gputop.tui.screens.gpus", "Gpus"),
    "processes": ("gputop.tui.screens.processes", "Processes"),
    "output": ("gputop.tui.screens.output", "Output"),
    "trace": ("gputop.tui.screens.trace", "Trace"),
    "settings": ("gputop.tui.screens.settings", "SettingsScreen"),
}


def opened(name: str, app: GputopApp) -> GputopScreen[None]:
    """Make a screen."""
    module, class_name = DOORS[name]
    screen: GputopScreen[None] = getattr(import_module(module), class_name)(app)
    return screen
