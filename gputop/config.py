"""Settings: command-line flag > `GPUTOP_*` variable > TOML file > default."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from gputop.errors import GputopError, UsageError

#: A line that sets a value on one line, with what comes before and after the value.
_ASSIGNMENT = re.compile(
    r"""(?P<head>\s*["']?(?P<name>\w+)["']?\s*=\s*)(?P<value>"[^"]*"|'[^']*'|[^\s#"']+)(?P<tail>\s*(?:\#.*)?)$"""
)

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
    chosen = _from_file(path if path is not None else config_path()) | _from_environ(environ)
    chosen |= {name: value for name, value in flags.items() if value is not None}
    known = {item.name: item for item in fields(Settings)}
    return Settings(**{name: _checked(known[name], value) for name, value in chosen.items() if name in known})


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


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    names = {item.name for item in fields(Settings)}
    found = {key[7:].lower(): value for key, value in environ.items() if key.startswith("GPUTOP_")}
    return {name: value for name, value in found.items() if name in names}


def _checked(item: Any, value: Any) -> Any:
    """Convert a value to the field's type and check its range or choices."""
    try:
        value = _converted(item.default, value)
    except (ValueError, TypeError) as error:
        raise UsageError(f"setting {item.name}: {value!r} is not a {type(item.default).__name__}") from error
    low, high = item.metadata.get("range", (None, None))
    if low is not None and not low <= value <= high:
        raise UsageError(f"setting {item.name}: {value:g} is outside {low:g} … {high:g}")
    choices = item.metadata.get("choices")
    if choices and value not in choices:
        raise UsageError(f"setting {item.name}: {value!r} is none of {', '.join(choices)}")
    return value


def _converted(default: Any, value: Any) -> Any:
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        words = {
            "1": True,
            "true": True,
            "yes": True,
            "on": True,
            "0": False,
            "false": False,
            "no": False,
            "off": False,
        }
        if str(value).lower() not in words:
            raise ValueError(value)
        return words[str(value).lower()]
    if isinstance(value, bool):  # which float() takes for 0 or 1
        raise ValueError(value)
    return type(default)(value)
