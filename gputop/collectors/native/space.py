"""The address space of one process: which code is where, and where the interpreter keeps its data."""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_right
from collections.abc import Iterator

from gputop.collectors.native.arch import Arch
from gputop.collectors.native.elf import Image
from gputop.collectors.native.memory import read_memory
from gputop.collectors.native.modules import INTERPRETER, Mapping, Module, ModuleTable, Site, display_name

_LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) (\S+) (\d+) *(.*)")
#: Addresses remembered for each process; forgotten together when there are more.
_MAX_PLACES = 50000
_PAGE = 4096
_STUB_BYTES = 16
_MAX_VDSO = 64 << 10
#: Reading the maps may take up to this share of the time.
_REFRESH_SHARE = 0.01
_MIN_REFRESH_S = 0.2
_FULL_REFRESH_S = 15.0


def parse_maps(text: str) -> list[Mapping]:
    """Parse /proc/PID/maps, in order of address; lines that do not look like one are skipped."""
    found = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            start, end, permissions, offset, device, inode, path = match.groups()
            found.append(Mapping(int(start, 16), int(end, 16), permissions, int(offset, 16), device, int(inode), path))
    return found


def interpreter_data(mappings: list[Mapping]) -> tuple[tuple[int, int], ...]:
    """Return the writable data of every CPython: its file's rw mappings and the anonymous .bss right behind."""
    ranges = []
    end = None
    for mapping in mappings:
        ours = INTERPRETER.match(os.path.basename(mapping.path)) is not None
        behind = not mapping.path and mapping.start == end
        end = None
        if mapping.permissions.startswith("rw") and (ours or behind):
            ranges.append((mapping.start, mapping.end))
            end = mapping.end
    return tuple(ranges)


