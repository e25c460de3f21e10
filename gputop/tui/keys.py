"""Key bindings, made from the registry of actions."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from gputop.tui.actions import on


def bindings(screen: str) -> list[BindingType]:
    """Return the keys of a screen."""
    return [Binding(",".join(action.keys), action.method, action.name, show=False) for action in on(screen)]
