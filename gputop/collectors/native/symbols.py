"""Symbols: which function's range holds an address.

Tables are read in bulk (a big library has a million), by a short-lived child process, so that neither the time nor
the memory that takes touches the sampling, and so that a hostile file can at worst kill that child. Names are read
when they are asked for.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import resource
import signal
import struct
import sys
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from gputop.collectors.native.elf import Image, Section
from gputop.collectors.native.symbol_cache import SymbolCache, open_cache

_SYMBOL_SIZE = 24
_MAX_SYMBOLS = 1 << 22
_INDEX_BITS = 22
_SYMTAB, _DYNSYM = 2, 11
_FUNCTION, _INDIRECT_FUNCTION = 2, 10
_BINDING_ORDER = {1: 0, 2: 1, 0: 2}  # global, weak, local
#: More than any name that is kept (`gputop.text.NAME_LIMIT`).
_NAME_BYTES = 512
_MAX_NESTING = 8
_COUNT = struct.Struct("<Q")
#: Bytes of images that one child reads the symbols of: the driver's do not wait for those of torch.
_AT_A_TIME = 1 << 28
#: Images above this size take long: torch's take a second, the driver's, of 100 MB, a tenth.
_LARGE = 1 << 27
#: CPU seconds and wall seconds that reading tables may take before it is given up.
_READ_CPU_S, _READ_WALL_S = 60, 120
#: CPU seconds that reading a table has to take for it to be kept on disk.
_WORTH_KEEPING_S = 0.02
_PR_SET_PDEATHSIG = 1


class Symbols:
    """The functions of one image, sorted by address.

    Attributes:
        wanted: somebody has asked for a name.
        ready: the table is there (perhaps empty).
    """

    def __init__(self, image: Image) -> None:
        self.image = image
        self.wanted = self.ready = False
        self._addresses: Sequence[int] = ()
        self._sizes: Sequence[int] = ()
        self._names: Sequence[int] = ()

    @property
    def large(self) -> bool:
        """Will reading it take long?"""
        return _image_bytes(self) > _LARGE

    def install(self, table: memoryview) -> None:
        """Take the table that `table_of` has made; an empty one means that the file has none."""
        self.ready = True
        count = _COUNT.unpack_from(table)[0] if len(table) >= _COUNT.size else 0
        if len(table) < _COUNT.size + 24 * count:
            return
        columns = table[_COUNT.size : _COUNT.size + 24 * count].cast("Q")
        self._addresses = columns[:count]
        self._sizes = columns[count : 2 * count]
        self._names = columns[2 * count :]

    def name(self, address: int) -> str:
        """Return the function whose range holds the address, as the file spells it; empty when there is none."""
        index = bisect_right(self._addresses, address) - 1
        for candidate in range(index, max(index - _MAX_NESTING, -1), -1):
            if address < self._addresses[candidate] + self._sizes[candidate]:
                return _text(self.image.read_file(self._names[candidate], _NAME_BYTES))
        return ""


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].partition(b"@")[0].decode("utf-8", "replace")


def table_of(image: Image) -> bytes:
    """Read an image's function symbols: their number, then all addresses, sizes and file offsets of names."""
    values: list[int] = []
    sizes: list[int] = []
    names: list[int] = []
    ranks: list[int] = []
    sections = image.sections()
    for section in sections:
        if section.kind in (_SYMTAB, _DYNSYM) and section.link < len(sections):
            for value, size, name, rank in _functions(image, section, sections[section.link]):
                values.append(value)
                sizes.append(size)
                names.append(name)
                ranks.append(rank)
    chosen = list(_distinct(image, values, names, ranks))
    columns = ([column[index] for index in chosen] for column in (values, sizes, names))
    return _COUNT.pack(len(chosen)) + b"".join(struct.pack(f"<{len(chosen)}Q", *column) for column in columns)


