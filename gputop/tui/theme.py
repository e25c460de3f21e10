"""Colours: names to Rich styles, for dark and light screens, the terminal's own palette and no colour at all.

A style is written `foreground[/background][!attributes]` with names of a palette: "text", "python/native",
"title!b". Every style carries a background (a style without one shows the terminal's own, which differs).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.color import Color
from rich.style import Style

_ATTRIBUTES = {"b": "bold", "i": "italic", "r": "reverse", "u": "underline"}

_DARK = {
    "base": "#121212",
    "bar": "#1c1c1c",
    "select": "#303030",
    "text": "#d0d0d0",
    "strong": "#ffffff",
    "dim": "#8a8a8a",
    "faint": "#4e4e4e",
    "rule": "#3a3a3a",
    "title": "#b2b2b2",
    "ink": "#121212",
    "glyph": "#121212",
    "accent": "#5fd7d7",
    "good": "#5faf5f",
    "warn": "#e5b567",
    "bad": "#e0565f",
    "gpu": "#76b9ed",
    "memory": "#7d8fd0",
    "cpu": "#5faf87",
    "others": "#626262",
    "track": "#262626",
    "python": "#3f9f5f",
    "native": "#8fd05f",
    "gpu_api": "#2f9f9f",
    "gpu_wait": "#a06fe0",
    "comm": "#4f87e8",
    "data": "#e8b23f",
    "gil": "#e0505a",
    "lock": "#9fc7e8",
    "io": "#e8823f",
    "child": "#b08968",
    "starved": "#f08fc8",
    "unknown": "#6c6c6c",
    "idle": "#303030",
    "idle_letter": "#6c6c6c",
}

_LIGHT = {
    "base": "#ffffff",
    "bar": "#eeeeee",
    "select": "#dadada",
    "text": "#262626",
    "strong": "#000000",
    "dim": "#6c6c6c",
    "faint": "#b2b2b2",
    "rule": "#d0d0d0",
    "title": "#4e4e4e",
    "ink": "#ffffff",
    "glyph": "#000000",
    "accent": "#00757f",
    "good": "#1f7f3f",
    "warn": "#8f5f00",
    "bad": "#b8202c",
    "gpu": "#2a78b8",
    "memory": "#5a66b0",
    "cpu": "#2f8f5f",
    "others": "#a8a8a8",
    "track": "#eeeeee",
    "python": "#2f8f4f",
    "native": "#7fbf3f",
    "gpu_api": "#1f8f8f",
    "gpu_wait": "#8a50d0",
    "comm": "#2f67cf",
    "data": "#d99a10",
    "gil": "#c8303c",
    "lock": "#7fb2dc",
    "io": "#dc6a1c",
    "child": "#96704e",
    "starved": "#dd6aac",
    "unknown": "#8a8a8a",
    "idle": "#e4e4e4",
    "idle_letter": "#9e9e9e",
}

_ANSI = {
    "base": "default",
    "bar": "default",
    "select": "bright_black",
    "text": "default",
    "strong": "default",
    "dim": "default",
    "faint": "bright_black",
    "rule": "bright_black",
    "title": "default",
    "ink": "black",
    "glyph": "black",
    "accent": "cyan",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
    "gpu": "blue",
    "memory": "cyan",
    "cpu": "green",
    "others": "bright_black",
    "track": "default",
    "python": "green",
    "native": "bright_green",
    "gpu_api": "cyan",
    "gpu_wait": "magenta",
    "comm": "blue",
    "data": "yellow",
    "gil": "red",
    "lock": "bright_cyan",
    "io": "bright_red",
    "child": "bright_yellow",
    "starved": "bright_magenta",
    "unknown": "white",
    "idle": "bright_black",
    "idle_letter": "default",
}


@dataclass
class Theme:
    """A palette, and the styles made from it so far.

    Attributes:
        name: the setting's word for it.
        textual: the Textual theme that dialogs and the palette take.
        palette: name to colour; empty for no colour, where a background becomes reverse video.
    """

    name: str
    textual: str
    palette: Mapping[str, str]
    _styles: dict[str, Style] = field(default_factory=dict, repr=False)

    @property
    def coloured(self) -> bool:
        """Return whether colours tell states apart; else glyphs must."""
        return bool(self.palette)

    def style(self, key: str) -> Style:
        """Return the style written `foreground[/background][!attributes]`.

        Raises:
            KeyError: a name that no palette has.
        """
        found = self._styles.get(key)
        if found is None:
            found = self._styles[key] = self._made(key)
        return found

    def _made(self, key: str) -> Style:
        names, _, attributes = key.partition("!")
        foreground, _, background = names.partition("/")
        flags = {_ATTRIBUTES[letter]: True for letter in attributes}
        if not self.palette:
            _ = foreground == "letter" or _DARK[foreground], _DARK[background or "base"]
            return _plain(foreground, background, flags)
        back = self.palette[background or "base"]
        colour = _blend(back, self.palette["glyph"]) if foreground == "letter" else self.palette[foreground]
        if self.name == "ansi" and foreground == "dim":
            flags["dim"] = True
        return Style(color=Color.parse(colour), bgcolor=Color.parse(back), **flags)  # type: ignore[arg-type]


def _blend(back: str, ink: str) -> str:
    """Return the colour of a letter on an area: there to be read, not to be seen first."""
    if not back.startswith("#"):
        return ink
    pairs = zip(Color.parse(back).triplet or (), Color.parse(ink).triplet or (), strict=True)
    return "#" + "".join(f"{round(0.5 * low + 0.5 * high):02x}" for low, high in pairs)


def _plain(foreground: str, background: str, flags: dict[str, bool]) -> Style:
    """Return a style without colour: weight and reverse video carry what colour would."""
    if background and background not in ("base", "bar", "track"):
        flags = {**flags, "reverse": True}
    if foreground in ("dim", "faint", "rule", "others"):
        flags = {**flags, "dim": True}
    return Style(color=Color.default(), bgcolor=Color.default(), **flags)  # type: ignore[arg-type]


def theme(name: str, *, colour: bool = True) -> Theme:
    """Return the theme called "dark", "light" or "ansi"; without colour, the plain one."""
    if not colour:
        return Theme("plain", "ansi-dark", {})
    palettes = {"dark": _DARK, "light": _LIGHT, "ansi": _ANSI}
    textual = {"dark": "gputop-dark", "light": "gputop-light", "ansi": "ansi-dark"}
    return Theme(name, textual[name], palettes[name])
