"""The call tree as boxes: where each call lies, and how a row of them is drawn; pure functions."""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gputop.analysis import calls
from gputop.analysis.calls import Key
from gputop.analysis.results import FlameNode, States
from gputop.model import Frame
from gputop.tui.bars import in_order, merged
from gputop.tui.cells import Line, Span, fit, percent, short, width_of
from gputop.tui.glyphs import Glyphs
from gputop.tui.order import Order

#: Names of the path from the root to a call.
Path = tuple[Key, ...]
#: Puts the calls of a node in order.
Ordered = Callable[[Path, FlameNode], Sequence[FlameNode]]
#: Whether a frame is one that is looked for.
Wanted = Callable[[Frame], bool]
#: Colours of modules in the palettes: "hue0" and up; the interpreter and its library have none.
HUES, _PLAIN = 7, "text/select"
#: Modules that get a colour of their own; far more than there are colours.
_MOST_MODULES = 200
_INSTALLED = re.compile(r"/(?:site|dist)-packages/([^/.]+)")
_STANDARD = re.compile(r"/lib(?:64)?/python3(?:\.\d+)?/|^<")


class Box(NamedTuple):
    """A call on the screen: its first cell and its width; `path` starts below the root that is shown."""

    node: FlameNode
    path: Path
    x: int
    width: int


def _by_weight(_path: Path, node: FlameNode) -> Sequence[FlameNode]:
    return node.children


class Orders:
    """Remembers how the calls of each node were ordered: neighbours of nearly one time do not change places."""

    def __init__(self, whole: float, zoom: Path, *, by_line: bool, orders: dict[Path, Order]) -> None:
        self._whole, self._zoom, self._by_line, self._orders = whole, zoom, by_line, orders

    def __call__(self, path: Path, node: FlameNode) -> Sequence[FlameNode]:
        """Return a node's calls in the order in which they are drawn."""
        if len(node.children) < 2:
            return node.children
        below = {calls.key(child.frame, self._by_line): child for child in node.children}
        order = self._orders.setdefault((*self._zoom, *path), Order())
        return [
            below[key] for key in order.settle({key: child.total / self._whole for key, child in below.items()}, "")
        ]


def rows(root: FlameNode, width: int, *, by_line: bool, ordered: Ordered = _by_weight) -> list[list[Box]]:
    """Return the boxes by depth, the root first; calls of less than a cell's time are left out."""
    scale = width / root.total if root.total else 0.0
    row = [(Box(root, (), 0, width), 0.0)]
    found = []
    while row:
        found.append([box for box, _ in row])
        row = [placed for box, start in row for placed in _below(box, start, scale, by_line, ordered)]
    return found


def _below(box: Box, start: float, scale: float, by_line: bool, ordered: Ordered) -> list[tuple[Box, float]]:
    placed = []
    for child in ordered(box.path, box.node):
        left, right = round(start * scale), round((start + child.total) * scale)
        if right > left:
            path = (*box.path, calls.key(child.frame, by_line))
            placed.append((Box(child, path, left, right - left), start))
        start += child.total
    return placed


def node_at(root: FlameNode, path: Path, *, by_line: bool) -> tuple[FlameNode, Path]:
    """Return the node that a path leads to, and the path; where it is gone, its nearest caller that is there."""
    node, gone = root, 0
    for gone, step in enumerate(path):
        below = next((child for child in node.children if calls.key(child.frame, by_line) == step), None)
        if below is None:
            return node, path[:gone]
        node = below
    return node, path


def module(file: str) -> str:
    """Return what a file belongs to: an installed package, "python", or itself."""
    installed = _INSTALLED.search(file)
    if installed:
        return installed[1]
    return "python" if _STANDARD.search(file) else file.rpartition("/")[2]


def called(frame: Frame) -> str:
    """Return what a call is called: that of a module's own code by its file, "<module>" alone says nothing."""
    return f"import {short(frame.file)}" if frame.name == "<module>" and frame.file else frame.name


