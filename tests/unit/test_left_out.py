"""Functions that py-spy leaves out are named."""

from __future__ import annotations

from gputop.engine.left_out import LeftOut
from gputop.model import Frame, Note, PeekBatch, StackBatch, StackSegment
from gputop.text import printable

LONG = Frame(printable("f" * 5000), "gen.py", 3)
OUTER = Frame("<module>", "gen.py", 9)


def looks(*frames: Frame) -> PeekBatch:
    return PeekBatch(7, 0.0, 0.5, (), (), {}, frames=frames)


def window(*stack: Frame, pid: int = 7) -> StackBatch:
    return StackBatch(pid, 0.0, 1.0, {7: "MainThread"}, (stack,), (StackSegment(7, 0.0, 1.0, 0),), 100, 0, 100.0)


def notes(*batches: PeekBatch | StackBatch) -> list[Note]:
    watch = LeftOut()
    return [note for batch in batches if (note := watch.note(batch)) is not None]


def test_a_function_that_only_looks_see_is_named_once() -> None:
    (note,) = notes(*(batch for _ in range(9) for batch in (looks(LONG, OUTER), window(OUTER))))
    assert "over 4 kB" in note.what
    assert "ffff" in note.what
    assert len(note.what) < 200


def test_a_long_name_that_stacks_have_too_is_all_right() -> None:
    elsewhere = LONG._replace(line=8)
    assert not notes(*(batch for _ in range(9) for batch in (looks(LONG), window(OUTER, elsewhere))))
    late = (*(window(OUTER) for _ in range(2)), window(OUTER, elsewhere))
    assert not notes(*(batch for seen in late for batch in (looks(LONG), seen))), "in the last of three windows"


def test_a_function_that_ended_is_not_left_out() -> None:
    assert not notes(looks(LONG), *(window(OUTER) for _ in range(9)))


def test_other_names_and_other_processes_do_not_count() -> None:
    short = Frame("g" * 399, "gen.py", 1)
    assert not notes(*(batch for _ in range(9) for batch in (looks(short), window(OUTER))))
    assert not notes(*(batch for _ in range(9) for batch in (looks(LONG), window(OUTER, pid=8))))
