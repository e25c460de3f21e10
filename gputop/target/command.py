"""Where the shell would find a command, and what to say when it would not."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from gputop.errors import CommandNotStartedError
from gputop.text import printable

#: The shell's exit codes: no such command; found, but it cannot be executed.
NOT_FOUND, NOT_EXECUTABLE = 127, 126


def find_program(name: str, environ: Mapping[str, str]) -> str:
    """Return the file that a shell would execute for `name`: as it is with a slash in it, else looked for along PATH.

    Raises:
        CommandNotStartedError: nothing of that name (127), or nothing that may be executed (126).
    """
    candidates = [name] if "/" in name else _along_path(name, environ.get("PATH", os.defpath))
    found = [path for path in candidates if os.path.isfile(path)]
    runnable = next((path for path in found if os.access(path, os.X_OK)), None)
    if runnable is not None:
        return runnable
    if found:
        raise not_executable(name, "it is not marked as executable")
    if "/" in name and os.path.exists(name):
        raise not_executable(name, "it is a directory" if os.path.isdir(name) else "it is not a file")
    raise not_found(name)


def not_found(name: str) -> CommandNotStartedError:
    """Say that there is no such command, and which one may be meant."""
    return CommandNotStartedError(f"{printable(name)!r}: command not found", _meant(name), NOT_FOUND)


def not_executable(name: str, why: str) -> CommandNotStartedError:
    """Say that a file cannot be executed, and what runs it."""
    remedy = _meant(name) if name.endswith(".py") else f"name the program that runs it, or chmod +x {_quoted(name)}"
    return CommandNotStartedError(f"{printable(name)!r} cannot be executed: {why}", remedy, NOT_EXECUTABLE)


def _along_path(name: str, path: str) -> list[str]:
    """Return the places to look; an empty entry means the working directory, as POSIX has it."""
    return [os.path.join(directory or ".", name) for directory in path.split(os.pathsep)] if name else []


def _meant(name: str) -> str:
    if name.endswith(".py"):
        return f"did you mean: gputop -- python {_quoted(name)}"
    if name.startswith("-"):
        return "options of gputop go before the --, the command after it"
    if "/" not in name and os.access(name, os.X_OK) and os.path.isfile(name):
        return f"did you mean: gputop -- ./{_quoted(name)}"
    if name == "python":
        return "did you mean: gputop -- python3"
    return "check the spelling and PATH, or give the whole path"


def _quoted(name: str) -> str:
    return shlex.quote(printable(name))
