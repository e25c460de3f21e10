"""Addresses of what a library exports."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator

from gputop.collectors.native.elf import Image

_SYMBOL = struct.Struct("<IBBHQQ")
_DYNSYM = 11
_OBJECT, _FUNCTION = 1, 2
#: More than any interpreter exports.
_MAX_SYMBOLS, _MAX_NAMES_BYTES = 1 << 17, 8 << 20


def exported_data(image: Image, names: Collection[str]) -> dict[str, int]:
    """Return the addresses, in the image, of those of the named variables that it exports."""
    return {name: address for name, address, _ in _exported(image, _OBJECT) if name in names}


def exported_function(image: Image, name: str) -> tuple[int, int] | None:
    """Return the address, in the image, and the size of a function that it exports; None when it does not."""
    return next(((address, size) for found, address, size in _exported(image, _FUNCTION) if found == name), None)


def _exported(image: Image, wanted: int) -> Iterator[tuple[str, int, int]]:
    """Yield name, address and size of all exported symbols of a kind."""
    sections = image.sections()
    for section in sections:
        if section.kind != _DYNSYM or section.link >= len(sections):
            continue
        strings = sections[section.link]
        texts = image.read_file(strings.offset, min(strings.size, _MAX_NAMES_BYTES))
        table = image.read_file(section.offset, min(section.size, _MAX_SYMBOLS * _SYMBOL.size))
        for name, kind, _, defined, value, size in _SYMBOL.iter_unpack(
            table[: len(table) // _SYMBOL.size * _SYMBOL.size]
        ):
            if kind & 15 == wanted and defined:
                yield texts[name : texts.find(b"\0", name)].decode("utf-8", "replace"), value, size
