"""The flame graph as one self-contained file: SVG, or a page around it that zooms and searches.

Width is wall time, colour is what a thread did there most of the time. Every name is escaped, and the script reads
names only as text, so a hostile function name stays a name.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import NamedTuple

from gputop.analysis import hot
from gputop.analysis.results import FlameNode, States
from gputop.analysis.states import BY_ID, COMPUTE, GPU_WAIT, IDLE, OTHER_WAIT
from gputop.snapshot.shot import Shot, place
from gputop.text import printable

WIDTH, ROW, TOP = 1200.0, 18, 64

#: Narrower boxes (pixels) cannot be seen or hit, and are left out.
NARROWEST = 0.3
_LETTER = 6.6
_TEXT_FROM = 24.0

#: Fill by group, dark enough for black text beside it: compute green, GPU wait purple, other waits amber, idle grey.
_FILL = {COMPUTE: "#8fce8f", GPU_WAIT: "#c39bea", OTHER_WAIT: "#f0bf70", IDLE: "#d0d4d8"}
_MEANING = {COMPUTE: "computing", GPU_WAIT: "waiting for the GPU", OTHER_WAIT: "waiting otherwise", IDLE: "idle"}
_NOT_LOOKED_AT = "#e8e8e8"

_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#000}"
    "rect{stroke:#fff;stroke-width:.6}.t{font-weight:bold;font-size:14px}"
)

_PAGE_STYLE = (
    "body{margin:16px;background:#fff}svg{max-width:100%}g.off{opacity:.25}input{font:14px monospace;width:28em}"
)

# Zoom: boxes under the chosen one are stretched over the width, the others hidden; search: the rest is dimmed.
_SCRIPT = """
const boxes = [...document.querySelectorAll("g[data-x]")].map(g => ({
  g, x: +g.dataset.x, w: +g.dataset.w, name: g.querySelector("title").textContent,
  rect: g.querySelector("rect"), text: g.querySelector("text")}));
const WIDTH = +document.querySelector("svg").dataset.width, LETTER = 6.6;
function zoom(x, w) {
  for (const b of boxes) {
    const left = Math.max((b.x - x) / w * WIDTH, 0), right = Math.min((b.x + b.w - x) / w * WIDTH, WIDTH);
    const wide = right - left;
    b.g.style.display = wide > 0.3 ? "" : "none";
    b.rect.setAttribute("x", left); b.rect.setAttribute("width", Math.max(wide, 0));
    const fits = Math.floor((wide - 6) / LETTER), label = b.name.split(" ", 1)[0];
    b.text.setAttribute("x", left + 3);
    b.text.textContent = fits < 3 ? "" : label.length > fits ? label.slice(0, fits - 1) + "…" : label;
  }
}
for (const b of boxes) b.g.addEventListener("click", () => zoom(b.x, b.w));
document.querySelector("input").addEventListener("input", e => {
  const wanted = e.target.value.toLowerCase();
  for (const b of boxes) b.g.classList.toggle("off", wanted !== "" && !b.name.toLowerCase().includes(wanted));
});
document.querySelector("button").addEventListener("click", () => zoom(0, WIDTH));
"""


class Box(NamedTuple):
    """A node drawn: pixels from the left, pixels wide, depth from the root."""

    x: float
    width: float
    depth: int
    node: FlameNode


def boxes(root: FlameNode) -> list[Box]:
    """Lay the tree out over `WIDTH`, parents before children, without what is too narrow to see."""
    scale = WIDTH / root.total if root.total else 0.0
    found: list[Box] = []
    left = [Box(0.0, root.total * scale, 0, root)]
    while left:
        box = left.pop()
        if box.width < NARROWEST:
            continue
        found.append(box)
        x = box.x
        for child in box.node.children:
            left.append(Box(x, child.total * scale, box.depth + 1, child))
            x += child.total * scale
    return found


def svg(shot: Shot) -> Iterator[str]:
    """Yield a flame graph with tooltips, for any viewer of pictures."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield from _drawing(shot)


def page(shot: Shot) -> Iterator[str]:
    """Yield a page that zooms on a click and searches as one types; it loads nothing."""
    title = escape(_title(shot))
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    yield '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    yield "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">"
    yield f"<style>{_PAGE_STYLE}</style></head><body>\n"
    yield '<p><input type="search" placeholder="search a function or file"> <button>whole graph</button></p>\n'
    yield from _drawing(shot)
    yield f"<script>{_SCRIPT}</script></body></html>\n"


def escape(text: str) -> str:
    """Return text that is safe inside an element; characters that XML does not allow at all are replaced."""
    return html.escape(printable(text), quote=False)


def _title(shot: Shot) -> str:
    root = shot.session.root
    return f"{root.name} ({root.pid}) on {shot.session.hostname}, {shot.window.seconds:.1f} s"


def _drawing(shot: Shot) -> Iterator[str]:
    root = hot.flame(shot.store, shot.threads(), shot.window)
    laid = boxes(root)
    height = TOP + (max((box.depth for box in laid), default=0) + 1) * ROW + 8
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0f}" height="{height}" '
        f'viewBox="0 0 {WIDTH:.0f} {height}" data-width="{WIDTH:.0f}">\n<style>{_STYLE}</style>\n'
    )
    yield f'<rect width="{WIDTH:.0f}" height="{height}" fill="#fff"/>\n'
    yield f'<text class="t" x="4" y="18">{escape(_title(shot))}</text>\n'
    yield f'<text x="4" y="36">{escape(shot.verdict.title)}: {escape(shot.verdict.sentence)}</text>\n'
    yield from _legend()
    for box in laid:
        yield _drawn(box, root.total)
    yield "</svg>\n"


def _legend() -> Iterator[str]:
    for index, (group, meaning) in enumerate(_MEANING.items()):
        x = 4 + index * 190
        yield f'<rect x="{x}" y="44" width="12" height="12" fill="{_FILL[group]}"/>'
        yield f'<text x="{x + 16}" y="55">{meaning}</text>\n'


def _drawn(box: Box, total: float) -> str:
    node = box.node
    y = TOP + box.depth * ROW
    share = node.total / total if total else 0.0
    tip = f"{node.frame.name} ({place(node.frame)}): {node.total:.2f} s, {share:.1%}{_shares(node.states)}"
    return (
        f'<g data-x="{box.x:.2f}" data-w="{box.width:.2f}"><title>{escape(tip)}</title>'
        f'<rect x="{box.x:.2f}" y="{y}" width="{box.width:.2f}" height="{ROW}" fill="{_fill(node.states)}"/>'
        f'<text x="{box.x + 3:.2f}" y="{y + 13}">{escape(_fitted(node.frame.name, box.width))}</text></g>\n'
    )


def _fitted(name: str, width: float) -> str:
    if width < _TEXT_FROM:
        return ""
    letters = int((width - 6) / _LETTER)
    return name if len(name) <= letters else name[: letters - 1] + "…"


def _fill(states: States) -> str:
    sums: dict[str, float] = {}
    for state, amount in states.items():
        group = BY_ID[state].group
        sums[group] = sums.get(group, 0.0) + amount
    return _FILL[max(sums, key=lambda group: sums[group])] if sums else _NOT_LOOKED_AT


def _shares(states: States) -> str:
    total = sum(states.values())
    if not total:
        return ""
    ranked = sorted(states.items(), key=lambda item: -item[1])
    return "; " + ", ".join(f"{BY_ID[state].label} {amount / total:.0%}" for state, amount in ranked[:4] if amount)
