"""Flags and words. The line is split at the first `--` by hand, because everything after it belongs to the program:
argparse would take the program's own `--pid 3` for ours."""

from __future__ import annotations

import argparse
import difflib
import platform
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

import gputop
from gputop.config import Settings, load
from gputop.errors import UsageError


@dataclass(frozen=True, slots=True)
class Invocation:
    """A parsed command line: which command, its flags, the settings, and the program to launch (empty = none)."""

    command: str
    flags: argparse.Namespace
    settings: Settings
    program: tuple[str, ...]


class _Parser(argparse.ArgumentParser):
    """argparse that raises our errors, so that every error looks alike."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"{self.prog} --help shows what there is")


def parse(argv: Sequence[str]) -> Invocation:
    """Parse a command line (without the program's name).

    Raises:
        UsageError: it does not fit together.
        SystemExit: after --help or --version.
    """
    from gputop.cli.commands import COMMANDS

    own, program = _split(argv)
    name, own = _named(own)
    command = COMMANDS[name]
    parser = _Parser(
        prog=f"gputop {name}".strip(),
        usage=command.usage,
        description=command.help,
        epilog=_epilog() if not name else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.arguments(parser)
    _add_settings(parser)
    flags, extra = parser.parse_known_args(own)
    if extra:
        raise _misplaced(name, extra[0], own, program)
    return Invocation(name, flags, load(_given(flags)), program)


def _split(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    if "--" not in argv:
        return list(argv), ()
    at = list(argv).index("--")
    if at == len(argv) - 1:
        raise UsageError("there is no command after --", "for example: gputop -- python infer.py")
    return list(argv[:at]), tuple(argv[at + 1 :])


def _named(own: list[str]) -> tuple[str, list[str]]:
    """Return the command's name and the words without it; settings may stand before the name."""
    from gputop.cli.commands import COMMANDS

    settings = _Parser(prog="gputop", add_help=False, allow_abbrev=False)
    _add_settings(settings)
    words = settings.parse_known_args(own)[1] if own and own[0].startswith("-") else own
    if not words or words[0] not in COMMANDS or not words[0]:
        return "", own
    at = own.index(words[0])
    return words[0], own[:at] + own[at + 1 :]


def _misplaced(name: str, word: str, own: list[str], program: tuple[str, ...]) -> UsageError:
    """Return the error for a word that is neither a flag nor a command, with the likeliest correction."""
    from gputop.cli.commands import COMMANDS

    if word.startswith("-"):
        return UsageError(f"there is no flag {word}", f"{f'gputop {name}'.strip()} --help shows what there is")
    what = f"what is {word or 'the empty word'}?"
    if name:
        return UsageError(what, f"usage: {COMMANDS[name].usage}")
    if word.isdigit():
        return UsageError(what, f"did you mean: gputop --pid {word}")
    at = own.index(word)
    if word and word in COMMANDS:
        line = ["gputop", word, *own[:at], *own[at + 1 :], *(["--"] if program else []), *program]
        return UsageError(f"{word} comes too late", f"did you mean: {shlex.join(line)}")
    if not Path(word).exists() and (near := difflib.get_close_matches(word, [name for name in COMMANDS if name], 1)):
        return UsageError(f"there is no command {word}", f"did you mean: gputop {near[0]}")
    line = ["gputop", "--", *(["python"] if word.endswith(".py") else []), *own[at:], *program]
    return UsageError(what, f"did you mean: {shlex.join(line)}")


def add_target(parser: argparse.ArgumentParser, recording: str = "") -> None:
    """Add the flags that say what to look at; `recording` names the positional file where one is taken instead."""
    if recording:
        parser.add_argument("file", nargs="?", type=_recording(parser.prog), metavar="FILE", help=recording)
    parser.add_argument("--pid", type=_pid, metavar="PID", help="attach to this running process")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="file for a launched program's output (default: in the state directory)",
    )


def _recording(prog: str) -> Callable[[str], Path]:
    """Return what makes a path of a word, unless another target is meant by it."""

    def path(word: str) -> Path:
        if word.isdigit() and not Path(word).exists():
            raise UsageError(f"what is {word}?", f"did you mean: {prog} --pid {word}")
        if word.endswith(".py"):
            raise UsageError(f"{word} is a program, not a recording", f"did you mean: {prog} -- python {word}")
        return Path(word)

    return path


def add_duration(parser: argparse.ArgumentParser, default: float | None, meaning: str) -> None:
    """Add `--duration`."""
    parser.add_argument("--duration", type=seconds, default=default, metavar="S", help=meaning)


def _pid(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a process id")
    return int(text)


def seconds(text: str) -> float:
    """Read a number of seconds from the command line."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"{text} is not a sensible number of seconds")
    return value


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """Add one flag for each setting; a flag that is not given leaves the choice to environment, file and default."""
    group = parser.add_argument_group("settings", "also GPUTOP_NAME in the environment, and the settings file")
    for item in fields(Settings):
        flag, meaning = item.name.replace("_", "-"), item.metadata["help"]
        if isinstance(item.default, bool):
            group.add_argument(
                f"--no-{flag}", dest=item.name, action="store_false", default=None, help=f"not: {meaning}"
            )
        else:
            choices = item.metadata.get("choices")
            group.add_argument(
                f"--{flag}",
                metavar="|".join(choices) if choices else "N",
                help=f"{meaning} (default {item.default:g})" if not choices else f"{meaning} (default {item.default})",
            )


def _given(flags: argparse.Namespace) -> dict[str, Any]:
    return {item.name: getattr(flags, item.name) for item in fields(Settings)}


def _epilog() -> str:
    from gputop.cli.commands import COMMANDS

    width = max(len(name) for name in COMMANDS) + 2
    lines = [f"  gputop {name:<{width}}{command.help}" for name, command in COMMANDS.items() if name]
    return "commands:\n" + "\n".join(lines) + f"\n\ngputop {gputop.__version__}, Python {platform.python_version()}"
