"""The keys shown on a screen's last line, made from the registry of actions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gputop.tui.actions import ACTIONS, APP, Action
from gputop.tui.cells import Line, Span, line, width_of

#: Words in place of an action's own, by its method.
Words = Mapping[str, str]
_OWN: Words = MappingProxyType({})


def hints(screen: str, room: int, words: Words = _OWN) -> list[tuple[Action, list[Span]]]:
    """Return the actions worth showing with their words, as many as fit in `room` cells, the most useful first."""
    shown: list[tuple[Action, list[Span]]] = []
    for action in sorted((item for item in ACTIONS if _wanted(item, screen)), key=lambda item: item.rank):
        item: list[Span] = [
            ("  ", "text/bar"),
            (action.shown, "accent/bar!b"),
            (f" {words.get(action.method, action.hint)}", "dim/bar"),
        ]
        room -= width_of(item)
        if room < 0:
            break
        shown.append((action, item))
    return shown


def _wanted(action: Action, screen: str) -> bool:
    here = screen in action.screens and action.method != f"go('{screen}')"
    return bool(action.hint) and (here or action.method.startswith(APP))


def spans(screen: str, room: int, words: Words = _OWN) -> list[Span]:
    """Return the hints as text that ends one cell before the right edge."""
    found = [span for _, item in hints(screen, room, words) for span in item]
    return [*found, (" ", "text/bar")] if found else []


def clicked(screen: str, room: int, x: int, width: int, words: Words = _OWN) -> str:
    """Return the action of the hint at `x` of a line of this width, "" for none."""
    right = width - 1
    for action, item in reversed(hints(screen, room, words)):
        left = right - width_of(item)
        if left <= x < right:
            return action.method
        right = left
    return ""


def foot(screen: str, words: list[Span], width: int) -> Line:
    """Return a screen's last line: words on the left, hints on the right."""
    return line(words, width, spans(screen, room(words, width)), (" ", "text/bar"))


def room(words: list[Span], width: int) -> int:
    """Return how many cells of a screen's last line are left for hints."""
    return width - width_of(words) - 2


def prompt(what: str, width: int) -> Line:
    """Return the frame of the line that the user types in; the text itself is Textual's widget over it."""
    help_: list[Span] = [
        ("Enter", "accent/bar!b"),
        (" keep  ", "dim/bar"),
        ("Esc", "accent/bar!b"),
        (" clear ", "dim/bar"),
    ]
    return line(((f" {what.upper()} ", "ink/accent!b"),), width, help_, (" ", "text/bar"))
