"""Characters to draw with: braille, blocks, or plain ASCII where the terminal cannot show more."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, replace

from gputop.analysis.states import STATES

_BRAILLE_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
_BRAILLE_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)


@dataclass(frozen=True)
class Glyphs:
    """One set of characters.

    Attributes:
        name: "braille", "block" or "ascii".
        fine: eighth blocks exist: bars end, and areas meet, inside a cell.
        left, up: bar pieces from empty to full, growing to the right and upwards.
        meter: a thin bar's full, half and empty cell.
        rule, axis, dot, mark, bullet, more, arrows…: line drawing and punctuation.
        states: state id to the character that stands for it.
    """

    name: str
    fine: bool
    left: str
    up: str
    meter: tuple[str, str, str]
    rule: str
    axis: str
    side: str
    dot: str
    warn: str
    live: str
    pause: str
    stop: str
    enter: str
    down: str
    ellipsis: str
    cursor: str
    run: str
    edge: str
    minus: str
    receive: str
    send: str
    times: str
    states: dict[str, str]

    def curve(self, before: int, now: int) -> str:
        """Return one cell of a curve whose heights in this cell go from `before` to `now` (0…4)."""
        if self.name == "braille":
            return chr(0x2800 + _BRAILLE_LEFT[before] + _BRAILLE_RIGHT[now])
        return self.up[now * (len(self.up) - 1) // 4]


BRAILLE = Glyphs(
    name="braille",
    fine=True,
    left=" ▏▎▍▌▋▊▉█",
    up=" ▁▂▃▄▅▆▇█",
    meter=("━", "╾", "─"),
    rule="─",
    axis="┤",
    side="│",
    dot="·",
    warn="▲",
    live="●",
    pause="‖",
    stop="■",
    enter="⏎",
    down="▾",
    ellipsis="…",
    cursor="▌",
    run="▶",
    edge="▏",
    minus="−",
    receive="↓",
    send="↑",
    times="×",
    states={state.id: state.glyph for state in STATES},
)
BLOCK = replace(BRAILLE, name="block")
ASCII = Glyphs(
    name="ascii",
    fine=False,
    left=" #",
    up=" .:|#",
    meter=("#", "#", "-"),
    rule="-",
    axis="|",
    side="|",
    dot="-",
    warn="!",
    live="*",
    pause="=",
    stop="#",
    enter="Enter",
    down="*",
    ellipsis="~",
    cursor=">",
    run=">",
    edge="|",
    minus="-",
    receive="rx ",
    send="tx ",
    times="x",
    states={state.id: state.letter for state in STATES},
)
SETS = {"braille": BRAILLE, "block": BLOCK, "ascii": ASCII}


def choose(name: str, encoding: str | None) -> Glyphs:
    """Return the set called `name`; "auto" means blocks, or ASCII where the terminal's encoding is not UTF-8.

    An encoding that cannot write a set's characters gets ASCII whatever was asked for.
    """
    if not _is_utf8(encoding):
        return ASCII
    return BLOCK if name == "auto" else SETS[name]


def _is_utf8(encoding: str | None) -> bool:
    try:
        return codecs.lookup(encoding or "ascii").name.startswith("utf")
    except LookupError:
        return False
