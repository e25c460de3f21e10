"""The snapshot key in full: which trace is possible here, its options, and what the last one shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from gputop.tui.actions import TRACE
from gputop.tui.cells import Line, Span, fit, line, wrap
from gputop.tui.keys import bindings
from gputop.tui.panels.base import rule
from gputop.tui.screens.sheet import Sheet
from gputop.tui.view import Tracing

if TYPE_CHECKING:
    from gputop.tui.app import GputopApp

#: Lengths to go through; longer ones are for the command line.
_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_NAME, _VALUE = 10, 8

#: Each option: its field in `Tracing`, its values, what it is about.
_OPTIONS: tuple[tuple[str, tuple[float, ...], str], ...] = (
    ("seconds", _SECONDS, "length of a torch trace; the sampled one also has the 10 s before"),
    ("stacks", (False, True), "Python functions recorded by torch too: 4 times the size"),
    ("shapes", (False, True), "the operators' input shapes"),
)
_MEMORY = "always: the process's and the GPU's as counters; torch tells its own allocations to no one outside"
#: pytorch#129626; one that gputop started waits for its trace.
_ENDING = "torch crashes in a program that ends while torch records it: see that it goes on for some seconds"


class Trace(Sheet[None]):
    """Says what is possible, changes the options, shows the last reading."""

    NAME = TRACE
    BINDINGS: ClassVar[list[BindingType]] = bindings(TRACE)

    def __init__(self, app: GputopApp) -> None:
        super().__init__(app)
        self._place = self._top = 0

    @property
    def _tracing(self) -> Tracing:
        return self._gputop.scene.tracing

    def on_mount(self) -> None:
        """See what is possible now."""
        self._gputop.snapshots.look()

    def painted(self, width: int, height: int) -> list[Line]:
        """Return what is possible, the options and the last reading, scrolled to where the user went."""
        scene = self._gputop.scene
        busy: list[Span] = [(scene.busy, "accent!b")] if scene.busy else []
        head = rule(scene, [("trace", "strong!b")], width, busy)
        lines = [*self._possible(width), *self._options(width), *self._last(width)]
        self._top = max(0, min(self._top, len(lines) - (height - 1)))
        return [head, *lines[self._top :]]

    def _possible(self, width: int) -> Iterator[Line]:
        route = self._tracing.route
        yield from _text("what s saves here", "title!b", width)
        if route is None:
            yield from _text("not known yet", "dim", width)
            return
        yield from _text(route.sentence, "text", width)
        if route.remedy:
            yield from _text(f"for more: {route.remedy}", "accent", width)
        if route.torch is not None and not self._gputop.scene.source.launched:
            yield from _text(_ENDING, "warn", width)

    def _options(self, width: int) -> Iterator[Line]:
        yield line((), width)
        yield from _text("options", "title!b", width)
        for place, (name, _, about) in enumerate(_OPTIONS):
            yield _row(name, _shown(getattr(self._tracing, name)), about, width, chosen=place == self._place)
        yield _row("memory", "", _MEMORY, width, chosen=False)

    def _last(self, width: int) -> Iterator[Line]:
        if self._tracing.files:
            yield line((), width)
            yield from _text("the last snapshot", "title!b", width)
        for words in self._tracing.files:
            yield from _text(words, "strong", width)
        for words in self._tracing.reading:
            yield from _text(words, "text", width)

    def copied(self) -> str:
        """Return the last snapshot's files and reading."""
        return "\n".join((*self._tracing.files, *self._tracing.reading))

    # ------------------------------------------------------------------------------------------- actions

    def action_move(self, step: int) -> None:
        """Go to another option; below the last one, on through the text."""
        if self._top or self._place + step >= len(_OPTIONS):
            self._top = max(0, self._top + step)
        self._place = max(0, min(len(_OPTIONS) - 1, self._place + step))
        self.draw()

    def action_page(self, pages: int) -> None:
        """Scroll by a page."""
        self._top = max(0, self._top + pages * max(1, self.size.height - 3))
        self.draw()

    def action_change(self, step: int) -> None:
        """Change the chosen option."""
        name, values, _ = _OPTIONS[self._place]
        at = values.index(getattr(self._tracing, name))
        setattr(self._tracing, name, values[(at + step) % len(values)])
        self.draw()

    def action_take(self) -> None:
        """Save a trace, in the background."""
        self._gputop.snapshots.take()


def _row(name: str, value: str, about: str, width: int, *, chosen: bool) -> Line:
    back = "/select" if chosen else ""
    spans = [(f"  {fit(name, _NAME)}", f"text{back}"), (fit(value, _VALUE), f"accent{back}!b"), (about, f"dim{back}")]
    return line(spans, width, fill=(" ", f"text{back}"))


def _text(words: str, style: str, width: int) -> Iterator[Line]:
    for row in wrap(words, max(10, width - 2), 6):
        yield line(((f" {row}", style),), width)


def _shown(value: float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g} s"
