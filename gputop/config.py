"""Settings: command-line flag > `GPUTOP_*` variable > TOML file > default."""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from gputop.errors import GputopError, UsageError

#: A line that sets a value on one line, with what comes before and after the value.
_ASSIGNMENT = re.compile(
    r"""(?P<head>\s*["']?(?P<name>\w+)["']?\s*=\s*)(?P<value>"[^"]*"|'[^']*'|[^\s#"']+)(?P<tail>\s*(?:\#.*)?)$"""
)

#: What the variables begin with, and those among them that are no settings: the settings file, what gputop sets for
#: the programs that it starts, and what its tests read.
_PREFIX = "GPUTOP_"
_OTHER_VARIABLES = ("GPUTOP_CONFIG", "GPUTOP_AGENT_", "GPUTOP_PYTHONS", "GPUTOP_NVML_SCRIPT")
#: Names less alike than this (`difflib`) are not meant.
_NEAR = 0.45

_YES, _NO = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a user can set; each field's metadata is its one-line help and its allowed values."""

    hz: float = field(default=2.0, metadata={"help": "screen updates each second", "range": (0.5, 10)})
    window: float = field(default=60.0, metadata={"help": "seconds shown and summed", "range": (1, 3600)})
    stack_rate: float = field(default=100.0, metadata={"help": "Python stacks each second", "range": (1, 1000)})
    peek_rate: float = field(default=50.0, metadata={"help": "native looks each second", "range": (1, 500)})
    budget: float = field(
        default=1.0, metadata={"help": "percent of its time the target may be held up", "range": (0, 100)}
    )
    own_budget: float = field(
        default=10.0, metadata={"help": "percent of one core gputop may use itself", "range": (1, 400)}
    )
    tree: bool = field(default=True, metadata={"help": "follow the target's children"})
    theme: str = field(default="dark", metadata={"help": "colours", "choices": ("dark", "light", "ansi")})
    glyphs: str = field(
        default="auto",
        metadata={"help": "characters to draw with", "choices": ("auto", "braille", "block", "ascii")},
    )
    mouse: bool = field(default=True, metadata={"help": "let the mouse work in the screen"})
    kineto: str = field(
        default="auto",
        metadata={"help": "torch's own traces: auto means torch 2.10 and newer", "choices": ("auto", "on", "off")},
    )
    inject: bool = field(default=True, metadata={"help": "may offer to switch on torch's profiler in the target"})


class _Given(NamedTuple):
    """A value as it was given, and where: "--hz", "the variable GPUTOP_HZ", "hz in FILE"."""

    value: Any
    source: str


def config_path() -> Path:
    """Return where the settings file is looked for (`GPUTOP_CONFIG` wins)."""
    explicit = os.environ.get("GPUTOP_CONFIG")
    if explicit:
        return Path(explicit)
    import platformdirs

    return platformdirs.user_config_path("gputop") / "config.toml"


def state_dir() -> Path:
    """Return the private directory for program output and snapshots, made when missing."""
    import platformdirs

    path = platformdirs.user_state_path("gputop")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def load(flags: Mapping[str, Any], environ: Mapping[str, str] = os.environ, path: Path | None = None) -> Settings:
    """Merge flags (None = not given), environment and file into settings.

    Raises:
        UsageError: a value that does not parse or is out of range, naming where it came from.
    """
    path = path if path is not None else config_path()
    chosen = {name: _Given(value, f"{name} in {path}") for name, value in _from_file(path).items()}
    chosen |= _from_environ(environ)
    chosen |= {name: _Given(value, _flag(name)) for name, value in flags.items() if value is not None}
    known = {item.name: item for item in fields(Settings)}
    return Settings(**{name: _checked(known[name], value) for name, value in chosen.items() if name in known})


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def save(changes: Mapping[str, Any], path: Path | None = None) -> Path:
    """Write these settings to the settings file and return its path; every other line of it stays as it is.

    Raises:
        UsageError: the file that is there is not TOML.
        GputopError: it cannot be written; what was there is left as it was.
    """
    path = path if path is not None else config_path()
    path = path.resolve() if path.is_symlink() else path
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        new = _edited(old, changes)
        if _loads(path, new) != {**_loads(path, old), **changes}:
            raise GputopError(f"{path} is written in a way that gputop cannot change safely", "edit it by hand")
        _replace(path, new)
    except OSError as error:
        raise GputopError(f"cannot write {path}: {error.strerror}", "set GPUTOP_CONFIG to a file you own") from error
    return path