class AddressSpace:
    """Code and interpreter data of one process, read again when an address is not known.

    Attributes:
        revision: changes whenever the code that is mapped does.
    """

    def __init__(self, pid: int, arch: Arch, modules: ModuleTable) -> None:
        self.revision = 0
        self._pid, self._arch, self._modules = pid, arch, modules
        self._mappings: list[Mapping] = []
        self._starts: list[int] = []
        self._first: dict[tuple[int, str], int] = {}
        self._loaded: dict[tuple[int, int, str], Module] = {}
        self._places: dict[int, Site] = {}
        self._calls: dict[int, bool] = {}
        self._interpreter: tuple[tuple[int, int], ...] = ()
        self._next_refresh = self._full_refresh = 0.0
        self._pause = _MIN_REFRESH_S

    def forget(self) -> None:
        """Forget everything: the process runs another program now."""
        self._mappings, self._starts, self._interpreter = [], [], ()
        self._loaded.clear()
        self._places.clear()
        self._calls.clear()
        self._next_refresh = self._full_refresh = 0.0

    def place(self, address: int) -> Site | None:
        """Return the place of a code address; None where no code is mapped."""
        found = self._places.get(address)
        if found is None:
            found = self._find(address)
            if found is not None:
                self._places[address] = found
        return found

    def is_interpreter_data(self, address: int) -> bool:
        """Does the address lie in CPython's own static data (the GIL does)?"""
        return any(start <= address < end for start, end in self._interpreter)

    def interpreters(self) -> Iterator[tuple[str, Image, int]]:
        """Yield CPython's program and libraries: file name, image, and how far it was moved when it was loaded."""
        for mapping in self._mappings:
            name = os.path.basename(mapping.path)
            image = self._module(mapping).image if INTERPRETER.match(name) else None
            # A segment may begin within the first page of what is mapped for it.
            last = image.code_address(mapping.offset + _PAGE - 1) if image is not None else None
            if image is not None and last is not None:
                yield name, image, mapping.start + _PAGE - 1 - last

    def follows_call(self, address: int) -> bool:
        """Is there code at the address, right behind a call instruction?"""
        if self._mapping(address - 1) is None:
            return False
        found = self._calls.get(address)
        if found is None:
            if len(self._calls) >= _MAX_PLACES:
                self._calls.clear()
            found = self._calls[address] = self._read_call(address)
        return found

    def _read_call(self, address: int) -> bool:
        window = self._arch.call_window
        before = read_memory(self._pid, address - window, window)
        return len(before) == window and self._arch.follows_call(before)

    def callee(self, behind: int) -> int | None:
        """Return the function that the call before an address calls; None when only the processor can tell.

        Of a linkage stub (PLT entry) it is what the stub jumps to.
        """
        window = self._arch.call_window
        target = self._arch.call_target(read_memory(self._pid, behind - window, window), behind)
        if target is None:
            return None
        kind, address = target
        pointer: int | None = address
        if kind == "code":
            pointer = self._arch.stub_pointer(read_memory(self._pid, address, _STUB_BYTES), address)
        if pointer is None:
            return address
        return int.from_bytes(read_memory(self._pid, pointer, 8), "little")

    def _find(self, address: int) -> Site | None:
        mapping = self._mapping(address)
        if mapping is None and self.refresh():
            mapping = self._mapping(address)
        if mapping is None:
            return None
        if len(self._places) >= _MAX_PLACES:
            self._places.clear()
        module = self._module(mapping)
        offset = address - mapping.start + mapping.offset
        if mapping.path == "[vdso]":
            offset = address - mapping.start
        inside = module.image.code_address(offset) if module.image is not None else 0
        return module.site(inside or 0)

    def _mapping(self, address: int) -> Mapping | None:
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address >= self._mappings[index].end:
            return None
        return self._mappings[index]

    def _module(self, mapping: Mapping) -> Module:
        key = (mapping.start - mapping.offset, mapping.inode, mapping.path)
        found = self._loaded.get(key)
        if found is None:
            found = self._loaded[key] = self._open(mapping)
        return found

    def _open(self, mapping: Mapping) -> Module:
        if mapping.path == "[vdso]":
            size = min(mapping.end - mapping.start, _MAX_VDSO)
            return self._modules.vdso(read_memory(self._pid, mapping.start, size))
        if not mapping.inode:
            return Module(display_name(mapping.path))
        first = self._first.get((mapping.inode, mapping.path))
        return self._modules.open(self._pid, mapping, read_memory(self._pid, first, _PAGE) if first else b"")

    def refresh(self) -> bool:
        """Read the maps again, unless that was done a moment ago; True when it was done."""
        started = time.monotonic()
        if started < self._next_refresh:
            return False
        try:
            with open(f"/proc/{self._pid}/maps", encoding="utf-8", errors="replace") as file:
                mappings = parse_maps(file.read())
        except OSError:
            mappings = []
        self._pause = _MIN_REFRESH_S if self._take(mappings) else min(2 * self._pause, _FULL_REFRESH_S)
        took = time.monotonic() - started
        self._next_refresh = started + max(self._pause, took / _REFRESH_SHARE)
        self._full_refresh = started + max(_FULL_REFRESH_S, took / _REFRESH_SHARE)
        return True

    def refresh_if_old(self) -> None:
        """Read the maps again when that was long ago: another library may be where one was."""
        if time.monotonic() >= self._full_refresh:
            self.refresh()

    def _take(self, mappings: list[Mapping]) -> bool:
        """Use these mappings; return whether the code has changed."""
        self._interpreter = interpreter_data(mappings)
        self._first = {(item.inode, item.path): item.start for item in mappings if item.inode and not item.offset}
        code = [mapping for mapping in mappings if mapping.executable]
        if code == self._mappings:
            return False
        self.revision += 1
        self._mappings, self._starts = code, [mapping.start for mapping in code]
        self._places.clear()
        self._calls.clear()
        keys = {(mapping.start - mapping.offset, mapping.inode, mapping.path) for mapping in code}
        self._loaded = {key: module for key, module in self._loaded.items() if key in keys}
        return True
