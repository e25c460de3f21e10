"""The notes (what does not work, and the remedy) and the last line: state, messages, keys."""

from __future__ import annotations

from gputop.errors import ending
from gputop.model import Note
from gputop.tui import hints
from gputop.tui.actions import OVERVIEW
from gputop.tui.cells import Line, Span, clock_time, duration, line, percent, width_of, wrap
from gputop.tui.panels.base import Panel, Rows, padded
from gputop.tui.view import Scene

#: Rows of notes on a screen of this height and more; below, one.
_MOST_NOTES, _TALL = 4, 40
_MOST_MESSAGE_ROWS = 3  # of each line
#: From here up there is room for the sampling rates beside the keys.
_WIDE = 110


def _note_rows(scene: Scene, _width: int, height: int) -> Rows:
    notes = len(scene.summary.notes) if scene.summary else 0
    if height < _TALL:
        return Rows(min(notes, 1), min(notes, 1))
    return Rows(min(notes, 1), min(_MOST_NOTES, 2 * notes))


def _draw_notes(scene: Scene, width: int, height: int) -> list[Line]:
    notes = scene.summary.notes if scene.summary else ()
    lines: list[Line] = []
    each = 2 if 2 * len(notes) <= height else 1
    for note in notes[: height // each]:
        lines += _note(scene, note, width, each)
    hidden = len(notes) - height // each
    if hidden > 0 and lines:
        more: Span = (f" +{hidden} more ", "warn!b")
        lines[-1] = (*line(lines[-1], width - width_of((more,))), more)
    return padded(lines, width, height)


def _note(scene: Scene, note: Note, width: int, rows: int) -> list[Line]:
    """Return one note: what does not work and what helps, beside or below each other."""
    what: list[Span] = [(f" {scene.glyphs.warn} ", "warn!b"), (note.what, "text")]
    remedy: list[Span] = [("try: ", "accent"), (note.remedy, "dim")] if note.remedy else []
    if rows == 1 or width_of(what) + width_of(remedy) + 2 <= width:
        return [line([*what, ("  ", "text"), *remedy], width)]
    return [line(what, width), line([("   ", "text"), *remedy], width)]


def _status(scene: Scene, width: int, height: int) -> list[Line]:
    if scene.prompt:
        return padded([hints.prompt(scene.prompt, width)], width, height)
    left = _left(scene, width)
    return padded(
        [line(left, width, hints.spans(OVERVIEW, width - width_of(left) - 2, _words(scene)), (" ", "text/bar"))],
        width,
        height,
    )


def _words(scene: Scene) -> dict[str, str]:
    """Name the trace that the snapshot key would save, once that is known."""
    return {"snapshot": scene.tracing.route.hint} if scene.tracing.route is not None else {}


def _left(scene: Scene, width: int) -> list[Span]:
    chip, words = mode(scene)
    left: list[Span] = [(f" {chip[0]} ", f"ink/{chip[1]}!b"), (f" {words}" if words else "", "text/bar")]
    if scene.busy:
        left += [("  ", "text/bar"), (scene.busy, "accent/bar")]
    elif width >= _WIDE:
        left += _sampling(scene)
    return left


def _sampling(scene: Scene) -> list[Span]:
    cost = scene.summary.cost if scene.summary else None
    if cost is None or not scene.source.live or scene.source.exited is not None:
        return []
    rates = f"stacks {cost.stack_rate_hz:.0f} Hz {scene.glyphs.dot} peek {cost.peek_rate_hz:.0f} Hz"
    rates += f" {scene.glyphs.dot} screen at half rate" if scene.sparing else ""
    rates += f" ({cost.limited})" if cost.limited else ""
    spans: list[Span] = [("  ", "text/bar"), (rates, "warn/bar" if cost.limited or scene.sparing else "dim/bar")]
    if cost.failed >= 0.005:
        tone = "warn/bar" if cost.failed > 0.1 else "dim/bar"
        spans.append((f" {scene.glyphs.dot} failed {percent(cost.failed)}", tone))
    return spans


def mode(scene: Scene) -> tuple[tuple[str, str], str]:
    """Return the chip (words, style) that says what kind of picture this is, and what follows it."""
    glyphs, source = scene.glyphs, scene.source
    if scene.view.paused is not None:
        return (f"{glyphs.pause} PAUSED", "warn"), _pause_words(scene, scene.view.paused)
    if source.exited is not None:
        return (f"{glyphs.stop} EXITED", "bad"), _exit_words(scene, source.exited[0])
    if not source.live:
        return (f"{glyphs.live} RECORDING", "accent"), ""
    if scene.summary is None:
        return (f"{glyphs.dot} ATTACHING", "dim"), ""
    if scene.late:
        return (f"{glyphs.warn} LATE", "warn"), f"picture is {scene.late:.0f} s old"
    return (f"{glyphs.live} LIVE", "good"), "" if scene.view.rate == 1 else f"rates {glyphs.times} {scene.view.rate:g}"


def _pause_words(scene: Scene, end: float) -> str:
    """Say which moment is shown, and how long ago it was."""
    span = scene.source.span()
    ago = max(0.0, (span.end if span else scene.now) - end)
    goes_on = ", sampling goes on" if scene.source.live and scene.source.exited is None else ""
    return f"at {clock_time(scene.clock(end))}, {duration(ago)} ago{goes_on}"


def _exit_words(scene: Scene, code: int | None) -> str:
    span = scene.source.span()
    lived = span.end + scene.session.epoch - scene.session.root.started_unix if span else 0
    how = "(code unknown)" if code is None else ending(code, scene.source.ended_by).removeprefix("exited ")
    return f"{how} after {duration(lived) if lived >= 60 else f'{lived:.0f} s'}, still browsable"


def _click(scene: Scene, x: int, _y: int, width: int) -> str:
    """Return the action of the hint at `x`."""
    return hints.clicked(OVERVIEW, width - width_of(_left(scene, width)) - 2, x, width, _words(scene))


def _message_rows(scene: Scene, width: int, height: int) -> Rows:
    rows = len(_message_lines(scene, width)) if scene.said else 0
    return Rows(min(rows, height - 1), rows)


def _message_lines(scene: Scene, width: int) -> list[str]:
    texts = scene.said.text.splitlines() if scene.said else []
    return [row for text in texts for row in wrap(text, width - 3, _MOST_MESSAGE_ROWS)]


def _draw_message(scene: Scene, width: int, height: int) -> list[Line]:
    tone = scene.said.tone if scene.said else "text"
    rows = _message_lines(scene, width)
    lines = [
        line(
            ((f" {scene.glyphs.cursor}", f"{tone}/select"), (text, "strong/select!b")), width, fill=(" ", "text/select")
        )
        for text in rows
    ]
    return padded(lines, width, height)


NOTES = Panel("notes", "full", 7, _note_rows, _draw_notes, lambda *_: "advice")
MESSAGE = Panel("message", "over", 8, _message_rows, _draw_message, lambda *_: "back")
STATUS = Panel("status", "full", 0, lambda *_: Rows(1, 1), _status, _click)
