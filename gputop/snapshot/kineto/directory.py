"""Private directories that a target and gputop share, and what is put into a launched program's environment."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gputop.snapshot.kineto.detect import owner
from gputop.target.files import inside

#: Everything of ours is under /tmp: torch 2.14 writes traces nowhere else, and Kineto takes directories of up to 54
#: characters only.
_PREFIX = "/tmp/gputop-"
_CONFIG = "kineto.conf"

#: Kineto reads this file when KINETO_CONFIG names no other.
_SYSTEM_CONFIG = "/etc/libkineto.conf"

#: Goes to the front of a launched program's PYTHONPATH; holds nothing but `sitecustomize`, so it hides nothing else.
AGENT = Path(__file__).parent / "agent"


@dataclass(frozen=True, slots=True)
class Shared:
    """A 0700 directory of the target's user.

    Attributes:
        inside: its path as the target sees it.
        descriptor: the open directory: how we reach it, whatever becomes of the target. It is locked (flock), so
            that another gputop that clears up leaves the directory alone.
        parent: the open directory above it, which may be in another mount namespace.
    """

    inside: str
    descriptor: int
    parent: int

    def write(self, name: str, text: str) -> str:
        """Write a file (0600, readable by the target's user) and return its path as the target sees it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=self.descriptor), "w", encoding="utf-8") as file:
            about = os.fstat(self.descriptor)
            if os.geteuid() != about.st_uid:
                os.fchown(file.fileno(), about.st_uid, about.st_gid)
            file.write(text)
        return f"{self.inside}/{name}"

    def exists(self, name: str) -> bool:
        """Tell whether a file of that name is there."""
        return name in os.listdir(self.descriptor)

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def open(self, name: str) -> int:
        """Open a file that the target wrote, as what it should be: a regular file of the target's user.

        Raises:
            OSError: it is not there, or is something else.
        """
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.descriptor)
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.fstat(self.descriptor).st_uid:
            os.close(descriptor)
            raise PermissionError(f"{self.inside}/{name} is not a file of the target's user")
        return descriptor

    def close(self, keep: bool = False) -> None:
        """Remove the directory with all in it, unless `keep`; a target that still polls there goes on undisturbed."""
        if not keep:
            for name in os.listdir(self.descriptor):
                with suppress(OSError):
                    os.unlink(name, dir_fd=self.descriptor)
            with suppress(OSError):
                os.rmdir(os.path.basename(self.inside), dir_fd=self.parent)
        os.close(self.descriptor)
        os.close(self.parent)


def make(pid: int) -> Shared:
    """Make a directory in a running target's /tmp that belongs to its user.

    Raises:
        OSError: the target is gone, or its /tmp cannot be written to.
    """
    uid, gid = owner(pid)
    path = f"{_PREFIX}{uid}-{secrets.token_hex(4)}"
    return _made(path, inside(pid, path), uid, gid)


def make_here() -> Shared:
    """Make a directory for a program that is about to be launched.

    Raises:
        OSError: /tmp cannot be written to.
    """
    path = f"{_PREFIX}{os.geteuid()}-{secrets.token_hex(4)}"
    return _made(path, path, os.geteuid(), os.getegid())


def reach(pid: int, path: str) -> Shared:
    """Open the directory that a target already polls in, if it is as private as ours are.

    Raises:
        OSError: it is gone, or others than the target's user could write there.
    """
    uid, _ = owner(pid)
    shared = _opened(path, inside(pid, path))
    about = os.fstat(shared.descriptor)
    if about.st_uid not in (uid, 0) or about.st_mode & stat.S_IWOTH:
        shared.close(keep=True)
        raise PermissionError(f"{path} can be written by others than the target's user")
    return shared


def _made(path: str, reached: str, uid: int, gid: int) -> Shared:
    """Make a directory and give it to the target's user."""
    os.mkdir(reached, 0o700)
    shared = _opened(path, reached)
    about = os.fstat(shared.descriptor)
    if about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) != 0o700:
        shared.close(keep=True)
        raise PermissionError(f"{path} was replaced while it was made")
    if uid != about.st_uid:
        os.fchown(shared.descriptor, uid, gid)
    return shared


def _opened(path: str, reached: str) -> Shared:
    """Open a directory and say that it is in use."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    parent = os.open(os.path.dirname(reached), flags)
    try:
        descriptor = os.open(os.path.basename(reached), flags | os.O_NOFOLLOW, dir_fd=parent)
    except OSError:
        os.close(parent)
        raise
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return Shared(path, descriptor, parent)


def is_ours(path: str) -> bool:
    """Tell whether a gputop made a directory of that name."""
    return path.startswith(_PREFIX)


def sweep() -> None:
    """Remove our user's directories that no program polls in and no gputop holds open."""
    used = _used_directories()
    for entry in os.scandir("/tmp"):
        if entry.path.startswith(f"{_PREFIX}{os.geteuid()}-") and entry.path not in used:
            with suppress(OSError):
                _remove_unless_held(entry.path)


def _remove_unless_held(path: str) -> None:
    shared = _opened(path, path)
    try:
        fcntl.flock(shared.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        shared.close(keep=True)
    else:
        shared.close()


def _used_directories() -> set[str]:
    """Return directories with a bound socket: every polling target and every daemon has one."""
    lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()
    return {os.path.dirname(line.split(None, 7)[7]) for line in lines if _PREFIX in line}


def environment(shared: Shared, environ: Mapping[str, str], always: bool) -> dict[str, str]:
    """Return the variables that make torch in a launched program ask us once a second.

    The user's own settings stay in force: their Kineto configuration is copied, their PYTHONPATH follows ours. The
    agent on PYTHONPATH keeps a Python program that ends during a trace until that is whole, and switches polling on
    where torch is new enough; with `always` it is on in any.
    """
    kineto = polling_variables(shared, environ)
    own = environ.get("PYTHONPATH", "")
    agent = {
        "PYTHONPATH": f"{AGENT}{os.pathsep}{own}" if own else str(AGENT),
        "GPUTOP_AGENT_DIRECTORY": shared.inside,
        "GPUTOP_AGENT_KINETO": "\n".join(f"{name}={value}" for name, value in kineto.items()),
    }
    return agent | kineto if always else agent


def polling_variables(shared: Shared, environ: Mapping[str, str]) -> dict[str, str]:
    """Return Kineto's own variables; level 5 keeps its messages off the user's terminal."""
    level = environ.get("KINETO_LOG_LEVEL", "")
    return {
        "KINETO_USE_DAEMON": "1",
        "KINETO_IPC_SOCKET_DIR": shared.inside,
        "KINETO_CONFIG": shared.write(_CONFIG, _config(environ)),
        "KINETO_LOG_LEVEL": level if level.isdecimal() else "5",
    }


def _config(environ: Mapping[str, str]) -> str:
    try:
        text = Path(environ.get("KINETO_CONFIG") or _SYSTEM_CONFIG).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    kept = [line for line in text.splitlines() if not re.match(r"\s*ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS\s*=", line)]
    return "\n".join([*kept, "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1", ""])
