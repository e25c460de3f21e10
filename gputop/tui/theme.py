"""Colours: names to Rich styles, for dark and light screens, the terminal's own palette and no colour at all.

A style is written `foreground[/background][!attributes]` with names of a palette: "text", "python/native",
"title!b". All colours are of the 256 that every terminal of today has. Every style carries a background: without
one the terminal's own would show, which differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rich.color import Color, ColorSystem
from rich.style import Style
from textual.theme import Theme as TextualTheme

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
    "warn": "#d7af5f",
    "bad": "#d75f5f",
    "gpu": "#5fafff",
    "memory": "#8787d7",
    "cpu": "#5faf87",
    "others": "#626262",
    "track": "#262626",
    "python": "#00af5f",
    "native": "#87d75f",
    "gpu_api": "#00afaf",
    "gpu_wait": "#af87ff",
    "comm": "#5f87ff",
    "data": "#ffd75f",
    "gil": "#d75f5f",
    "lock": "#afd7ff",
    "io": "#ff875f",
    "child": "#af875f",
    "starved": "#ff87d7",
    "unknown": "#6c6c6c",
    "idle": "#303030",
    "idle_letter": "#6c6c6c",
    "literal": "#afaf87",
    "keyword": "#87afd7",
    "comment": "#8a8a8a",
    "hue0": "#d7875f",
    "hue1": "#d7af5f",
    "hue2": "#87af5f",
    "hue3": "#5fafaf",
    "hue4": "#87afd7",
    "hue5": "#af87d7",
    "hue6": "#d787af",
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
    "accent": "#008787",
    "good": "#008700",
    "warn": "#875f00",
    "bad": "#af0000",
    "gpu": "#005faf",
    "memory": "#5f5faf",
    "cpu": "#008700",
    "others": "#a8a8a8",
    "track": "#eeeeee",
    "python": "#00875f",
    "native": "#87d75f",
    "gpu_api": "#00afaf",
    "gpu_wait": "#875fd7",
    "comm": "#005fd7",
    "data": "#ffaf00",
    "gil": "#d75f5f",
    "lock": "#87afd7",
    "io": "#ff8700",
    "child": "#af875f",
    "starved": "#ff87d7",
    "unknown": "#8a8a8a",
    "idle": "#e4e4e4",
    "idle_letter": "#9e9e9e",
    "literal": "#5f5f00",
    "keyword": "#005faf",
    "comment": "#6c6c6c",
    "hue0": "#ffaf87",
    "hue1": "#ffd787",
    "hue2": "#afd787",
    "hue3": "#87d7d7",
    "hue4": "#afd7ff",
    "hue5": "#d7afff",
    "hue6": "#ffafd7",
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
    "literal": "yellow",
    "keyword": "blue",
    "comment": "default",
    "hue0": "yellow",
    "hue1": "bright_yellow",
    "hue2": "green",
    "hue3": "cyan",
    "hue4": "blue",
    "hue5": "magenta",
    "hue6": "red",
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
        return Style(color=_colour(colour), bgcolor=_colour(back), **flags)  # type: ignore[arg-type]


def _colour(text: str) -> Color:
    """Return a colour as one of the 256: half the bytes to write, and the same on every terminal."""
    return Color.parse(text).downgrade(ColorSystem.EIGHT_BIT)


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


def textual_themes() -> Iterator[TextualTheme]:
    """Yield the palettes as themes for Textual's own widgets: inputs, the command palette."""
    for name, colours in (("dark", _DARK), ("light", _LIGHT)):
        yield TextualTheme(
            name=f"gputop-{name}",
            primary=colours["accent"],
            warning=colours["warn"],
            error=colours["bad"],
            success=colours["good"],
            accent=colours["accent"],
            foreground=colours["text"],
            background=colours["base"],
            surface=colours["bar"],
            panel=colours["select"],
            dark=name == "dark",
        )


def theme(name: str, *, colour: bool = True) -> Theme:
    """Return the theme called "dark", "light" or "ansi"; without colour, the plain one."""
    if not colour:
        return Theme("plain", "ansi-dark", {})
    palettes = {"dark": _DARK, "light": _LIGHT, "ansi": _ANSI}
    textual = {"dark": "gputop-dark", "light": "gputop-light", "ansi": "ansi-dark"}
    return Theme(name, textual[name], palettes[name])
