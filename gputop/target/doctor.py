"""What works on this machine, what does not, and the remedy: one function a check, one row each in `CHECKS`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from gputop import config
from gputop.errors import GputopError, ptrace_remedy
from gputop.target.probe import has_ptrace_capability, look_into_another, yama_scope
from gputop.text import printable

Status = Literal["ok", "warn", "fail"]

#: Seconds that a helper may take; a broken driver can block for ever.
_PATIENCE_S = 10.0
_DISK_BYTES = 200 << 20

#: Signs of an NVIDIA driver: desktop and server, Tegra, WSL.
_DEVICES = ("/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/dxg")

#: Asks the driver in a process of its own, which can be left behind when the driver hangs.
_ASK_DRIVER = """
import json, pynvml
pynvml.nvmlInit()
handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
text = lambda value: value.decode() if isinstance(value, bytes) else value
print(json.dumps([text(pynvml.nvmlSystemGetDriverVersion()), [text(pynvml.nvmlDeviceGetName(h)) for h in handles]]))
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Attributes:
        name: what was looked at.
        status: "ok"; "warn" when something works less well; "fail" when it does not work.
        finding: what was found, one sentence.
        remedy: what helps, empty when nothing needs to.
    """

    name: str
    status: Status
    finding: str
    remedy: str = ""


def run_checks() -> tuple[Check, ...]:
    """Look at everything, side by side; takes a second or two, and never much longer than ten."""
    with ThreadPoolExecutor(len(CHECKS), "gputop-doctor") as pool:
        return tuple(pool.map(lambda row: _checked(*row), CHECKS))


def _checked(name: str, check: Callable[[], tuple[Status, str, str]]) -> Check:
    try:
        return Check(name, *check())
    except (OSError, ValueError, GputopError) as error:
        return Check(name, "warn", f"could not be checked: {printable(str(error))}")


def _python() -> tuple[Status, str, str]:
    found = ".".join(map(str, sys.version_info[:3]))
    return "ok", f"gputop runs on Python {found}; the program may run on another one", ""


def _pyspy() -> tuple[Status, str, str]:
    remedy = "python -m pip install 'py-spy>=0.4.3', into gputop's environment"
    folders = (sysconfig.get_path("scripts"), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))
    binary = shutil.which("py-spy", path=os.pathsep.join(folders))
    if binary is None:
        return "fail", "py-spy is not installed: no Python functions and lines", remedy
    answer = _run([binary, "--version"])
    if answer.code != 0:
        return "fail", f"py-spy does not run: {answer.problem}", remedy
    return "ok", f"{printable(answer.text.strip())} at {printable(binary)}", ""


def _looking_in() -> tuple[Status, str, str]:
    look, scope, capable = look_into_another(), yama_scope(), has_ptrace_capability()
    who = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    rights = f"{who}, {'with' if capable else 'without'} CAP_SYS_PTRACE"
    rights += "" if scope is None else f", Yama scope {scope}"
    if look.unstoppable:
        remedy = f"{ptrace_remedy()}; old container engines refuse ptrace by seccomp: --security-opt seccomp=unconfined"
        return "warn", f"what threads wait for is seen, not what they compute: {look.unstoppable} ({rights})", remedy
    if not look.refused:
        return "ok", f"processes can be looked into ({rights}); one look {look.seconds * 1e6:.0f} µs", ""
    if scope == 1:
        return "warn", f"only programs started with gputop -- COMMAND can be looked into ({rights})", ptrace_remedy()
    return "fail", f"processes cannot be looked into: {printable(look.refused)} ({rights})", ptrace_remedy()


def _nvidia() -> tuple[Status, str, str]:
    answer = _run([sys.executable, "-I", "-c", _ASK_DRIVER])
    if answer.code is None:
        return "fail", f"the NVIDIA driver does not answer within {_PATIENCE_S:g} s", "see dmesg; nvidia-smi hangs too?"
    if answer.code != 0:
        return _no_driver(answer.problem)
    driver, names = json.loads(answer.text)
    models = ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))
    return "ok", printable(f"driver {driver}: {models or 'no GPU'}"), ""


def _no_driver(problem: str) -> tuple[Status, str, str]:
    if not any(map(os.path.exists, _DEVICES)):
        remedy = "in a container: docker run --gpus all; else install the driver. All but the GPU panel works without"
        return "warn", "no NVIDIA GPU or driver here", remedy
    return (
        "fail",
        f"the NVIDIA driver cannot be asked: {problem}",
        "compare with nvidia-smi; a new driver needs a reboot",
    )


def _container() -> tuple[Status, str, str]:
    signs = [path for path in ("/.dockerenv", "/run/.containerenv") if Path(path).exists()]
    if not (signs or os.environ.get("KUBERNETES_SERVICE_HOST")):
        return "ok", "not in a container", ""
    return (
        "ok",
        "in a container: processes outside it are not seen, and the GPU's own list of processes may not match",
        "",
    )


def _terminal() -> tuple[Status, str, str]:
    if not sys.stdout.isatty():
        return "ok", "no terminal here; report, record and snapshot need none", ""
    columns, rows = shutil.get_terminal_size()
    colours = "true colour" if os.environ.get("COLORTERM") in ("truecolor", "24bit") else os.environ.get("TERM", "?")
    finding = f"{columns}×{rows}, {sys.stdout.encoding}, {printable(colours)}"
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        return "warn", f"{finding}: not UTF-8, graphs are drawn in ASCII", "export LANG=C.UTF-8"
    if columns < 40 or rows < 10:
        return "warn", f"{finding}: parts of the screen are left out", "make the window at least 40×10, better 160×48"
    return "ok", finding, ""


def _state() -> tuple[Status, str, str]:
    remedy = "set XDG_STATE_HOME to a directory of yours on a disk with room"
    try:
        directory = config.state_dir()
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(b"x")
    except OSError as error:
        return "fail", f"program output and snapshots cannot be kept: {printable(str(error))}", remedy
    free = shutil.disk_usage(directory).free
    finding = f"{printable(str(directory))}, {free / 2**30:.1f} GiB free"
    return ("ok", finding, "") if free > _DISK_BYTES else ("warn", finding, remedy)


def _torch_tracing() -> tuple[Status, str, str]:
    """Say how torch's own profiler could be switched on: newer Pythons take code from outside, older ones need gdb."""
    gdb = shutil.which("gdb")
    with_gdb = f"gdb is at {printable(gdb)}" if gdb else "gdb is not installed"
    with suppress(ModuleNotFoundError):
        return "ok", f"{with_gdb}; torch {printable(version('torch'))} is installed beside gputop", ""
    return "ok", f"{with_gdb}; torch is not installed beside gputop, and need not be", ""


@dataclass(frozen=True, slots=True)
class _Answer:
    """Exit code (None: it hung and was left behind), output, and the last line of its complaint."""

    code: int | None
    text: str = ""
    problem: str = ""


def _run(command: list[str]) -> _Answer:
    """Run a helper. One that hangs in the kernel cannot be killed, so it is not waited for."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    try:
        text, complaint = process.communicate(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=0.5)
        return _Answer(None, problem="it hangs")
    last = (complaint.strip().splitlines() or ["no output"])[-1]
    return _Answer(process.returncode, text, printable(last))


CHECKS: tuple[tuple[str, Callable[[], tuple[Status, str, str]]], ...] = (
    ("Python", _python),
    ("py-spy", _pyspy),
    ("looking into processes", _looking_in),
    ("NVIDIA GPUs", _nvidia),
    ("container", _container),
    ("terminal", _terminal),
    ("state directory", _state),
    ("torch traces", _torch_tracing),
)
