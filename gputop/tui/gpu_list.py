"""One line for each GPU: which columns fit, and what they hold; for the panel's list and the screen's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gputop.analysis.efficiency import Efficiency
from gputop.model import NA, GpuReading, Value
from gputop.tui.cells import Span, gib, number, percent
from gputop.tui.glyphs import Glyphs

#: Cells of the index and the mark, with the space after them; the shortest bar or curve.
_HEAD, _SHORTEST = 5, 6
#: What limits a GPU, by `efficiency.RULES`, to the style it is told in.
LIMITS = {"throttled": "warn!b", "ineffective": "warn!b", "idle": "dim", "unknown": "dim"}


class Column(NamedTuple):
    """A column after the bar: its head, its cells, and what it says; of a low `rank` it is the last to give way."""

    head: str
    cells: int
    rank: int
    says: Callable[[GpuReading, Efficiency | None], Span]


def memory_of(gpu: GpuReading) -> str:
    """Return the memory in use of all there is."""
    used, total = gpu.metric("memory_used_bytes"), gpu.metric("memory_total_bytes")
    return "n/a" if isinstance(used, NA) else f"{gib(used)} of {gib(total)} GiB"


def celsius(value: Value) -> str:
    """Return a temperature with its unit."""
    return number(value, "°C")


def _use(_gpu: GpuReading, found: Efficiency | None) -> Span:
    return (f"  {found.title}", LIMITS.get(found.id, "text").partition("!")[0]) if found else ("", "text")


_COLUMNS = (
    Column("now", 7, 0, lambda gpu, _: (f"{percent(gpu.metric('utilization')):>7}", "strong")),
    Column("memory", 17, 2, lambda gpu, _: (f"{memory_of(gpu):>17}", "text")),
    Column("power", 7, 3, lambda gpu, _: (f"{number(gpu.metric('power_w'), 'W'):>7}", "dim")),
    Column("temp", 7, 4, lambda gpu, _: (f"{celsius(gpu.metric('temperature_c')):>7}", "dim")),
    Column("use", 22, 1, _use),
)


def columns(width: int) -> list[Column]:
    """Return the columns that fit beside a short bar, in their order on the screen."""
    shown = list(_COLUMNS)
    while shown[1:] and sum(column.cells for column in shown) > width - _HEAD - _SHORTEST:
        shown.remove(max(shown, key=lambda column: column.rank))
    return shown


def bar_cells(width: int, most: int) -> int:
    """Return the cells that are left for the bar or the curve."""
    return max(_SHORTEST, min(most, width - _HEAD - sum(column.cells for column in columns(width))))


def head(gpu: GpuReading, glyphs: Glyphs, back: str = "") -> list[Span]:
    """Return a line's begin: the index, and a mark where the watched program uses the GPU."""
    mark = glyphs.live if gpu.used else " "
    return [(f"{gpu.index:>3}", f"strong{back}!b" if gpu.used else f"dim{back}"), (f"{mark} ", f"accent{back}")]


def names(gpus: Iterable[GpuReading], glyphs: Glyphs) -> str:
    """Return how many there are of each kind."""
    return ", ".join(f"{count} {glyphs.times} {name}" for name, count in Counter(gpu.name for gpu in gpus).items())


def in_brief(gpus: Sequence[GpuReading], width: int) -> list[Span]:
    """Return index and utilisation of as many GPUs as fit into one line."""
    spans: list[Span] = [(" ", "text")]
    for place, gpu in enumerate(gpus):
        words = "error" if gpu.error else percent(gpu.metric("utilization"))
        more = f"  {len(gpus) - place} more"
        last = place == len(gpus) - 1
        used = sum(len(text) for text, _ in spans) + len(f"  {gpu.index} {words}")
        if used + (0 if last else len(more)) > width:
            return [*spans, (more, "dim")]
        spans += [(f"  {gpu.index}", "dim"), (f" {words}", "bad" if gpu.error else "text")]
    return spans
