"""The report as text: one screenful that a person reads from top to bottom."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from gputop.analysis.efficiency import Efficiency
from gputop.analysis.results import FunctionRow, Headline, NativePart, Summary, ThreadRow
from gputop.analysis.rounding import rounded
from gputop.analysis.states import BY_ID, STATES
from gputop.errors import ending
from gputop.model import NA, GpuReading, Note, Value

#: Shares below this are not worth a reader's second.
_FLOOR = 0.005
_SHOWS = 0.05  # of a core
#: What is wrong with a recording concerns all that is said of it, so its notes come first.
_RECORDING = "recording"
#: Native functions are named from this part of a function's own time on, and for functions of this share.
_NATIVE, _NATIVE_OF = 0.1, 0.02
_FUNCTIONS, _THREADS, _BRIEF = 15, 12, 3


def text(summary: Summary, ended_by: int | None = None) -> str:
    """Return the report as plain text, without colours or escape sequences.

    `ended_by` is the signal that ended the program, 0 when none did, None when that is not known.
    """
    return "\n".join(_lines(summary, ended_by)) + "\n"


def brief(summary: Summary, said: Collection[Note] = ()) -> str:
    """Return a few lines on a window, each whole by itself: what a screen reader reads out or a log keeps.

    Notes that were `said` before are left out.
    """
    fresh = replace(summary, notes=tuple(note for note in summary.notes if note not in said))
    return "\n".join(_brief_lines(fresh)) + "\n"


def _brief_lines(summary: Summary) -> Iterator[str]:
    until = time.strftime("%H:%M:%S", time.localtime(summary.window.end + summary.session.epoch))
    yield f"{until}, the last {summary.window.seconds:.0f} s of pid {summary.session.root.pid}"
    yield _verdict_line(summary)
    headline = summary.headline
    if headline is not None:
        yield f"  {headline.name}: {_shares(headline.states)}"
    for row in summary.functions[:_BRIEF]:
        yield f"  {100 * row.self_share:.0f} % in {row.name}, {row.place}"
    yield from (f"  {fact}" for fact in _machine(summary))
    yield from (f"  {fact}" for fact in _notes(summary))


def _shares(states: Mapping[str, float]) -> str:
    """Return "gpu wait 52 %, python 14 %", largest first; together 100 %."""
    largest = sorted(rounded(states, 2).items(), key=lambda item: -item[1])
    return ", ".join(f"{BY_ID[name].label} {100 * share:.0f} %" for name, share in largest if share)


def _lines(summary: Summary, ended_by: int | None) -> Iterator[str]:
    yield from _title(summary, ended_by)
    yield from _verdict(summary)
    if summary.headline is not None:
        yield from _split(summary.headline)
    yield from _functions(summary.functions[:_FUNCTIONS])
    yield from _threads(summary.threads, summary.session.root.pid)
    yield from _machine(summary)
    yield from _notes(summary)


def _title(summary: Summary, ended_by: int | None) -> Iterator[str]:
    root = summary.session.root
    program = summary.program
    language = program.language if program is root else f"{program.language} in pid {program.pid}"
    facts = [f"pid {root.pid}", language, *program.frameworks, f"{summary.window.seconds:.1f} s watched"]
    if len(summary.processes) > 1:
        facts.append(f"{len(summary.processes)} processes")
    if root.pid in summary.ended:
        code = summary.ended[root.pid]
        facts.append("exited" if code is None else ending(code, ended_by))
    yield " ".join(root.cmdline)[:200] or root.name
    yield " · ".join(facts)
    yield from (f"! {note.what}; {note.remedy}" for note in summary.notes if note.source == _RECORDING)
    yield ""


def _verdict(summary: Summary) -> Iterator[str]:
    verdict = summary.verdict
    yield _verdict_line(summary)
    yield from (f"  - {fact}" for fact in verdict.evidence)
    yield from (f"  > {advice}" for advice in verdict.advice)
    yield ""


def _verdict_line(summary: Summary) -> str:
    verdict = summary.verdict
    return f"{'likely ' if verdict.likely else ''}{verdict.title.upper()}: {verdict.sentence}"


def _split(headline: Headline) -> Iterator[str]:
    yield f"{headline.name} ({headline.tid}) spent its time:"
    shares = rounded(headline.states, 3)
    for state in STATES:
        if share := shares.get(state.id, 0.0):
            kinds = _kinds(headline.detail, state.id)
            yield f"  {percent(share)}  {_bar(share)}  {state.label:<9} {kinds or state.meaning}"
    yield ""


def _kinds(detail: Mapping[str, float], state: str) -> str:
    """Return "sync 40 %, copy to host 3 %" for the kinds of a state."""
    kinds = sorted(
        ((share, name.partition(".")[2]) for name, share in detail.items() if name.startswith(state + ".")),
        reverse=True,
    )
    return ", ".join(f"{name.replace('_', ' ')} {100 * share:.0f} %" for share, name in kinds if share >= _FLOOR)


def _functions(rows: tuple[FunctionRow, ...]) -> Iterator[str]:
    if not rows:
        return
    yield "hottest functions      self    total   mostly      where"
    for row in rows:
        state = BY_ID[max(row.states, key=row.states.__getitem__, default="unknown")].label
        yield (f"  {row.name[:38]:<38} {percent(row.self_share)} {percent(row.total_share)}  {state:<9}  {row.place}")
        if called := ", ".join(f"{part.name[:60]} ({part.module}) {100 * part.share:.0f} %" for part in _told(row)):
            yield f"    native: {called}"
    yield ""


def _told(row: FunctionRow) -> Iterator[NativePart]:
    """Yield the native functions that a Python function's own time mostly went into."""
    if row.self_share >= _NATIVE_OF:
        yield from (part for part in row.native[:2] if part.share >= _NATIVE)


