"""What torch there is in a process and whether Kineto polls in it: read from /proc, nothing is sent or run."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from gputop import procfs
from gputop.target.files import inside, read_text

_CLIENT = "dynoconfigclient"
_LIBRARY = re.compile(r"^(?P<start>[0-9a-f]+)-\S+ \S+ 0+ \S+ \S+\s+(?P<path>/.*/libtorch_cpu\.so)$", re.MULTILINE)
_LIBC = re.compile(
    r"^(?P<start>[0-9a-f]+)-\S+ \S+ 0+ \S+ \S+\s+(?P<path>/.*/libc(?:\.so\.6|-2\.\d+\.so))$", re.MULTILINE
)
_PYTHON_LIBRARY, _PYTHON = (
    re.compile(rf"^(?P<start>[0-9a-f]+)-\S+ \S+ 0+ \S+ \S+\s+(?P<path>/.*/{name})$", re.MULTILINE)
    for name in (r"libpython3\.\d+\w*\.so[.\d]*", r"python(?:3(?:\.\d+\w*)?)?")
)
_VERSION = re.compile(r"^__version__(?:: \w+)? = ['\"]([^'\"]+)['\"]", re.MULTILINE)
_SOCKET = re.compile(r"socket:\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Library:
    """A mapped library: where it begins in memory, and its path as the process sees it."""

    start: int
    path: str


@dataclass(frozen=True, slots=True)
class Torch:
    """Torch in a process.

    Attributes:
        version: such as "2.13.0+cpu", empty when its file cannot be read.
        library, libc, python: the mapped libtorch_cpu.so, glibc (None with another C library), and what holds CPython's
            functions: its library, or else the program itself.
        polling: directory of the sockets it asks through, empty for the abstract name, None when it does not ask.
        cuda: this build has CUDA.
    """

    version: str
    library: Library
    libc: Library | None
    python: Library | None
    polling: str | None
    cuda: bool

    @property
    def release(self) -> tuple[int, int]:
        """Return (2, 13) for "2.13.0+cpu", (0, 0) when unknown."""
        found = re.match(r"(\d+)\.(\d+)", self.version)
        return (int(found[1]), int(found[2])) if found else (0, 0)


def torch_in(pid: int) -> Torch | None:
    """Look for torch in a process; None when it is not loaded.

    Raises:
        OSError: the process is gone, or not ours to look into.
    """
    maps = os.fsdecode(procfs.read(f"/proc/{pid}/maps", limit=64 << 20))
    library = _mapped(_LIBRARY, maps)
    if library is None:
        return None
    package = os.path.dirname(os.path.dirname(library.path))
    version = _VERSION.search(read_text(inside(pid, f"{package}/version.py")))
    return Torch(
        version[1] if version else "",
        library,
        _mapped(_LIBC, maps),
        _mapped(_PYTHON_LIBRARY, maps) or _mapped(_PYTHON, maps),
        polling(pid),
        f"{package}/lib/libtorch_cuda.so" in maps,
    )


def _mapped(pattern: re.Pattern[str], maps: str) -> Library | None:
    found = pattern.search(maps)
    return Library(int(found["start"], 16), found["path"]) if found else None


def polling(pid: int) -> str | None:
    """Return the directory that Kineto's client asks through, empty for the abstract name, None without a client.

    Raises:
        OSError: the process is gone, or not ours to look into.
    """
    own = _sockets(pid)
    for line in os.fsdecode(procfs.read(f"/proc/{pid}/net/unix", limit=16 << 20)).splitlines():
        column = line.split(None, 7)
        if len(column) == 8 and column[6] in own and _CLIENT in column[7]:
            return "" if column[7].startswith("@") else os.path.dirname(column[7])
    return None


def _sockets(pid: int) -> set[str]:
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            link = _SOCKET.match(os.readlink(f"/proc/{pid}/fd/{name}"))
        except FileNotFoundError:
            continue
        if link:
            found.add(link[1])
    return found


def inner_pid(pid: int) -> int:
    """Return the process's own number in its innermost PID namespace: what it calls itself."""
    return int(procfs.status(pid).get("NSpid", str(pid)).split()[-1])


def owner(pid: int) -> tuple[int, int]:
    """Return the effective user and group that a process runs as."""
    status = procfs.status(pid)
    return int(status["Uid"].split()[1]), int(status["Gid"].split()[1])


def same_namespace(pid: int, kind: str) -> bool:
    """Tell whether a process shares our namespace of a kind ("net", "mnt", "pid")."""
    return os.readlink(f"/proc/{pid}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}")
