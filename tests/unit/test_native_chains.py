"""Call chains: against what the program is known to do, against gdb and against py-spy."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from gputop.model import Observation
from tests.unit.native_tools import compiled, names, needs_gcc, needs_ptrace, running, watching

pytestmark = [needs_gcc, needs_ptrace]

needs_gdb = pytest.mark.skipif(shutil.which("gdb") is None, reason="no gdb")
PYSPY = Path(sys.executable).with_name("py-spy")
needs_pyspy = pytest.mark.skipif(not PYSPY.exists(), reason="no py-spy beside this Python")

NESTED = ["inner", "middle", "outer"]
#: What each mode of `chains.c` shows of the program's own functions, leaf first.
MODES = {
    "park": ["park", *NESTED, "outer", "outer", "outer", "main", "_start"],
    "spin": ["spin", *NESTED, "outer", "outer", "outer", "main", "_start"],
    "park-callback": ["park", *NESTED, "outer", "compare", "main", "_start"],
    "spin-callback": ["spin", *NESTED, "outer", "compare", "main", "_start"],
    "park-handler": ["park", *NESTED, "on_signal", "interrupted", "main", "_start"],
    "spin-handler": ["spin", *NESTED, "on_signal", "interrupted", "main", "_start"],
    "park-handler-other": ["park", *NESTED, "on_signal", "interrupted", "main", "_start"],
}
#: … and with code that no file describes in between.
GENERATED = ["below_generated_code", "", "in_generated_code", "main", "_start"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chains")


@pytest.fixture(scope="module")
def program(directory: Path) -> str:
    return compiled(directory, "chains")


def _arrived(seen: Observation) -> bool:
    """Is the program where it says that it will be? (It says so a moment before.)"""
    return bool({"park", "spin"} & set(names(seen)))


def _own(seen: Observation) -> list[str]:
    """Return the symbols of the program itself."""
    return [frame.symbol for frame in seen.chain if frame.module.startswith("chains") or not frame.module]


def _seen(program: str, modes: Iterable[str]) -> dict[str, Observation]:
    """Run the program in several modes at once; return what is seen of each once it has arrived."""
    with ExitStack() as stack:
        targets = {mode: stack.enter_context(running(program, mode)) for mode in modes}
        watch = stack.enter_context(watching(*(target.pid for target in targets.values())))
        return {mode: watch.see(_arrived, target.pid) for mode, target in targets.items()}


@pytest.mark.parametrize("flags", [(), ("-O0", "-fno-omit-frame-pointer"), ("-fno-plt", "-fno-omit-frame-pointer")])
def test_the_chain_is_the_one_that_the_program_has(directory: Path, flags: tuple[str, ...]) -> None:
    for mode, seen in _seen(compiled(directory, "chains", *flags), MODES).items():
        assert _own(seen) == MODES[mode]
        assert seen.complete, mode
        assert seen.running == mode.startswith("spin")
        if not seen.running:
            assert (seen.syscall, seen.waits_on) == ("clock_nanosleep", "timer")


def test_code_without_a_file_is_passed_through_but_not_called_complete(program: str) -> None:
    for mode, seen in _seen(program, ["park-generated", "spin-generated"]).items():
        assert _own(seen) == [mode.partition("-")[0], *GENERATED]
        assert not seen.complete


@pytest.mark.parametrize("frame_pointer", ["-fno-omit-frame-pointer", "-fomit-frame-pointer"])
def test_a_program_without_unwind_tables(directory: Path, frame_pointer: str) -> None:
    bare = compiled(directory, "chains", "-fno-asynchronous-unwind-tables", "-fno-exceptions", frame_pointer)
    with running(bare, "spin") as target, watching(target.pid) as watch:
        seen = watch.see(_arrived)
    assert not seen.complete
    own = _own(seen)
    assert own[0] == "spin"
    assert [name for name in own if name] == sorted(own, key=MODES["spin"].index), "frames out of order"
    if frame_pointer == "-fno-omit-frame-pointer":
        assert own[:-1] == MODES["spin"][: len(own) - 1]


def test_every_instruction_of_prologue_and_epilogue(program: str) -> None:
    with running(program, "often") as target, watching(target.pid, rate=500, budget=1) as watch:
        watch.wait_for(lambda seen: len(seen.seen()) > 400, "400 looks")
    chains = {tuple(_own(seen)) for _, seen in watch.seen() if seen.running and "call_often" in names(seen)}
    calls = ["small", "medium", "call_often", "main", "_start"]
    assert chains == {tuple(calls), tuple(calls[1:]), tuple(calls[2:])}
    assert all(seen.complete for _, seen in watch.seen() if "call_often" in names(seen))


def test_deep_recursion_is_followed_beyond_the_first_copy(program: str) -> None:
    depth = 900
    with (
        running(program, "park-deep", str(depth)) as parked,
        running(program, "spin-deep", str(depth)) as spinning,
        watching(parked.pid, spinning.pid) as watch,
    ):
        for target in (parked, spinning):
            seen = watch.see(lambda seen: _arrived(seen) and seen.complete, target.pid)
            assert names(seen).count("outer") == depth + 1


def test_endless_recursion_is_cut(program: str) -> None:
    with running(program, "park-deep", "5000") as target, watching(target.pid) as watch:
        seen = watch.see(_arrived)
    assert len(seen.chain) == 1024
    assert not seen.complete


def test_library_frames_are_named(program: str) -> None:
    with running(program, "compute") as target, watching(target.pid, rate=200, budget=1) as watch:
        seen = watch.see(lambda seen: seen.running and seen.chain[0].module.startswith("libm."))
    assert names(seen)[-2:] == ["__libc_start_main", "_start"]
    assert "compute" in names(seen)
    assert seen.complete


#: Run in gdb: each thread's id and the names of its frames, without those that the compiler inlined or jumped to.
GDB = """
import gdb
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame = gdb.newest_frame()
    while frame is not None:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            print("frame", thread.ptid[1], frame.name() or "??")
        frame = frame.older()
