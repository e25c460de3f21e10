"""A program whose names are made to harm whoever prints them: hostile.py READY ARGUMENT…

Computes in `EVIL` and `LONG`, half of the time each; its process and a thread have hostile names too.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from types import FunctionType

#: Title and colour sequences, 8-bit controls, right-to-left marks, line and paragraph separators, JSON, HTML.
EVIL = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202egnp.exe\u2066\r\n\u2028\u2029\x7f\"'\\</script>;{}%s\ud7ff"
LONG = "n" * 3_000
LIMIT_S = 60.0


def rename(name: bytes) -> None:
    """Give this thread a name in the kernel (prctl(2), PR_SET_NAME)."""
    ctypes.CDLL(None).prctl(15, ctypes.c_char_p(name), 0, 0, 0)


def busy(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def disguised(name: str, file: str) -> FunctionType:
    """Return `busy` under another name, in another file."""
    code = busy.__code__.replace(co_name=name, co_filename=file)
    if sys.version_info >= (3, 11):
        code = code.replace(co_qualname=name)
    return FunctionType(code, globals())


def sleep() -> None:
    rename(b"\xc2\x9b31m\x1b[0m\n)")
    time.sleep(LIMIT_S)


rename(b"\x1b[2J) R 1 (\n\xff")
threading.Thread(target=sleep, name=EVIL + LONG, daemon=True).start()
evil, long = disguised(EVIL, "/tmp/" + EVIL + ".py"), disguised(LONG, "/" + LONG)
print("ready", flush=True)
limit = time.monotonic() + LIMIT_S
while time.monotonic() < limit:
    evil(0.02)
    long(0.02)
