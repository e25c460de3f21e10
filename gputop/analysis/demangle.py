"""Names of native functions as their authors wrote them: C++'s own demangler, asked through `ctypes`.

The names come out of files of the program that is watched, so they may be anything. The demangler's work can grow with
each reference of a name to an earlier part of itself (Itanium C++ ABI, "Compression"): a name with many of them is left
as it is, so that none can take long or much memory.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache, lru_cache

from gputop.text import printable

#: Where `__cxa_demangle` is found: GNU's C++ runtime, LLVM's.
_RUNTIMES = ("libstdc++.so.6", "libc++abi.so.1")
#: The longest name that is demangled, and the most references in it: by 24 it can grow 3^8 times at most.
_LONGEST, _MOST_REFERENCES = 512, 24
_REFERENCE = re.compile(r"[ST][0-9A-Z]*_")
#: What compilers append to the parts and copies that they make of a function.
_COPY = re.compile(r"\.(constprop|isra|part|cold|lto_priv|llvm|clone)\b.*$")
#: Longest name shown.
_SHOWN = 160


@lru_cache(maxsize=16384)
def demangled(symbol: str) -> str:
    """Return a function's readable name, without its parameters; the symbol itself where it has none other."""
    name = _COPY.sub("", symbol)
    if name.startswith("_Z") and len(name) <= _LONGEST and len(_REFERENCE.findall(name)) <= _MOST_REFERENCES:
        ask = _demangler()
        name = _short(ask(name)) if ask else name
    return printable(name, _SHOWN) or symbol


@cache
def _demangler() -> Callable[[str], str] | None:
    """Return what demangles; None where no C++ runtime is installed."""
    for library in _RUNTIMES:
        try:
            function = ctypes.CDLL(library).__cxa_demangle
            free = ctypes.CDLL(None).free
        except (OSError, AttributeError):
            continue
        function.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        return lambda symbol: _asked(function, free, symbol)
    return None


def _asked(function: Callable[..., int | None], free: Callable[[int], None], symbol: str) -> str:
    made = function(symbol.encode("utf-8", "replace"), None, None, None)
    if not made:
        return symbol
    try:
        return ctypes.string_at(made).decode("utf-8", "replace")
    finally:
        free(made)


def _short(name: str) -> str:
    """Return "a::b<int>" for "void a::b<int>(int, char) const": which function it is, not what it takes."""
    end = name.rfind(")") + 1
    suffix = name[end:]
    if not end or suffix.strip() not in ("", "const", "volatile", "const volatile", "&", "const &", "&&"):
        return name
    start = _opening(name, end - 1)
    if start <= 0 or name[:start].endswith("operator"):
        return name
    return _without_result(name[:start])


def _opening(name: str, close: int) -> int:
    """Return where the bracket that closes at `close` opens; -1 where it does not."""
    depth = 0
    for at in range(close, -1, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if depth == 0:
            return at
    return -1


def _without_result(name: str) -> str:
    """Drop the result's type, which the names of templates begin with."""
    if "operator" in name:
        return name
    depth, start = 0, 0
    for at, char in enumerate(name):
        depth += (char in "<({[") - (char in ">)}]")
        if char == " " and depth == 0:
            start = at + 1
    return name[start:] or name