def _threads(rows: tuple[ThreadRow, ...], root: int) -> Iterator[str]:
    """Yield the main thread, then the others by the time they worked; those of child processes with their process."""
    if not rows:
        return
    yield "threads"
    ranked = sorted(rows, key=lambda row: (not (row.main and row.pid == root), -row.seconds * row.works))
    for row in ranked[:_THREADS]:
        name = row.name[:28] if row.pid == root else f"{row.name[:18]} · {row.pid}"
        yield f"  {name:<28} {row.role:<10} cpu {_share(row.cpu, 5.1)}  {_shares(row.states)}"
    if len(rows) > _THREADS:
        yield f"  … and {len(rows) - _THREADS} more"
    yield ""


def _machine(summary: Summary) -> Iterator[str]:
    if summary.cpu is not None:
        cpu = summary.cpu
        yield (
            f"cpu    {sum(cpu.cores):.1f} of {len(cpu.cores)} cores in use, "
            f"{_value(cpu.target, '{:.1f}')} of them by this process{_of_children(cpu.children)}"
        )
    for gpu in sorted(summary.gpus, key=lambda gpu: not gpu.used):
        yield _gpu(gpu, summary.efficiency.get(gpu.index))
    if summary.cost is not None:
        cost = summary.cost
        yield (
            f"cost   gputop used {_share(sum(cost.own_cpu.values()), 0.1)} of a core, held the program up "
            f"{_share(cost.stopped, 0.2)} of the time, {_share(cost.failed, 0.1)} of samples failed"
        )


def _of_children(cores: Value) -> str:
    """Name what processes that were never seen themselves used, when it shows."""
    if isinstance(cores, NA) or cores < _SHOWS:
        return ""
    return f" ({cores:.1f} by children that lived too shortly to be looked at)"


def _gpu(gpu: GpuReading, found: Efficiency | None) -> str:
    if gpu.error:
        return f"gpu {gpu.index}  {gpu.name}: {gpu.error}"
    used, total, own = gpu.metric("memory_used_bytes"), gpu.metric("memory_total_bytes"), gpu.target.sm
    mine = f"this process: {own.reason}" if isinstance(own, NA) else f"this process {_share(own)} of its SMs"
    limit = f"; {found.title}: {found.evidence}" if found and gpu.used else ""
    return (
        f"gpu {gpu.index}  {gpu.name}: busy {_share(gpu.metric('utilization'))}, {mine}, "
        f"memory {_gib(used)} of {_gib(total)}, "
        f"{_value(gpu.metric('power_w'), '{:.0f} W')}, {_value(gpu.metric('temperature_c'), '{:.0f} °C')}{limit}"
    )


def _notes(summary: Summary) -> Iterator[str]:
    for note in summary.notes:
        if note.source != _RECORDING:
            yield f"note   {note.source}: {note.what}" + (f" ({note.remedy})" if note.remedy else "")


def percent(share: float) -> str:
    """Return a share as six characters, "  9.4 %"-like, aligned."""
    return f"{100 * share:5.1f} %"


def _share(value: Value, form: float = 0.0) -> str:
    """Return "9.4 %" or N/A; `form` is width.digits as in a format specification."""
    return "N/A" if isinstance(value, NA) else f"{100 * value:{form}f} %"


def _bar(share: float, width: int = 20) -> str:
    return "#" * round(width * share) + "." * (width - round(width * share))


def _value(value: Value, form: str) -> str:
    return "N/A" if isinstance(value, NA) else form.format(value)


def _gib(value: Value) -> str:
    return "N/A" if isinstance(value, NA) else f"{value / 2**30:.1f} GiB"
