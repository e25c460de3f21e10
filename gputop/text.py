"""Text from outside made safe to print.

Names of processes, threads, functions and files belong to the target, and may hold escape sequences, line
breaks, right-to-left marks or ten thousand characters. Collectors pass each through `printable` before it
enters the model, so that everything above them can be written to a terminal or a file as it is.
"""

from __future__ import annotations

import unicodedata

#: Longest name kept; long enough for C++ symbols worth reading, short enough for a million of them.
NAME_LIMIT = 400

#: Unicode categories that a terminal may act on instead of printing: controls (escape sequences), format
#: characters (right-to-left marks, zero-width), surrogates (undecodable bytes), line and paragraph separators.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_MARK = "�"


def printable(text: str, limit: int = NAME_LIMIT) -> str:
    """Return `text` with everything a terminal could obey replaced by `�`, at most `limit` characters long.

    A text that is cut ends in `…`. Tabs and newlines become spaces.
    """
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    return "".join(_safe(character) for character in text)


def _safe(character: str) -> str:
    if character in "\t\n\r":
        return " "
    return _MARK if unicodedata.category(character) in _UNSAFE else character
