"""The settings: changed with the arrow keys, applied at once where that is possible, kept in the file when asked."""

from __future__ import annotations

import os
from dataclasses import Field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.binding import BindingType

from gputop import config
from gputop.config import Settings
from gputop.errors import GputopError
from gputop.tui.actions import SETTINGS
from gputop.tui.cells import Line, Span, fit, line, wrap
from gputop.tui.keys import bindings
from gputop.tui.panels.base import padded, rule
from gputop.tui.restyle import AT_ONCE, apply
from gputop.tui.screens.sheet import Sheet

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

_HEAD, _NAME, _VALUE = 1, 14, 12
_FIELDS = fields(Settings)
#: Below this width what a setting is stands below the list, in a few rows.
_NARROW, _MOST_ABOUT = 90, 3


def values(item: Field[Any]) -> tuple[Any, ...]:
    """Return the values to go through: the choices, yes and no, or round numbers of the range."""
    if "choices" in item.metadata:
        return tuple(item.metadata["choices"])
    if isinstance(item.default, bool):
        return (False, True)
    low, high = item.metadata["range"]
    steps = (factor * 10.0**power for power in range(-1, 4) for factor in (1, 2, 5))
    return tuple(sorted({float(low), float(high), item.default, *(step for step in steps if low <= step <= high)}))


def moved(item: Field[Any], value: Any, step: int) -> Any:
    """Return the next value, or the one before; choices go round, numbers end."""
    known = values(item)
    if value in known and not isinstance(item.default, float):
        return known[(known.index(value) + step) % len(known)]
    if step > 0:
        return next((other for other in known if other > value), known[-1])
    return next((other for other in reversed(known) if other < value), known[0])


class SettingsScreen(Sheet[None]):
    """One row a setting."""

    NAME = SETTINGS
    BINDINGS: ClassVar[list[BindingType]] = bindings(SETTINGS)

    def __init__(self, app: GputopApp) -> None:
        super().__init__(app)
        self._wanted = app.settings
        self._place = self._top = 0
        self._unsaved: dict[str, Any] = {}

    def painted(self, width: int, height: int) -> list[Line]:
        """Return the settings, and where they are kept."""
        scene = self._gputop.scene
        path = str(config.config_path())
        title: list[Span] = [("settings", "strong!b")]
        title += [(f" {scene.glyphs.dot} {len(self._unsaved)} changed, s saves them", "warn")] if self._unsaved else []
        right: list[Span] = [(path, "title")] if len(path) < width // 2 else []
        about = _explained(_FIELDS[self._place], width) if width < _NARROW else []
        page = max(1, height - _HEAD - len(about))
        self._top = max(0, min(max(self._top, self._place - page + 1), self._place, len(_FIELDS) - page))
        shown = list(enumerate(_FIELDS))[self._top : self._top + page]
        rows = [rule(scene, title, width, right), *(self._row(place, item, width) for place, item in shown)]
        return [*padded(rows, width, height - len(about)), *about]

    def _row(self, place: int, item: Field[Any], width: int) -> Line:
        back = "/select" if place == self._place else ""
        mark = "*" if item.name in self._unsaved else " "
        spans: list[Span] = [
            (f" {mark}", f"warn{back}!b"),
            (fit(item.name.replace("_", " "), _NAME), f"text{back}"),
            (fit(_shown(getattr(self._wanted, item.name)), _VALUE), f"accent{back}!b"),
            (_about(item), f"dim{back}"),
        ]
        return line(spans, width, fill=(" ", f"text{back}"))

    # ------------------------------------------------------------------------------------------- actions

    def action_move(self, step: int) -> None:
        """Go to another setting."""
        self._place = max(0, min(len(_FIELDS) - 1, self._place + step))
        self.draw()

    def action_page(self, pages: int) -> None:
        """Go to the first or the last setting."""
        self.action_move(pages * len(_FIELDS))

    def action_change(self, step: int) -> None:
        """Change the setting and apply it."""
        item = _FIELDS[self._place]
        value = moved(item, getattr(self._wanted, item.name), step)
        self._wanted = replace(self._wanted, **{item.name: value})
        self._unsaved[item.name] = value
        if item.name in AT_ONCE:
            apply(self._gputop, replace(self._gputop.settings, **{item.name: value}))
        self.draw()

    def action_save(self) -> None:
        """Keep what was changed in the settings file."""
        try:
            path = config.save(self._unsaved)
        except GputopError as error:
            self._gputop.say(f"not saved: {error}; {error.remedy}", "bad", 10)
            return
        self._unsaved = {}
        self._gputop.say(f"saved in {path}", "good")

    def on_click(self, event: events.Click) -> None:
        """Go to the setting clicked; a second click changes it."""
        place = self._top + event.y - _HEAD
        if event.y >= _HEAD and place < len(_FIELDS):
            if place == self._place:
                self.action_change(1)
            else:
                self.action_move(place - self._place)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _explained(item: Field[Any], width: int) -> list[Line]:
    """Return what a setting is in full, below the list: beside it there is no room."""
    rows = wrap(_about(item), width - 2, _MOST_ABOUT)
    return [line(((f" {text}", "text"),), width) for text in rows]


def _about(item: Field[Any]) -> str:
    """Return what a setting is, and what keeps a change from being seen."""
    text = str(item.metadata["help"])
    if f"GPUTOP_{item.name.upper()}" in os.environ:
        return f"{text} (GPUTOP_{item.name.upper()} is set and wins over the file)"
    return text if item.name in AT_ONCE else f"{text} (from the next start on)"
