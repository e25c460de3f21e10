"""Dataclasses to JSON and back, by their type hints.

What comes from a file may be hostile: reading checks every type, makes texts printable and bounds numbers.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, lru_cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from gputop.model import (
    NA,
    CostBatch,
    GpuBatch,
    HostBatch,
    Note,
    PeekBatch,
    ProcessBatch,
    Session,
    StackBatch,
)
from gputop.text import NAME_LIMIT, printable

#: The kinds of lines in a recording.
BATCHES: Mapping[str, Hashable] = {
    kind.__name__: kind for kind in (Session, ProcessBatch, Note, StackBatch, PeekBatch, HostBatch, GpuBatch, CostBatch)
}

#: No honest number is larger (bytes of a machine's memory, joules, seconds); larger ones break packed storage.
_LARGEST = 1e18

_Read = Callable[[Any], Any]


class MalformedError(ValueError):
    """JSON that is not what its type says."""


def encode(batch: object) -> str:
    """Return a batch as one line of JSON, without the line's end."""
    return json.dumps([type(batch).__name__, batch], default=_plain, separators=(",", ":"))


def _plain(item: object) -> object:
    if isinstance(item, NA):
        return {"na": item.reason}
    if isinstance(item, Mapping):
        return dict(item)
    if is_dataclass(item):
        return {field.name: getattr(item, field.name) for field in fields(item)}
    raise TypeError(f"{type(item).__name__} does not belong in a recording")


def decode(line: str | bytes) -> Any | None:
    """Return the batch that a line holds; None for a kind that a newer version writes.

    Raises:
        MalformedError: the line is not a batch.
    """
    try:
        name, body = json.loads(line)
        kind = BATCHES.get(name)
        return None if kind is None else _reader(kind)(body)
    except MalformedError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedError(str(error)) from error


@cache
def _reader(kind: Any) -> _Read:
    """Return the function that turns JSON into a value of this type."""
    simple = _SIMPLE.get(kind)
    if simple is not None:
        return simple
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is tuple:
        return (
            _items(_reader(arguments[0]))
            if arguments[1:] == (...,)
            else _row(tuple, [_reader(a) for a in arguments], 0)
        )
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(*map(_reader, arguments))
    if is_dataclass(kind):
        return _dataclass(kind)
    return _named_tuple(kind)


def _number(value: Any) -> float:
    if type(value) not in (float, int) or not abs(value) <= _LARGEST:
        raise MalformedError(f"not a number: {value!r:.50}")
    return float(value)


def _integer(value: Any) -> int:
    if type(value) is not int or abs(value) > _LARGEST:
        raise MalformedError(f"not an integer: {value!r:.50}")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise MalformedError(f"not a text: {value!r:.50}")
    return printable(value)


def _truth(value: Any) -> bool:
    if type(value) is not bool:
        raise MalformedError(f"neither true nor false: {value!r:.50}")
    return value


def _nothing(value: Any) -> None:
    if value is not None:
        raise MalformedError(f"not null: {value!r:.50}")


def _not_available(value: Any) -> NA:
    return NA(_text(_object(value).get("na")))


def _object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise MalformedError(f"not an object: {value!r:.50}")
    return value


def _array(value: Any) -> list[Any]:
    if type(value) is not list:
        raise MalformedError(f"not an array: {value!r:.50}")
    return value


_SIMPLE: dict[Any, _Read] = {
    float: _number,
    int: _integer,
    str: _text,
    bool: _truth,
    type(None): _nothing,
    NA: _not_available,
}


def _union(kinds: tuple[Any, ...]) -> _Read:
    readers = [_reader(kind) for kind in kinds]

    def read(value: Any) -> Any:
        for reader in readers:
            try:
                return reader(value)
            except MalformedError:
                continue
        raise MalformedError(f"none of its types: {value!r:.50}")

    return read


def _items(reader: _Read) -> _Read:
    return lambda value: tuple(map(reader, _array(value)))


def _mapping(key: _Read, item: _Read) -> _Read:
    """Keys are texts in JSON; numbers among them are read as such."""
    as_key: _Read = (lambda text: key(int(text))) if key is _integer else key
    return lambda value: {as_key(name): item(entry) for name, entry in _object(value).items()}


def _row(make: Callable[[list[Any]], Any], readers: list[_Read], optional: int) -> _Read:
    """An array with one type for each place; more places than known are a newer version's."""

    def read(value: Any) -> Any:
        items = _array(value)
        if len(items) < len(readers) - optional:
            raise MalformedError(f"too short: {value!r:.50}")
        return make([reader(item) for reader, item in zip(readers, items, strict=False)])

    return read


def _named_tuple(kind: Any) -> _Read:
    hints = get_type_hints(kind)
    readers = [_reader(hints[name]) for name in kind._fields]
    if str not in hints.values():
        return _row(lambda items: kind(*items), readers, len(kind._field_defaults))
    return _repeated(kind, readers)


def _repeated(kind: Any, readers: list[_Read]) -> _Read:
    """Named tuples with texts are frames, and the same frames are in thousands of stacks: each is read once."""

    @lru_cache(maxsize=1 << 14, typed=True)
    def once(*items: Any) -> Any:
        if len(items) < len(readers):
            raise MalformedError(f"too short: {items!r:.50}")
        return kind(*(reader(item) for reader, item in zip(readers, items, strict=False)))

    def read(value: Any) -> Any:
        items = _array(value)
        short = all(len(item) <= NAME_LIMIT for item in items if type(item) is str)
        return (once if short else once.__wrapped__)(*items)  # a hostile file shall not fill the memory

    return read


def _dataclass(kind: Any) -> _Read:
    hints = get_type_hints(kind)
    readers = {field.name: _reader(hints[field.name]) for field in fields(kind)}
    required = {field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING}

    def read(value: Any) -> Any:
        given = _object(value)
        if missing := required - given.keys():
            raise MalformedError(f"{kind.__name__} without {', '.join(sorted(missing))}")
        return kind(**{name: reader(given[name]) for name, reader in readers.items() if name in given})

    return read
