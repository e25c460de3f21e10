"""A row of the screen that is written in few bytes: over a slow line, bytes are what a live screen costs.

Textual resets the style after each segment and writes the next one in full. Here only what differs from the segment
before is written: about a third less.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style
from textual.strip import Strip

_RESET = "\x1b[0m"
_ATTRIBUTES = (("bold", "1"), ("dim", "2"), ("italic", "3"), ("underline", "4"), ("reverse", "7"))


class _Codes(NamedTuple):
    """Parameters of a style's escape sequence (ECMA-48, select graphic rendition)."""

    attributes: tuple[str, ...]
    ink: tuple[str, ...]
    ground: tuple[str, ...]


@lru_cache(maxsize=4096)
def _codes(style: Style, system: ColorSystem) -> _Codes:
    ink = style.color.downgrade(system).get_ansi_codes() if style.color else ()
    ground = style.bgcolor.downgrade(system).get_ansi_codes(foreground=False) if style.bgcolor else ()
    return _Codes(tuple(code for name, code in _ATTRIBUTES if getattr(style, name)), ink, ground)


class LeanStrip(Strip):
    """A strip that writes what changes from segment to segment."""

    __slots__ = ("_written",)

    def crop(self, start: int, end: int | None = None) -> Strip:
        """Return a part, which is as lean."""
        part = super().crop(start, end)
        return part if isinstance(part, LeanStrip) else LeanStrip(part, part.cell_length)

    def render(self, console: Console) -> str:
        """Return the row as the terminal gets it; a row that does not change is made once."""
        written: str | None = getattr(self, "_written", None)
        if written is None:
            system = COLOR_SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR)
            written = self._written = "".join(self._pieces(system))
        return written

    def _pieces(self, system: ColorSystem) -> list[str]:
        pieces: list[str] = []
        before: _Codes | None = None
        for text, style, _ in self:
            now = _codes(style or Style.null(), system)
            if before is not None and text.isspace() and not {*now.attributes, *before.attributes} & {"4", "7"}:
                now = now._replace(ink=before.ink)  # no ink is seen in blanks
                if now.ground == before.ground:
                    now = before
            if change := _change(before, now):
                pieces.append(f"\x1b[{change}m")
            pieces.append(text)
            before = now
        return [*pieces, _RESET] if before is not None else pieces


def _change(before: _Codes | None, now: _Codes) -> str:
    """Return what leads from one style to the next, "" for nothing."""
    if before is None:
        return ";".join((*now.attributes, *now.ink, *now.ground))
    if before.attributes != now.attributes:
        gone = set(before.attributes) - set(now.attributes)
        if gone:
            return ";".join(("0", *now.attributes, *now.ink, *now.ground))
        return ";".join((*now.attributes, *_differing(before, now)))
    return ";".join(_differing(before, now))


def _differing(before: _Codes, now: _Codes) -> tuple[str, ...]:
    return (*(now.ink if now.ink != before.ink else ()), *(now.ground if now.ground != before.ground else ()))
