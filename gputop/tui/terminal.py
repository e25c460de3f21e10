"""The terminal and the signals: what to do when either says that it is over.

Textual takes end-of-file on its input for "piped" and spins; when the terminal stops reading, its main thread
blocks. So a thread of our own watches for the hang-up, and leaves the hard way if the screen does not end.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gputop.tui.background import spawn

#: How often to look, and how long the screen may take to end, seconds.
_LOOK_EVERY, _PATIENCE = 0.5, 1.5
#: As a shell reports death by SIGHUP.
_HANGUP_CODE = 128 + signal.SIGHUP
#: Signals that end the screen, and signals that only a launched command cares for.
ENDING = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
PASSED_ON = (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class HangupWatch:
    """Calls `lost` when the terminal is gone; ends the process if `stop` does not follow soon."""

    def __init__(self, fd: int, lost: Callable[[], object], leave: Callable[[int], object] = os._exit) -> None:
        self._fd, self._lost, self._leave = fd, lost, leave
        self._stopped = threading.Event()
        self._thread = spawn("terminal", self._run)

    def stop(self) -> None:
        """End the watch."""
        self._stopped.set()
        self._thread.join(_LOOK_EVERY)

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self._fd, 0)  # a hang-up is reported without being asked for
        while not self._stopped.wait(_LOOK_EVERY):
            if any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poller.poll(0)):
                self._lost()
                if not self._stopped.wait(_PATIENCE):
                    self._leave(_HANGUP_CODE)
                return


@contextmanager
def signals(handle: Callable[[signal.Signals], object]) -> Iterator[None]:
    """Call `handle` in the running event loop for each signal of interest, until the block ends."""
    loop = asyncio.get_running_loop()
    numbers = (*ENDING, *PASSED_ON)
    for number in numbers:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