def hues(root: FlameNode, before: Mapping[str, str]) -> dict[str, str]:
    """Return the colour of each module of a tree; a module keeps the one it had `before`.

    It is the one its name stands for, or the next free one: neighbours of one colour would look like one module.
    """
    chosen = dict(before)
    waiting = deque([root])
    while waiting and len(chosen) < _MOST_MODULES:
        node = waiting.popleft()
        waiting += node.children
        name = module(node.frame.file)
        if name and name != "python" and name not in chosen:
            chosen[name] = _free(zlib.crc32(name.encode("utf-8", "replace")) % HUES, set(chosen.values()))
    return chosen


def _free(wish: int, taken: set[str]) -> str:
    order = [f"hue{(wish + step) % HUES}" for step in range(HUES)]
    return next((name for name in order if name not in taken), order[0])


class Look(NamedTuple):
    """How boxes are drawn.

    Attributes:
        by_state: coloured by what the thread does, instead of by module.
        hues: module to colour.
        whole: seconds that shares are of.
        wanted: whether a frame is one searched for; None while nothing is.
        selected: the path of the chosen call.
    """

    glyphs: Glyphs
    coloured: bool
    by_state: bool
    hues: Mapping[str, str]
    whole: float
    wanted: Wanted | None
    selected: Path


def drawn(row: Sequence[Box], width: int, look: Look) -> Line:
    """Return one row of boxes."""
    spans: list[Span] = []
    at = 0
    for box in row:
        spans.append((" " * (box.x - at), "text"))
        spans += _box(box, look)
        at = box.x + box.width
    spans.append((" " * (width - at), "text"))
    return merged(span for span in spans if span[0])


def _box(box: Box, look: Look) -> list[Span]:
    chosen = box.path == look.selected
    text = _label(box, look, chosen)
    if chosen:
        return [(text, "ink/accent!b")]
    if look.wanted is not None:
        return [(text, "ink/warn!b" if look.wanted(box.node.frame) else "dim/select")]
    if look.by_state:
        return _by_state(text, box.node.states, look)
    hue = look.hues.get(module(box.node.frame.file))
    return [(text, f"glyph/{hue}" if hue else _PLAIN)]


def _label(box: Box, look: Look, chosen: bool) -> str:
    """Return the text in a box: an edge, since neighbours may have one colour, then the name."""
    edge = look.glyphs.run if chosen else look.glyphs.edge
    if box.width == 1:
        return edge
    name, share = called(box.node.frame), f" {percent(box.node.total / look.whole)}" if look.whole else ""
    if width_of([(name + share, "")]) < box.width:
        name += share
    return edge + fit(name, box.width - 1, look.glyphs.ellipsis if box.width > 4 else "")


def _by_state(text: str, states: States, look: Look) -> list[Span]:
    """Return the text on its states' colours, side by side; without colours their glyphs fill what is free."""
    if width_of([(text, "")]) != len(text):  # wide characters are not cut apart
        return [(text, f"glyph/{max(states, key=states.__getitem__, default='unknown')}")]
    spans: list[Span] = []
    done, share = 0, 0.0
    for name, part in in_order(states.items()):
        share += part
        end = min(len(text), round(share * len(text)))
        piece = text[done:end]
        if look.coloured and look.glyphs.fine:
            spans.append((piece, f"{'idle_letter' if name == 'idle' else 'glyph'}/{name}"))
        else:
            spans.append((_filled(piece, done, text, look.glyphs.states[name]), name))
        done = max(done, end)
    spans.append((text[done:], "text/track"))
    return [span for span in spans if span[0]]


def _filled(piece: str, start: int, text: str, glyph: str) -> str:
    """Return a piece of a label with a state's glyph in place of the blanks after the name."""
    name_end = len(text.rstrip()) + 1
    return "".join(glyph if start + at >= name_end else char for at, char in enumerate(piece))
