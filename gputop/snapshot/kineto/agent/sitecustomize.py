"""Runs in every Python that a launched program starts, before anything of the program's own.

It switches torch's on-demand tracing on where torch is new enough to do it safely, and keeps a process from exiting
while it is being recorded: torch crashes then (pytorch#129626). The wait ends when the trace is whole, whether gputop
still lives or not, at the latest at the time in the flag file.

Python imports only the first `sitecustomize` on its path, so this one then runs the one it hides. The syntax is
Python 2's too, because it runs in whatever Python there is.
"""

import os
import sys

#: First torch whose polling starts without crashes (pytorch#163545 until 2.9).
_SOUND = (2, 10)


def _run_the_next(here):
    # type: (str) -> None
    """Run the sitecustomize that this one hides: a distribution's, a virtual environment's, the user's."""
    from importlib import util
    from importlib.machinery import PathFinder

    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    found = PathFinder.find_spec("sitecustomize", sys.path)
    if found is not None and found.loader is not None:
        module = util.module_from_spec(found)
        sys.modules["sitecustomize"] = module
        found.loader.exec_module(module)


def _torch_release():
    # type: () -> tuple[int, int]
    """Return (2, 13) for the torch that an import would find, without importing it."""
    import re
    from importlib.machinery import PathFinder

    found = PathFinder.find_spec("torch", sys.path)
    if found is None or not found.origin:
        return (0, 0)
    with open(os.path.join(os.path.dirname(found.origin), "version.py")) as file:
        version = re.search(r"__version__[^=]*= ['\"](\d+)\.(\d+)", file.read())
    return (int(version.group(1)), int(version.group(2))) if version else (0, 0)


def _switch_polling_on():
    # type: () -> None
    if _torch_release() >= _SOUND:
        for line in os.environ.get("GPUTOP_AGENT_KINETO", "").splitlines():
            name, _, value = line.partition("=")
            os.environ[name] = value


def _wait_for_trace(directory):
    # type: (str) -> None
    import time

    flag = os.path.join(directory, f"tracing-{os.getpid()}")
    try:
        with open(flag) as file:
            until, _, trace = file.read().partition(" ")
        deadline, whole = float(until), os.path.join(directory, trace)
    except (OSError, ValueError):
        return
    while os.path.exists(flag) and not os.path.isfile(whole) and time.time() < deadline:
        time.sleep(0.02)


def _start():
    # type: () -> None
    directory = os.environ.get("GPUTOP_AGENT_DIRECTORY")
    if sys.version_info < (3, 6) or not directory:
        return
    import atexit
    from contextlib import suppress

    atexit.register(_wait_for_trace, directory)  # the first registered runs last, after the program's own
    with suppress(OSError, ValueError):  # a torch that cannot be told: it stays off
        _switch_polling_on()
    _run_the_next(os.path.dirname(os.path.abspath(__file__)))


_start()
