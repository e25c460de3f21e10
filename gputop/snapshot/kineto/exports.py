"""Where a library's exported functions are in a process: looked up in its GNU hash table, without reading the rest."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gputop.collectors.native.arch import here
from gputop.collectors.native.elf import ElfError, FileSource, Image, Section
from gputop.snapshot.kineto.detect import Library
from gputop.target.files import inside, open_regular

_GNU_HASH = 0x6FFFFFF6
_HASH_HEADER = struct.Struct("<IIII")
_SYMBOL = struct.Struct("<IBBHQQ")
_LONGEST_CHAIN = 4096


def addresses(pid: int, library: Library, names: Sequence[str]) -> dict[str, int] | None:
    """Return the addresses of exported functions in a process; None when one of them is not there."""
    try:
        descriptor = open_regular(inside(pid, library.path))
    except OSError:
        return None
    source = FileSource(descriptor)
    try:
        found = _offsets(source, names)
    except (ElfError, struct.error, StopIteration):
        return None
    finally:
        source.close()
    return {name: library.start + offset for name, offset in found.items()} if len(found) == len(names) else None


def _offsets(source: FileSource, names: Sequence[str]) -> dict[str, int]:
    """Return how far behind the start of the first segment each function is."""
    arch = here()
    if arch is None:
        return {}
    image = Image(source, arch.elf_machine)
    sections = image.sections()
    table = next(section for section in sections if section.kind == _GNU_HASH)
    symbols = sections[table.link]
    base = min(segment.address - segment.offset for segment in image.segments)
    values = ((name, _value(image, table, symbols, sections[symbols.link], name)) for name in names)
    return {name: value - base for name, value in values if value}


def _value(image: Image, table: Section, symbols: Section, strings: Section, name: str) -> int:
    """Look a name up (format: https://flapenguin.me/elf-dt-gnu-hash); 0 when it is not exported."""
    buckets, first, bloom, _ = _HASH_HEADER.unpack(image.read_file(table.offset, _HASH_HEADER.size))
    at_buckets = table.offset + _HASH_HEADER.size + 8 * bloom
    wanted = gnu_hash(name.encode())
    (index,) = struct.unpack("<I", image.read_file(at_buckets + 4 * (wanted % buckets), 4))
    if index < first:
        return 0
    chain = image.read_file(at_buckets + 4 * buckets + 4 * (index - first), 4 * _LONGEST_CHAIN)
    for number, (found,) in enumerate(struct.iter_unpack("<I", chain[: len(chain) // 4 * 4])):
        if found | 1 == wanted | 1:
            entry = image.read_file(symbols.offset + _SYMBOL.size * (index + number), _SYMBOL.size)
            text, _, _, section, value, _ = _SYMBOL.unpack(entry)
            if section and image.read_file(strings.offset + text, len(name) + 1) == name.encode() + b"\0":
                return int(value)
        if found & 1:
            break
    return 0


def gnu_hash(name: bytes) -> int:
    """Return the hash that GNU's linker files a name under."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value
