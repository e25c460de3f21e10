"""Modules: the program, libraries and vdso that a process has mapped, shared by all processes that map the same."""

from __future__ import annotations

import os
import re
import stat
from functools import cached_property
from typing import NamedTuple

from gputop.collectors.native.cfi import FrameTable, Rule
from gputop.collectors.native.elf import BytesSource, ElfError, FileSource, Image, Source
from gputop.collectors.native.python.loop import LOOP, moved_part
from gputop.collectors.native.symbols import Symbols
from gputop.model import NativeFrame
from gputop.text import printable

#: Places in code remembered for each module; forgotten together when there are more.
_MAX_SITES = 20000
#: Names of CPython's programs and libraries.
INTERPRETER = re.compile(r"(?:lib)?python\d")
#: Length of a `_start`, generously.
_START_BYTES = 64


class Mapping(NamedTuple):
    """One line of /proc/PID/maps."""

    start: int
    end: int
    permissions: str
    offset: int
    device: str
    inode: int
    path: str

    @property
    def executable(self) -> bool:
        """May hold code."""
        return self.permissions[2] == "x"


class Site:
    """One place in a module's code: how to unwind from it and what it is called.

    The same place is the same object, so that chains compare by identity.

    Attributes:
        module, address: where, in the image's own addresses.
        rule: how to unwind from it, None without tables.
        outermost: its function has no caller.
    """

    __slots__ = ("_frame", "address", "module", "outermost", "rule")

    def __init__(self, module: Module, address: int) -> None:
        self.module = module
        self.address = address
        self.rule: Rule | None = module.rule(address)
        self.outermost = self.rule.outermost if self.rule is not None else module.starts(address)
        self._frame: NativeFrame | None = None

    def frame(self) -> NativeFrame:
        """Return module and symbol; the symbol is empty as long as the module's symbols are not read."""
        if self._frame is None and self.named:
            symbols, nameless = self.module.symbols, self.module.nameless
            name = (symbols.name(self.address) or self.module.unnamed(self.rule)) if symbols is not None else ""
            self._frame = nameless._replace(symbol=printable(name)) if name else nameless
        return self._frame or self.module.nameless

    @property
    def named(self) -> bool:
        """Is all known that will ever be?"""
        return self.module.symbols is None or self.module.symbols.ready


class Module:
    """One ELF image, or code without one (JIT, deleted file): then it has neither rules nor symbols.

    Attributes:
        nameless: the frame of an address without a symbol.
        image: the ELF image, None without one.
        symbols: its symbols, None without an image.
    """

    def __init__(self, name: str, image: Image | None = None, symbols: Symbols | None = None) -> None:
        self.nameless = NativeFrame(printable(name), "")
        self.image, self.symbols = image, symbols
        self._frames = FrameTable(image) if image is not None else None
        self._sites: dict[int, Site] = {}

    def rule(self, address: int) -> Rule | None:
        """Return how to unwind from an address of the image."""
        return self._frames.rule(address) if self._frames is not None else None

    def starts(self, address: int) -> bool:
        """Is the address in the first function of a program? musl's and others have no unwind tables."""
        return self.image is not None and 0 <= address - self.image.entry < _START_BYTES and self.image.entry > 0

    @cached_property
    def _moved_loop(self) -> int:
        return moved_part(self.image, self.rule) if self.image and INTERPRETER.match(self.nameless.module) else 0

    def unnamed(self, rule: Rule | None) -> str:
        """Return the name of a function without a symbol, by its unwind rule; empty when nothing tells it."""
        return LOOP if rule is not None and rule.start == self._moved_loop else ""

    def site(self, address: int) -> Site:
        """Return the place at an address of the image."""
        found = self._sites.get(address)
        if found is None:
            if len(self._sites) >= _MAX_SITES:
                self._sites.clear()
            found = self._sites[address] = Site(self, address)
            if self.symbols is not None:
                self.symbols.wanted = True
        return found


def display_name(path: str) -> str:
    """Return a module's name as frames show it: the file's name, "[vdso]", or nothing for anonymous code."""
    if path.startswith("["):
        return path
    return os.path.basename(path.removesuffix(" (deleted)")) if path.startswith("/") else ""


class ModuleTable:
    """All modules of all processes, one for each file identity (device, inode, size, time of change)."""

    def __init__(self, machine: int) -> None:
        self._machine = machine
        self._modules: dict[tuple[int, int, int, int] | bytes, Module] = {}

    def open(self, pid: int, mapping: Mapping, first_page: bytes) -> Module:
        """Return the module of a mapped file.

        Args:
            pid: a process that has it mapped.
            mapping: where.
            first_page: what the process sees of the file's first bytes; tells another file of the same path.
        """
        name = display_name(mapping.path)
        fd = _open_mapped(pid, mapping)
        if fd is None:
            return Module(name)
        found = os.fstat(fd)
        identity = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if identity not in self._modules:
            self._modules[identity] = self._read(name, FileSource(fd))
        else:
            os.close(fd)
        module = self._modules[identity]
        return module if _same_file(found, mapping, module.image, first_page) else Module(name)

    def _read(self, name: str, source: Source) -> Module:
        try:
            image = Image(source, self._machine)
        except ElfError:
            source.close()
            return Module(name)
        return Module(name, image, Symbols(image))

    def vdso(self, data: bytes) -> Module:
        """Return the module of the kernel's own code in a process, from the process's memory."""
        if data not in self._modules:
            self._modules[data] = self._read("[vdso]", BytesSource(data))
        return self._modules[data]

    def close(self) -> None:
        """Close all files."""
        for module in self._modules.values():
            if module.image is not None:
                module.image.close()
        self._modules.clear()

    def waiting(self) -> list[Symbols]:
        """Return the symbol tables that are wanted and not read yet."""
        symbols = (module.symbols for module in self._modules.values())
        return [table for table in symbols if table is not None and table.wanted and not table.ready]


def _open_mapped(pid: int, mapping: Mapping) -> int | None:
    """Open the file behind a mapping: exactly that one where the kernel lets us, else by path in its own root."""
    links = f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}", f"/proc/{pid}/root{mapping.path}"
    for link in links:
        fd = _open_regular(link)
        if fd is not None:
            return fd
    return None


def _open_regular(path: str) -> int | None:
    """Open a path for reading if it is a regular file; anything else is not even opened (devices act on open)."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    finally:
        os.close(handle)


def _same_file(found: os.stat_result, mapping: Mapping, image: Image | None, first_page: bytes) -> bool:
    """Is the file opened the one that is mapped?

    Device and inode say so, but btrfs and overlayfs show other numbers in maps than stat does; there the first page,
    which holds the headers and the build id, decides.
    """
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    if (device, found.st_ino) == (mapping.device, mapping.inode):
        return True
    return image is not None and bool(first_page) and image.read_file(0, len(first_page)) == first_page
