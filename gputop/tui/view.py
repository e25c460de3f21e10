"""What the user has chosen, and the scene that panels draw: plain data, no Textual."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gputop.analysis.results import Summary, Window
from gputop.model import Session
from gputop.tui.glyphs import BLOCK, Glyphs
from gputop.tui.source import Source, Thread

if TYPE_CHECKING:
    from gputop.snapshot.kineto.route import Route
    from gputop.tui.table import Table

#: Lengths of the time axis while less is known than the user wants to see, seconds.
_AXES = (10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


@dataclass
class View:
    """The user's choices; they outlive every tick.

    Attributes:
        seconds: length of the window shown.
        reset_at: monotonic time before which nothing is summed (the `r` key); 0 for never.
        range: the marked window that is shown instead, None for the newest `seconds`.
        mark: start of a range whose end has not been marked yet, monotonic.
        ranges: the last two ranges marked.
        dragged: the range that the mouse is being dragged over.
        paused: end of the window that is frozen on the screen, monotonic; None while the picture follows the time.
        by_line: the table lists source lines instead of functions.
        sort: one of `actions.SORTS`.
        filter: only rows whose function or file holds this text, without regard to case.
        search: the text that next and previous go to.
        own: only the user's own code, no libraries.
        least: only rows with at least this share.
        thread: the thread chosen in the threads screen, None for the one that analysis chooses.
        alone: the table is of that thread only, instead of all threads' work.
        native: the native functions that Python's lines called are shown somewhere.
        selected: the row the cursor is on, by its key (a row moves, the cursor follows it).
        top: first row shown.
        rate: factor on the sampling rates.
    """

    seconds: float = 60.0
    reset_at: float = 0.0
    range: Window | None = None
    mark: float | None = None
    ranges: tuple[Window, ...] = ()
    dragged: Window | None = None
    paused: float | None = None
    by_line: bool = False
    sort: str = "self"
    filter: str = ""
    search: str = ""
    own: bool = False
    least: float = 0.0
    thread: Thread | None = None
    alone: bool = False
    native: bool = False
    selected: tuple[str, ...] | None = None
    top: int = 0
    rate: float = 1.0

    def window(self, span: Window, columns: int, *, growing: bool) -> tuple[Window, int]:
        """Return the window to ask for, and how many of the timeline's `columns` it has.

        That is the newest `seconds` of what is known, on a grid of whole steps: there a step keeps its samples while
        the picture scrolls, off it every column would flicker. While more is to come (`growing`, and not frozen), only
        complete steps are shown.
        """
        if self.range is not None:
            return self.range, columns
        step = self._axis(span, growing) / columns
        end = span.end if self.paused is None else self.paused
        first = math.floor(max(end - self.seconds, span.start, self.reset_at) / step)
        last = math.floor(end / step) if growing and self.paused is None else math.ceil(end / step)
        last = max(last, first + 1)
        first = max(first, last - columns)
        return Window(first * step, last * step), last - first

    def _axis(self, span: Window, growing: bool) -> float:
        """Return the length of the time axis: as long as the user wants, or a round length that holds what is known.

        What does not grow needs no room to grow into.
        """
        known = span.end - max(span.start, self.reset_at)
        if not growing and 0 < known < self.seconds:
            return known
        return next((axis for axis in _AXES if known <= axis < self.seconds), self.seconds)


@dataclass
class Message:
    """A line that goes away by itself: what happened, how it is meant ("good", "warn", "bad", "text"), until when."""

    text: str
    tone: str = "text"
    until: float = 0.0


@dataclass
class Tracing:
    """The snapshot key: what it would save, with which options, and what the last one showed.

    Attributes:
        route: which trace is possible, None before that was looked at.
        seconds: length of a torch trace; stacks, shapes: what torch records in it besides.
        files: a sentence for each file of the last snapshot.
        reading: what its trace shows, in sentences.
    """

    route: Route | None = None
    seconds: float = 2.0
    stacks: bool = False
    shapes: bool = False
    files: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()


@dataclass
class Scene:
    """Everything a panel needs to draw itself.

    Attributes:
        source: where facts come from that are not in the summary (output, exit).
        table: the rows of the hottest functions.
        view: the user's choices.
        summary: the newest, or the frozen one; None before the first.
        now: monotonic seconds.
        glyphs, coloured: how to draw.
        output: last lines of the program's output.
        busy: what is being done now ("writing the snapshot"), empty for nothing.
        message: the last thing worth saying.
        prompt: what the user is typing now ("filter"), empty for nothing.
        tracing: the snapshot key's choices and findings.
        late: seconds since the newest summary came, once that is worth saying.
        sparing: the screen is brought up to date half as often as asked, because gputop costs more than it may.
    """

    source: Source
    table: Table
    view: View = field(default_factory=View)
    summary: Summary | None = None
    now: float = 0.0
    glyphs: Glyphs = BLOCK
    coloured: bool = True
    output: list[str] = field(default_factory=list)
    busy: str = ""
    message: Message | None = None
    prompt: str = ""
    tracing: Tracing = field(default_factory=Tracing)
    late: float = 0.0
    sparing: bool = False

    @property
    def said(self) -> Message | None:
        """Return the message to show now."""
        return self.message if self.message is not None and self.message.until > self.now else None

    @property
    def session(self) -> Session:
        """Return what is being looked at."""
        return self.source.session

    def clock(self, monotonic: float) -> float:
        """Return a monotonic time as Unix time."""
        return monotonic + self.session.epoch