def _edited(text: str, changes: Mapping[str, Any]) -> str:
    """Return TOML with these values; new ones come before the first table."""
    lines = text.splitlines()
    end = next((place for place, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    left = dict(changes)
    for place, line in enumerate(lines[:end]):
        found = _ASSIGNMENT.match(line)
        if found and found["name"] in left:
            lines[place] = f"{found['head']}{_as_toml(left.pop(found['name']))}{found['tail']}"
    lines[end:end] = [f"{name} = {_as_toml(value)}" for name, value in left.items()]
    return "\n".join(lines) + "\n"


def _as_toml(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def _replace(path: Path, text: str) -> None:
    """Put a new file in the place of the old one at once; only the user may read it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _from_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return {}
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text", "mend the file or set GPUTOP_CONFIG to another one") from error
    return _parse_toml(path, text)


def _parse_toml(path: Path, text: str) -> dict[str, Any]:
    values = _loads(path, text)
    unknown = sorted(set(values) - {item.name for item in fields(Settings)})
    if unknown:
        raise UsageError(f"{path}: no such setting: {', '.join(unknown)}", "see gputop --help for the names")
    return values


def _loads(path: Path, text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        values: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}", "mend the file or set GPUTOP_CONFIG to another one") from error
    return values


def _from_environ(environ: Mapping[str, str]) -> dict[str, _Given]:
    return {
        key[len(_PREFIX) :].lower(): _Given(value, f"the variable {key}")
        for key, value in environ.items()
        if key.startswith(_PREFIX)
    }


def unknown_variables(environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a sentence for each `GPUTOP_*` variable that nothing reads, with the name that may be meant."""
    settings = [item.name for item in fields(Settings)]
    for key in sorted(environ):
        name = key.removeprefix(_PREFIX).lower()
        if not key.startswith(_PREFIX) or name in settings or key.startswith(_OTHER_VARIABLES):
            continue
        near = difflib.get_close_matches(name, [*settings, "config"], 1, _NEAR)
        cure = f"did you mean {_PREFIX}{near[0].upper()}?" if near else "gputop --help lists the settings"
        yield f"the variable {key} changes nothing; {cure}"


def _checked(item: Field[Any], given: _Given) -> Any:
    """Convert a value to the field's type and check its range or choices."""
    choices = item.metadata.get("choices")
    try:
        value = str(given.value) if choices else _converted(item.default, given.value)
    except (ValueError, TypeError) as error:
        kind = "neither yes nor no" if isinstance(item.default, bool) else "not a number"
        raise _wrong(item, given, kind) from error
    low, high = item.metadata.get("range", (None, None))
    if low is not None and not low <= value <= high:
        raise _wrong(item, given, f"outside {low:g} … {high:g}")
    if choices and value not in choices:
        raise _wrong(item, given, f"none of {', '.join(choices)}")
    return value


def _wrong(item: Field[Any], given: _Given, why: str) -> UsageError:
    """Return the error for a value: where it came from, why it cannot be, and what can."""
    low, high = item.metadata.get("range", (None, None))
    allowed = "yes or no" if low is None else f"a number from {low:g} to {high:g}"
    if choices := item.metadata.get("choices"):
        allowed = f"one of {', '.join(choices)}"
    value = str(given.value) or "''"
    return UsageError(f"{given.source}: {value} is {why}", f"give {allowed} ({item.metadata['help']})")


def _converted(default: Any, value: Any) -> Any:
    if isinstance(default, bool):
        word = str(value).lower()
        if word not in _YES | _NO:
            raise ValueError(value)
        return word in _YES
    if isinstance(value, bool):  # which float() takes for 0 or 1
        raise ValueError(value)
    value = type(default)(value)
    if value != value:  # nan
        raise ValueError(value)
    return value
