"""What the screens of other tools cost, beside gputop's: CPU time and bytes to a terminal of the same size.

    python -m venv peers && peers/bin/pip install nvitop memray py-spy
    python -m tests.bench.ui_peers --peers peers/bin [--size 160x48] [--seconds 10]

All watch one program that computes, each at its default rate. nvitop and gputop see eight GPUs of the stand-in for
NVML, all at work. Two rows are gputop's: the screen alone, over answers made beforehand, and the whole of it,
sampling included, as the others sample too. memray starts its program itself; what is counted is its own process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.bench import ui
from tests.bench.nvml import script
from tests.fakes.build import compile_shared
from tests.tui.terminal import Terminal

#: Works in three functions, allocates, and prints nothing.
_TARGET = """
import math
def small(n): return [math.sqrt(at) for at in range(n)]
def large(n): return sum(small(n))
def main():
    while True:
        large(2000), [bytes(1000) for _ in range(100)]
main()
"""
_GPUS, _SETTLED = 8, 4.0


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool: `command` gets the folder of the tools, a file with the program and the pid of one that runs it.

    Attributes:
        every: seconds between two pictures by default.
        tree: its children are helpers of its own, and count.
    """

    name: str
    every: float
    command: Callable[[Path, Path, int], list[str]]
    tree: bool = True


PEERS = (
    Peer("gputop", 0.5, lambda _, __, pid: [sys.executable, "-m", "gputop", "--pid", str(pid)]),
    Peer("nvitop", 1.0, lambda tools, _, __: [str(tools / "nvitop")]),
    Peer("py-spy top", 1.0, lambda tools, _, pid: [str(tools / "py-spy"), "top", "--pid", str(pid)]),
    Peer(
        "memray live",
        1.0,
        lambda tools, file, _: [str(tools / "memray"), "run", "--live", "-q", str(file)],
        tree=False,
    ),
)


@contextmanager
def _target(file: Path) -> Iterator[int]:
    file.write_text(_TARGET, encoding="utf-8")
    process = subprocess.Popen([sys.executable, str(file)])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _cpu(process: psutil.Process, tree: bool) -> float:
    """Return the CPU seconds of a process, and of its children where they are its own helpers."""
    spent = 0.0
    for member in (process, *(process.children(recursive=True) if tree else ())):
        times = member.cpu_times()
        spent += times.user + times.system + times.children_user + times.children_system
    return spent


def measure(peer: Peer, command: list[str], size: tuple[int, int], seconds: float, standin: Path) -> str:
    """Return a row of the table; `standin` is the folder of what stands in for NVML."""
    columns, rows = size
    environ = {"LD_LIBRARY_PATH": str(standin), "GPUTOP_NVML_SCRIPT": str(standin / "script")}
    with Terminal(command, columns, rows, controlling=True, **environ) as terminal:
        first = terminal.read(10, stop="\x1b[")
        if not first:
            return f"| {peer.name} | does not run here | | |"
        terminal.read(_SETTLED)
        process = psutil.Process(terminal.process.pid)
        before, at = _cpu(process, peer.tree), time.monotonic()
        count = len(terminal.read(seconds))
        took = time.monotonic() - at
        used = _cpu(process, peer.tree) - before
        _stop_children(process)
    return f"| {peer.name} | {1 / peer.every:g} | {100 * used / took:.1f} | {count / took / 1000:.1f} |"


def _stop_children(process: psutil.Process) -> None:
    for child in process.children(recursive=True):
        child.kill()


def main() -> None:
    """Measure what is there and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, default=Path(sys.executable).parent, help="folder with the tools")
    parser.add_argument("--size", default="160x48")
    parser.add_argument("--seconds", type=float, default=10.0)
    chosen = parser.parse_args()
    columns, rows = map(int, chosen.size.split("x"))
    print("| screen | pictures a second | CPU, % of a core | to the terminal, kB/s |\n|---|---|---|---|")
    alone = ui.measure("starved", 2.0, columns, rows, chosen.seconds)
    cpu, written = alone["CPU, % of a core"], alone["to the terminal, kB/s"]
    print(f"| gputop, the screen alone | 2 | {cpu:.1f} | {written:.1f} |", flush=True)
    with tempfile.TemporaryDirectory() as name, _target(Path(name) / "program.py") as pid:
        folder = Path(name)
        compile_shared("nvml.c", "libnvidia-ml.so.1", folder)
        (folder / "script").write_text(script(_GPUS, [pid]), encoding="utf-8")
        for peer in PEERS:
            command = peer.command(chosen.peers.absolute(), folder / "program.py", pid)
            print(measure(peer, command, (columns, rows), chosen.seconds, folder), flush=True)


if __name__ == "__main__":
    main()
