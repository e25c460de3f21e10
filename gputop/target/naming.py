"""A short name for a process: what a person would call it, not which interpreter runs it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputop.target.files import base
from gputop.text import printable

#: Python's command as typed or as the kernel has it ("python", "python3.12", "python3.13t", "pypy3").
PYTHON = re.compile(r"(?:python|pypy)[\d.]*t?(?:-dbg)?$")

#: One-letter options of Python that take a value in the next word.
_VALUED = ("W", "X")

#: What the standard library starts with `-c`, by a part of the code.
_KNOWN_CODE = (
    ("multiprocessing.spawn", "multiprocessing worker"),
    ("multiprocessing.forkserver", "multiprocessing fork server"),
    ("multiprocessing.resource_tracker", "multiprocessing resource tracker"),
)

_NAME_LIMIT = 60


def short_name(cmdline: Sequence[str], comm: str) -> str:
    """Return "train.py" for `python -u train.py --epochs 3`, a module for `-m`, the program's name otherwise.

    A process that renamed itself (setproctitle, a worker's own name) keeps that name.
    """
    if not cmdline or not cmdline[0]:
        return printable(f"[{comm}]", _NAME_LIMIT)
    program = base(cmdline[0])
    if not PYTHON.match(program):
        title = cmdline[0] if " " in cmdline[0] and not cmdline[0].startswith("/") else program
        return printable(title or comm, _NAME_LIMIT)
    name = _python_name(cmdline[1:]) or program
    renamed = comm != program[:15] and not PYTHON.match(comm) and comm != name[:15]
    return printable(f"{name} [{comm}]" if renamed else name, _NAME_LIMIT)


def short_command(cmdline: Sequence[str]) -> str:
    """Return the command line as a person types it: program and Python script without their directories."""
    if not cmdline:
        return ""
    program, *arguments = cmdline
    if " " not in program or program.startswith("/"):  # else a title that the process gave itself
        program = base(program)
    if PYTHON.match(program):
        option, place = _what_it_runs(arguments)
        if not option and place < len(arguments):
            arguments[place] = base(arguments[place])
    return printable(" ".join((program, *arguments)))


def _python_name(arguments: Sequence[str]) -> str:
    """Return what a Python command line runs, empty for an interactive interpreter."""
    option, place = _what_it_runs(arguments)
    if place >= len(arguments):
        return ""
    word = arguments[place]
    return word if option == "m" else _code_name(word) if option == "c" else base(word)


def _what_it_runs(arguments: Sequence[str]) -> tuple[str, int]:
    """Return "m", "c" or "" for a module, code or a script, and the place of the word that names it; past the end
    for an interactive interpreter."""
    place = 0
    while place < len(arguments):
        word = arguments[place]
        if not word.startswith("-") or word == "-":
            return "", place
        if not word.startswith("--") and word[-1] in "mc":
            return word[-1], place + 1
        place += 1 if word.startswith("--") or word[-1] not in _VALUED else 2
    return "", place


def _code_name(code: str) -> str:
    return next((name for part, name in _KNOWN_CODE if part in code), "python -c")