def _functions(image: Image, section: Section, strings: Section) -> Iterator[tuple[int, int, int, int]]:
    """Yield address, size, file offset of the name, and rank among aliases of the functions in one table."""
    count = min(section.size // _SYMBOL_SIZE, _MAX_SYMBOLS // 2)
    data = image.read_file(section.offset, count * _SYMBOL_SIZE)
    words = memoryview(data)[: len(data) // _SYMBOL_SIZE * _SYMBOL_SIZE].cast("Q")
    exported = section.kind == _DYNSYM
    for head, value, size in zip(words[::3].tolist(), words[1::3].tolist(), words[2::3].tolist(), strict=True):
        name, kind, section_index = head & 0xFFFFFFFF, head >> 32 & 15, head >> 48
        if kind in (_FUNCTION, _INDIRECT_FUNCTION) and section_index and value and size and name < strings.size:
            rank = 2 * _BINDING_ORDER.get(head >> 36 & 15, 3) + (not exported)
            yield value & (2**40 - 1), min(size, 2**32), strings.offset + name, rank


def _distinct(image: Image, values: list[int], names: list[int], ranks: list[int]) -> Iterator[int]:
    """Yield indices sorted by address, for aliases the one with the most public and plainest name."""
    order = sorted(value << _INDEX_BITS | index for index, value in enumerate(values))

    def preference(index: int) -> tuple[int, int, int, str]:
        text = _text(image.read_file(names[index], _NAME_BYTES))
        return len(text) - len(text.lstrip("_")), ranks[index], len(text), text

    for _, aliases in groupby(order, key=lambda key: key >> _INDEX_BITS):
        indices = [key & (1 << _INDEX_BITS) - 1 for key in aliases]
        yield indices[0] if len(indices) == 1 else min(indices, key=preference)


def _image_bytes(table: Symbols) -> int:
    return sum(segment.size for segment in table.image.segments)


class SymbolReader:
    """Reads symbol tables in a child process, those that are wanted at a time.

    The child hands a table over by sealing the file that it is in: then nothing can change or shorten it any more.

    Args:
        cached: use the user's cache of tables.
    """

    def __init__(self, cached: bool = True) -> None:
        self._cached = cached
        self._child = 0
        self._deadline = 0.0
        self._reading: list[tuple[Symbols, int]] = []

    @property
    def child(self) -> int:
        """Process id of the child at work, 0 when there is none."""
        return self._child

    def read(self, tables: Iterable[Symbols]) -> None:
        """Begin to read these tables, unless others are being read; ask again for those that are not ready then."""
        if self._child or not (tables := sorted(tables, key=_image_bytes)):
            return
        try:
            for table in tables:
                self._reading.append((table, os.memfd_create("gputop-symbols", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)))
            self._deadline = time.monotonic() + _READ_WALL_S
            self._child = os.fork()
        except OSError:
            self._let_go()
            return
        if self._child == 0:
            self._read_and_exit()

    def _read_and_exit(self) -> None:
        """Be the child."""
        failed = True
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            resource.setrlimit(resource.RLIMIT_CPU, (_READ_CPU_S, _READ_CPU_S))
            os.nice(5)
            _read_all(self._reading, open_cache() if self._cached else None)
            failed = False
        finally:
            sys.stdout = sys.stderr = None
            os._exit(failed)

    def poll(self) -> None:
        """Take the tables that are there; ends a child that takes too long."""
        if not self._child:
            return
        if time.monotonic() > self._deadline:
            os.kill(self._child, signal.SIGKILL)
        ended, status = os.waitpid(self._child, os.WNOHANG)
        self._take()
        if ended:
            if status and self._reading:
                # The first table that was not read has killed the child, if it was not the cache.
                self._reading[0][0].install(memoryview(b""))
                self._cached = False
            self._let_go()

    def close(self) -> None:
        """End the child."""
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
            self._let_go()

    def _take(self) -> None:
        """Install what has been handed over."""
        done = [(table, fd) for table, fd in self._reading if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE]
        self._reading = [item for item in self._reading if item not in done]
        for table, fd in done:
            table.install(memoryview(mmap.mmap(fd, 0, prot=mmap.PROT_READ)))
            os.close(fd)

    def _let_go(self) -> None:
        for _, fd in self._reading:
            os.close(fd)
        self._reading, self._child = [], 0


def _read_all(reading: Iterable[tuple[Symbols, int]], cache: SymbolCache | None) -> None:
    """Hand over the tables that are in the cache, then read the other ones, the smallest first, up to an amount."""
    absent, total = [], 0
    for table, fd in reading:
        found = cache.load(table.image.identity()) if cache else b""
        if found:
            _hand_over(found, fd)
        else:
            absent.append((table, fd))
    for table, fd in absent:
        total += _image_bytes(table)
        if total > _AT_A_TIME and total > _image_bytes(table):
            return
        _read_one(table.image, fd, cache)


def _read_one(image: Image, fd: int, cache: SymbolCache | None) -> None:
    """Read a table and hand it over; keep it for the next time if it took long and the file is still the same."""
    identity, started = image.identity(), time.process_time()
    table = table_of(image)
    took = time.process_time() - started
    _hand_over(table, fd)
    if cache and identity and took > _WORTH_KEEPING_S and identity == image.identity():
        cache.store(identity, table)


def _hand_over(table: bytes, fd: int) -> None:
    with open(fd, "wb", closefd=False) as file:
        file.write(table)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
