"""Native functions as calls: what a look's chain says in names that a person knows.

A chain has more frames than calls that mean something to its reader. What the C library, CUDA's runtime and driver or
the interpreter do inside of one call is left out, and the time is that call's: `cudaStreamSynchronize`, not the clock
that the driver reads in it. So is what starts a program or a thread. A function without a name belongs to its caller in
the same module.

With Python, a chain ends where the interpreter runs the frame that made the call: the rest is told by Python's own
stack, better.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from math import inf

from gputop.analysis.demangle import demangled
from gputop.analysis.rules_frames import tags
from gputop.model import Frame, NativeFrame, Observation, Stack
from gputop.store import Peek, Segment
from gputop.text import printable


class NativeCall(Frame):
    """A native function as a frame: its `file` is its module's name, its `line` is 0."""

    __slots__ = ()


#: Stands for callers that could not be found: code without unwind tables (JIT, MKL).
CUT = NativeCall("[callers not known]", "", 0)

_STARTS = re.compile(r"(_start|__libc_start\w*|start_thread|_*clone3?|execute_native_thread_routine)$")
#: The CUDA runtime that is linked into a program has no module of its own.
_LINKED_IN = re.compile(r"(cuda[A-Z]|libcudart_static_)")
_INSIDE = frozenset({"system", "cuda", "python"})


def called(observation: Observation) -> Stack:
    """Return the native calls of a look, outermost first: below the Python frame, where there is one, else all.

    Equal results are one object. Empty where the interpreter itself was at work, or nothing is known.
    """
    chain = observation.chain
    depth = next((place for place, frame in enumerate(chain) if "eval" in tags(frame)), len(chain))
    own = list(_between(chain[:depth]))
    if own and depth == len(chain) and not observation.complete:
        own.append(CUT)
    return _one(tuple(reversed(own)))


def segments(peeks: Iterable[Peek], calls: Callable[[Observation], Stack] = called) -> Iterator[Segment]:
    """Return what a thread's looks tell of its native calls over time; no two overlap."""
    until = -inf
    for peek in peeks:
        stack, start = calls(peek.observation), max(until, peek.time - peek.seconds)
        if stack and start < peek.time:
            yield Segment(start, peek.time, stack)
        until = max(until, peek.time)


@lru_cache(maxsize=16384)
def _one(stack: Stack) -> Stack:
    return stack


def _between(chain: Sequence[NativeFrame]) -> Iterator[NativeCall]:
    """Yield the calls worth naming of a chain, innermost first, each module's nameless functions as one."""
    end = len(chain)
    while end and _starts(chain[end - 1]):
        end -= 1
    start = next((place for place in range(end) if not _inside(chain[place])), end)
    if start:
        run = chain[:start]
        yield _call(next((frame for frame in reversed(run) if frame.symbol), run[-1]))
    for place in range(start, end):
        frame = chain[place]
        if frame.symbol or place + 1 == end or chain[place + 1].module != frame.module:
            yield _call(frame)


def _starts(frame: NativeFrame) -> bool:
    """Tell whether a frame, outermost of its chain, only leads to the first that says something."""
    found = tags(frame)
    if "python" in found or _STARTS.match(frame.symbol):
        return True
    return "system" in found and not frame.symbol


def _inside(frame: NativeFrame) -> bool:
    """Tell whether a frame, innermost of its chain, works for its caller."""
    return not _INSIDE.isdisjoint(tags(frame)) or bool(_LINKED_IN.match(frame.symbol))


@lru_cache(maxsize=16384)
def _call(frame: NativeFrame) -> NativeCall:
    name = demangled(frame.symbol) if frame.symbol else f"[{frame.module or 'generated code'}]"
    return NativeCall(printable(name), frame.module, 0)
