"""Addresses of a library's exported data."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator

from gputop.collectors.native.elf import Image

_SYMBOL = struct.Struct("<IBBHQQ")
_DYNSYM = 11
_OBJECT = 1
#: More than any interpreter exports.
_MAX_SYMBOLS, _MAX_NAMES_BYTES = 1 << 17, 8 << 20


def exported_data(image: Image, names: Collection[str]) -> dict[str, int]:
    """Return the addresses, in the image, of those of the named variables that it exports."""
    return {name: address for name, address in _data(image) if name in names}


def _data(image: Image) -> Iterator[tuple[str, int]]:
    sections = image.sections()
    for section in sections:
        if section.kind != _DYNSYM or section.link >= len(sections):
            continue
        strings = sections[section.link]
        texts = image.read_file(strings.offset, min(strings.size, _MAX_NAMES_BYTES))
        table = image.read_file(section.offset, min(section.size, _MAX_SYMBOLS * _SYMBOL.size))
        for name, kind, _, defined, value, _ in _SYMBOL.iter_unpack(table[: len(table) // _SYMBOL.size * _SYMBOL.size]):
            if kind & 15 == _OBJECT and defined:
                yield texts[name : texts.find(b"\0", name)].decode("utf-8", "replace"), value
