"""The commands, one line each: name to flags and action. Each action imports what it needs when it runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gputop
from gputop.cli.arguments import Invocation, add_duration, add_target, seconds
from gputop.errors import FAILED, OK, UsageError

_TARGET = "(--pid PID | -- COMMAND…)"


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its line in the help, its usage line, its flags, and what it does."""

    help: str
    usage: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Invocation], int]


# ------------------------------------------------------------------------------------------------ the screen


def _screen_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("--plain", action="store_true", help="text for screen readers and logs instead of the screen")
    parser.add_argument(
        "--interval",
        type=seconds,
        default=5.0,
        metavar="S",
        help="with --plain: seconds between two blocks (default 5)",
    )
    parser.add_argument("--version", action="version", version=f"gputop {gputop.__version__}")


def _screen(invocation: Invocation) -> int:
    if invocation.flags.plain:
        from gputop.cli.plain import run as plain

        return plain(invocation)
    from gputop.cli.screen import run

    return run(invocation)


def _demo_arguments(parser: argparse.ArgumentParser) -> None:
    from gputop.demo import STAGES

    parser.add_argument("stage", nargs="?", default="naive", choices=STAGES, help="which part of the story to run")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where the job's output goes")
    parser.set_defaults(pid=None, plain=False)


def _demo(invocation: Invocation) -> int:
    from dataclasses import replace

    from gputop.demo import command

    return _screen(replace(invocation, program=command(invocation.flags.stage)))


# ------------------------------------------------------------------------------------------- without a screen


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser, recording="a recording, or a torch trace (.json, .json.gz), to report on")
    add_duration(parser, None, "how long to watch (default: 10 when attached, to the end when launched)")
    parser.add_argument("--json", action="store_true", help="machine-readable, schema gputop.report/1")


def _report(invocation: Invocation) -> int:
    from gputop.cli.report import run

    return run(invocation)


def _record_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("-o", dest="file", type=Path, required=True, metavar="FILE.gputop", help="the recording")
    add_duration(parser, None, "how long to record (default: until the target ends or Ctrl-C)")


def _record(invocation: Invocation) -> int:
    from gputop.cli.record import run

    return run(invocation)


def _replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.gputop", help="the recording")


def _replay(invocation: Invocation) -> int:
    from gputop.cli.screen import replay

    return replay(invocation)


def _diff_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", type=Path, metavar="BEFORE.gputop", help="a recording from before the change")
    parser.add_argument("after", type=Path, metavar="AFTER.gputop", help="one from after it")
    add_duration(parser, None, "compare the last seconds only, for example without the start-up")
    parser.add_argument("--json", action="store_true", help="machine-readable, schema gputop.diff/1")


def _diff(invocation: Invocation) -> int:
    from gputop.cli.diff import run

    return run(invocation)


def _snapshot_arguments(parser: argparse.ArgumentParser) -> None:
    from gputop.snapshot import formats

    add_target(parser, recording="a recording to take the trace from")
    parser.epilog = _ENDINGS + "\n".join(f"  {' '.join(item.endings):<26}{item.title}" for item in formats.FORMATS[1:])
    parser.add_argument(
        "-o", dest="trace", type=Path, required=True, metavar="TRACE", help="the trace; its ending decides the format"
    )
    add_duration(parser, 5.0, "seconds in the trace (default 5; torch's own at most 30)")
    parser.add_argument("--stacks", action="store_true", help="torch traces: Python functions too (4 times the size)")
    parser.add_argument("--shapes", action="store_true", help="torch traces: the operators' input shapes too")
    parser.add_argument("--yes", action="store_true", help="may switch on torch's tracing inside the running program")


_ENDINGS = """\
torch's own trace, where the program lets it be taken, has the operators, CUDA calls, kernels and copies; without it the
trace is made of what gputop samples. Both have stacks, states, CPU, memory and GPU counters. The program's ranks are
all traced, a file each and an index. Memory is in it as counters; torch tells its own allocations to no one outside.
torch crashes in a program that ends while it is recorded: one that gputop started, or switched on by sys.remote_exec
(Python 3.14), waits for its trace; of another, see that it goes on for some seconds.

what the name may end in, each also with .gz:
  .json                     a trace for Perfetto; .pt.trace.json.gz for HTA and TensorBoard
"""


def _snapshot(invocation: Invocation) -> int:
    from gputop.cli.snapshot import run

    return run(invocation)


def _nothing(parser: argparse.ArgumentParser) -> None:
    """Add no flags."""


def _doctor(invocation: Invocation) -> int:
    from gputop.target.doctor import run_checks

    if invocation.program:
        raise UsageError("doctor looks at the machine, not at a command", "gputop doctor")
    marks = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL"}
    checks = run_checks()
    for check in checks:
        print(f"{marks[check.status]}  {check.name:<22} {check.finding}")
        if check.remedy and check.status != "ok":
            print(f"      {'':<22} → {check.remedy}")
    return FAILED if any(check.status == "fail" for check in checks) else OK


COMMANDS: dict[str, Command] = {
    "": Command("what a process is waiting for, live", f"gputop [settings] [{_TARGET}]", _screen_arguments, _screen),
    "report": Command(
        "the same facts without a screen",
        f"gputop report [--duration S] [--json] {_TARGET[:-1]} | FILE.gputop)",
        _report_arguments,
        _report,
    ),
    "record": Command(
        "keep everything sampled", f"gputop record -o FILE.gputop [--duration S] {_TARGET}", _record_arguments, _record
    ),
    "replay": Command("the screen over a recording", "gputop replay FILE.gputop", _replay_arguments, _replay),
    "diff": Command(
        "did a change help, and where",
        "gputop diff [--duration S] [--json] BEFORE.gputop AFTER.gputop",
        _diff_arguments,
        _diff,
    ),
    "snapshot": Command(
        "a profiler trace, as the key s saves it",
        f"gputop snapshot -o TRACE [--duration S] {_TARGET[:-1]} | FILE.gputop)",
        _snapshot_arguments,
        _snapshot,
    ),
    "doctor": Command("what works on this machine, and what helps", "gputop doctor", _nothing, _doctor),
    "demo": Command("a built-in job to look at; needs no GPU", "gputop demo [STAGE]", _demo_arguments, _demo),
}
