"""Programs that wait all the time for one thing; `PROGRAMS` names them: waits.py NAME."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pty
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from common import wait_blocked

#: What waits, what ends the wait, and the state that this is.
Wait = tuple[Callable[[], object], Callable[[], object], str]


def lock() -> Wait:
    held = threading.Lock()
    held.acquire()

    def wait() -> None:
        held.acquire()  # hot lock

    return wait, held.release, "lock"


def queue_get() -> Wait:
    items: queue.Queue[int] = queue.Queue()
    return items.get, lambda: items.put(1), "lock"


def join() -> Wait:
    ended = threading.Event()
    other = threading.Thread(target=ended.wait, name="other")
    other.start()
    return other.join, ended.set, "lock"


def semaphore() -> Wait:
    permits = multiprocessing.Semaphore(0)

    def wait() -> None:
        permits.acquire()  # hot semaphore

    return wait, permits.release, "lock"


def pipe() -> Wait:
    reader, writer = os.pipe()

    def wait() -> None:
        os.read(reader, 1)  # hot pipe

    return wait, lambda: os.write(writer, b"x"), "io"


def stream() -> Wait:
    ours, theirs = socket.socketpair()

    def wait() -> None:
        ours.recv(1)  # hot socket

    return wait, lambda: theirs.send(b"x"), "io"


def terminal() -> Wait:
    ours, theirs = pty.openpty()

    def wait() -> None:
        os.read(theirs, 1)  # hot tty

    return wait, lambda: os.write(ours, b"\n"), "io"


def child() -> Wait:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    assert process.stdin
    return process.wait, process.stdin.close, "child"


def sleep() -> Wait:
    ended = False

    def wait() -> None:
        while not ended:
            time.sleep(0.2)  # hot sleep

    def wake() -> None:
        nonlocal ended
        ended = True

    return wait, wake, "idle"


def event_loop() -> Wait:
    loop = asyncio.new_event_loop()
    return loop.run_forever, lambda: loop.call_soon_threadsafe(loop.stop), "idle"


PROGRAMS = {
    "lock": lock,
    "queue": queue_get,
    "join": join,
    "semaphore": semaphore,
    "pipe": pipe,
    "socket": stream,
    "tty": terminal,
    "child": child,
    "sleep": sleep,
    "asyncio": event_loop,
}

if __name__ == "__main__":
    wait_blocked(*PROGRAMS[sys.argv[1]](), __file__, sys.argv[1])