"""


def _gdb(directory: Path, pid: int) -> dict[int, list[str]]:
    """Return the functions on each thread's stack as gdb sees them."""
    script = directory / "frames.py"
    script.write_text(GDB)
    settings = ["-ex", "set debuginfod enabled off", "-ex", "set backtrace past-main on"]
    command = ["gdb", "-nx", "-batch", *settings, "-p", str(pid), "-x", str(script)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    stacks: dict[int, list[str]] = {}
    for _, tid, name in (line.split(maxsplit=2) for line in output.splitlines() if line.startswith("frame ")):
        stacks.setdefault(int(tid), []).append(name)
    return stacks


def _agree(ours: Observation, theirs: list[str]) -> None:
    """Both have the same frames; a name that both have is the same, but for aliases of one address."""
    assert len(ours.chain) == len(theirs), (names(ours), theirs)
    for frame, name in zip(ours.chain, theirs, strict=True):
        if frame.symbol and name != "??" and not frame.module.startswith("libc."):
            assert frame.symbol == name


@needs_gdb
@pytest.mark.parametrize("mode", ["spin-callback", "park-thread", "spin-thread"])
def test_gdb_sees_the_same(directory: Path, program: str, mode: str) -> None:
    with running(program, mode) as target:
        with watching(target.pid) as watch:
            watch.see(_arrived)
            watch.wait_for(lambda watch: mode[5:] != "thread" or len({s.tid for s, _ in watch.seen()}) == 2)
        last = {sample.tid: seen for sample, seen in watch.seen()}
        stacks = _gdb(directory, target.pid)
    assert last.keys() == stacks.keys()
    for tid, seen in last.items():
        _agree(seen, stacks[tid])


PYTHON = """
import ctypes, sys, threading, time, zlib
def park(): time.sleep(1000)
def wait(): threading.Event().wait()
def call_back(left, right): wait()
callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(call_back)
def sort(): ctypes.CDLL(None).qsort((ctypes.c_int * 2)(2, 1), 2, 4, callback)
for target in (wait, sort): threading.Thread(target=target, daemon=True).start()
print("ready", flush=True)
park()
"""


@pytest.fixture(scope="module")
def python_script(directory: Path) -> str:
    path = directory / "waits.py"
    path.write_text(PYTHON)
    return str(path)


@needs_gdb
def test_gdb_sees_the_same_of_a_python_program(directory: Path, python_script: str) -> None:
    with running(sys.executable, python_script) as target:
        with watching(target.pid) as watch:
            watch.see(lambda seen: seen.syscall == "clock_nanosleep")
            watch.see(lambda seen: "qsort" in " ".join(names(seen)))
            watch.wait_for(lambda watch: len({sample.tid for sample, _ in watch.seen()}) == 3, "three threads")
        last = {sample.tid: seen for sample, seen in watch.seen()}
        stacks = _gdb(directory, target.pid)
    assert len(stacks) == 3
    for tid, seen in last.items():
        assert seen.complete
        _agree(seen, stacks[tid])


@needs_pyspy
def test_pyspy_sees_the_same_of_a_python_program(python_script: str) -> None:
    with running(sys.executable, python_script) as target:
        with watching(target.pid) as watch:
            watch.see(lambda seen: "qsort" in " ".join(names(seen)))
            watch.wait_for(lambda watch: len({sample.tid for sample, _ in watch.seen()}) == 3, "three threads")
        last = {sample.tid: seen for sample, seen in watch.seen()}
        command = [str(PYSPY), "dump", "--native", "--pid", str(target.pid)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    compared = 0
    for part in output.split("\nThread ")[1:]:
        ours = iter(names(last[int(part.split()[0])]))
        for name in re.findall(r"^ +([A-Za-z_]\w*) \([^)]*\.so[^)]*\)$", part, re.MULTILINE):
            assert name in ours, f"{name} is missing, or not in this order"
            compared += 1
    assert compared >= 8
