"""Python source in colour: which part of each line is a comment, a text, a keyword, a name that is defined.

The standard library's tokenizer does it; a file that it cannot read is shown without colours.
"""

from __future__ import annotations

import io
import keyword
import token
import tokenize
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gputop.tui.cells import Span

#: A text token; f-strings come in parts from Python 3.12 on.
_TEXTS = {
    number
    for name in ("STRING", "FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
    if (number := getattr(token, name, None)) is not None
}
_DEFINES = ("def", "class")


class Part(NamedTuple):
    """Characters `start` to `end` of a line, and the style to show them in."""

    start: int
    end: int
    style: str

    def moved(self, by: int) -> Part:
        """Return the same part of a line that begins elsewhere."""
        return Part(max(0, self.start + by), max(0, self.end + by), self.style)


def parts(lines: Sequence[str]) -> dict[int, list[Part]]:
    """Return the parts of each line (numbered from 1) that are not plain; as far as the text can be read."""
    found: dict[int, list[Part]] = {}
    before = ""
    try:
        for item in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
            style = _style(item, before)
            if style:
                _add(found, item, style)
            if item.type not in (token.NEWLINE, tokenize.NL, token.INDENT, token.DEDENT):
                before = item.string
    except (tokenize.TokenError, SyntaxError):
        pass  # half a file has half its colours
    return found


def _style(item: tokenize.TokenInfo, before: str) -> str:
    if item.type == tokenize.COMMENT:
        return "comment"
    if item.type in _TEXTS:
        return "literal"
    if item.type != token.NAME:
        return ""
    if keyword.iskeyword(item.string):
        return "keyword"
    return "strong!b" if before in _DEFINES else ""


def _add(found: dict[int, list[Part]], item: tokenize.TokenInfo, style: str) -> None:
    (first, start), (last, end) = item.start, item.end
    for number in range(first, last + 1):
        left = start if number == first else 0
        right = end if number == last else len(item.line) + 10_000
        found.setdefault(number, []).append(Part(left, right, style))


def spans(text: str, marked: Iterable[Part], plain: str = "text") -> list[Span]:
    """Return a line's text in the styles of its parts, the rest in the plain one."""
    out: list[Span] = []
    at = 0
    for part in marked:
        if part.start > at:
            out.append((text[at : part.start], plain))
        out.append((text[max(at, part.start) : part.end], part.style))
        at = max(at, part.end)
    out.append((text[at:], plain))
    return [span for span in out if span[0]]
