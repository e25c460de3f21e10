"""Where the evaluation loop is, in programs whose compiler has put most of it elsewhere.

GCC splits functions by a profile, and the symbol of the part that it moves away is stripped with the local ones: in
Debian's Python 3.14 and 3.15 that part is nearly all of the loop, and has no name. It is found by the jumps that lead
there from what still has the name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from gputop.collectors.native.cfi import Rule
from gputop.collectors.native.elf import Image
from gputop.collectors.native.exports import exported_function

LOOP = "_PyEval_EvalFrameDefault"
#: More than the loop of any build.
_MAX_BYTES = 1 << 18
#: x86: `jcc` and `jmp` with a distance of four bytes. Other processors' compilers have not been seen to do this.
_JUMP = re.compile(rb"(?:\x0f[\x80-\x8f]|\xe9)(?=(.{4}))", re.DOTALL)
#: Bytes that merely look like a jump lead here and there, but not so often into one function.
_LEAST_JUMPS = 3


def moved_part(image: Image, rule: Callable[[int], Rule | None]) -> int:
    """Return where the part of the loop begins that is apart; 0 where there is none.

    Args:
        image: of the program or library that has the interpreter.
        rule: tells which function an address of the image is in, by its unwind rule.
    """
    start, size = exported_function(image, LOOP) or (0, 0)
    code = image.read(start, min(size, _MAX_BYTES)) if start else b""
    jumps: Counter[int] = Counter()
    for jump in _JUMP.finditer(code):
        target = start + jump.end() + 4 + int.from_bytes(jump[1], "little", signed=True)
        if not start <= target < start + size and (found := rule(target)):
            jumps[found.start] += 1
    part, count = max(jumps.items(), key=lambda item: item[1], default=(0, 0))
    return part if count >= _LEAST_JUMPS else 0
