"""Native functions as calls: which frames of a chain are told, their names, where their time goes; known answers."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from gputop.analysis import demangle, hot
from gputop.analysis.native import CUT, NativeCall, called
from gputop.analysis.results import NativePart
from gputop.analysis.split import merged, thread_states
from gputop.analysis.summary import call_tree, summarise
from gputop.model import Frame, NativeFrame, Observation, ProcessBatch, ProcessInfo, Session, Window
from gputop.report.document import document
from gputop.report.text import text
from gputop.snapshot import collapsed, speedscope
from gputop.snapshot.shot import Shot
from gputop.store import Store, ThreadKey
from tests.recorded_peeks import main_thread
from tests.unit.analysis_tools import DECODE, MAIN, PID, PYTHON, ROOT, STEP, looks, peeks, session, stacks, stored

KEY, WINDOW = ThreadKey(PID, PID), Window(0, 10)
APP = replace(ROOT, cmdline=("/opt/app",), exe="/opt/app", name="app")

needs_runtime = pytest.mark.skipif(demangle._demangler() is None, reason="no C++ runtime to demangle names with")

START = ("libc.so.6:", "libc.so.6:__libc_start_main", "app:_start")
EVAL = ("python3.11:cfunction_vectorcall", "python3.11:_PyEval_EvalFrameDefault", "python3.11:PyEval_EvalCode")


def seen(*frames: str, running: bool = True, complete: bool = True) -> Observation:
    """Return a look at a chain, leaf first, of "module:symbol"."""
    chain = tuple(NativeFrame(*frame.split(":", 1)) for frame in frames)
    return Observation(running=running, syscall="" if running else "futex", chain=chain, complete=complete)


def told(observation: Observation) -> str:
    return ", ".join(f"{call.file} {call.name}" for call in called(observation))


WAITS = seen(
    "[vdso]:",
    "libc.so.6:clock_gettime",
    "libcuda.so.1:",
    "libcuda.so.1:cuCtxSynchronize",
    "app:step",
    "app:main",
    *START,
)


DRIVER = ("[vdso]:", "libc.so.6:clock_gettime", "libcuda.so.1:", "libcuda.so.1:cuCtxSynchronize")


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (seen("app:crunch", "app:main", *START), "app main, app crunch"),
        (WAITS, "app main, app step, libcuda.so.1 cuCtxSynchronize"),
        (seen(*DRIVER, "app:libcudart_static_12ab", "app:cudaDeviceSynchronize", "app:main"),
         "app main, app cudaDeviceSynchronize"),
        (seen("libc.so.6:_int_malloc", "libc.so.6:malloc", "app:main"), "app main, libc.so.6 malloc"),
        (seen("libm.so.6:", "libm.so.6:", "app:main"), "app main, libm.so.6 [libm.so.6]"),
        (seen("app:", "app:", "app:parse", "app:main"), "app main, app parse"),
        (seen("libc.so.6:__poll", "libc.so.6:", "libc.so.6:__clone3"), "libc.so.6 __poll"),
        (seen(":", "app:main"), "app main,  [generated code]"),
        (seen("app:crunch", complete=False), " [callers not known], app crunch"),
        (seen(), ""),
        # Below Python: what the interpreter's frame called, and nothing of the interpreter itself.
        (seen("python3.11:dict_get", *EVAL), ""),
        (seen(*DRIVER, "libcudart.so.13:cudaStreamSynchronize", "libtorch_python.so:item", *EVAL),
         "libtorch_python.so item, libcudart.so.13 cudaStreamSynchronize"),
        (seen("libc.so.6:clock_nanosleep", "python3.11:time_sleep", *EVAL), "libc.so.6 clock_nanosleep"),
        (seen("python3.11:PyObject_GetAttr", "umath.so:add", *EVAL), "umath.so add, python3.11 PyObject_GetAttr"),
        (seen("libmkl_avx512.so.2:gemm", *EVAL, complete=False), "libmkl_avx512.so.2 gemm"),
    ],
)  # fmt: skip
def test_which_calls_of_a_chain_are_told(look: Observation, expected: str) -> None:
    assert told(look) == expected


def test_equal_calls_are_one_object() -> None:
    blocked = replace(WAITS, running=False, syscall="poll", chain=WAITS.chain[2:])
    assert called(WAITS) is called(blocked), "a chain that ends otherwise inside of the driver is the same call"


@needs_runtime
@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("main", "main"),
        ("_Z12decode_imaged", "decode_image"),
        ("_ZNK4work5chunkIdE4fillEPKdi", "work::chunk<double>::fill"),
        ("_Z6crunchIdEdT_d", "crunch<double>"),
        ("_ZN2at4_ops10mul_Tensor4callERKNS_6TensorES4_.constprop.0", "at::_ops::mul_Tensor::call"),
        ("_ZN12_GLOBAL__N_14sortEv.cold", "(anonymous namespace)::sort"),
        ("_ZN3FooclEi", "Foo::operator()"),
        ("_ZNSt6chrono3_V212steady_clock3nowEv", "std::chrono::_V2::steady_clock::now"),
        ("_Znwm", "operator new"),
        ("_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()"),
        ("spin.part.0", "spin"),
        ("_Znonsense", "_Znonsense"),
    ],
)
def test_names_are_as_the_author_wrote_them(symbol: str, name: str) -> None:
    assert demangle.demangled(symbol) == name


def test_no_name_takes_long_or_is_obeyed_by_the_terminal() -> None:
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    levels = [f"2B{name}I{f'S{digits[2 * place]}_' * 3}E" for place, name in enumerate("abcdefghijklm")]
    bomb = "_Z1f1AIiE"  # each level holds the one before it three times
    hostile = [
        "".join((bomb, *levels)),
        "".join((bomb, *levels[:8])),
        "_Z" + "P" * 500 + "i",
        "_Z1f" + "N" * 480,
        "_ZN" + "9" * 100,
        "_Z3\x1b[2Jv",
        "_Z1f\udcffv",
        "\x1b]0;x\a",
    ]
    start = time.process_time()
    names = [demangle.demangled(symbol) for symbol in hostile]
    assert time.process_time() - start < 0.5
    assert all(name and name.isprintable() and len(name) <= 512 for name in names)


# ------------------------------------------------------------------------------------------ without Python

CRUNCH = seen("app:_Z6crunchIdEdT_d", "app:main", *START)
MILL = seen("app:mill", "app:main", *START)


def native_store(*batches: object) -> Store:
    store = Store()
    for batch in (Session(APP, 1.7e9, "box", 4, "0.1"), *batches):
        store.add(batch)  # type: ignore[arg-type]
    return store


@pytest.fixture
def native() -> Store:
    """Six seconds in one function, two in another, two waiting for the GPU."""
    return native_store(peeks(PID, [(0, 6, CRUNCH), (6, 8, MILL), (8, 10, WAITS)]))


@needs_runtime
def test_functions_of_a_program_without_python(native: Store) -> None:
    summary = summarise(native, WINDOW)
    rows = {row.name: row for row in summary.functions}
    assert [row.name for row in summary.functions[:3]] == ["crunch<double>", "cuCtxSynchronize", "mill"]
    assert (rows["crunch<double>"].file, rows["crunch<double>"].line, rows["crunch<double>"].is_native) == (
        "app",
        0,
        True,
    )
    assert [round(rows[name].self_share, 5) for name in ("crunch<double>", "mill", "main")] == [0.6, 0.2, 0.0]
    assert rows["main"].total_share == pytest.approx(1.0, abs=1e-6)
    assert rows["step"].states == rows["cuCtxSynchronize"].states == {"gpu_wait": 1.0}
    assert summary.lines == ()
    assert summary.threads[0].role == "main"
    assert summary.verdict.sentence == "comm100 computes 80 %, mostly native code in crunch<double> (app)"
    assert "60.0 %  60.0 %  native     app\n" in text(summary)
    first = document(summary)["functions"][0]
    assert (first["name"], first["file"], first["line"], first["native"], first["self"]) == (
        "crunch<double>", "app", 0, True, pytest.approx(0.6, abs=1e-5)
    )  # fmt: skip


def test_a_wait_names_the_programs_own_function() -> None:
    summary = summarise(native_store(peeks(PID, [(0, 9, WAITS), (9, 10, MILL)])), WINDOW)
    assert "in step (app)" in summary.verdict.sentence
    assert any("your code" in line and "step (app)" in line for line in summary.verdict.evidence)


def test_call_paths_of_a_program_without_python(native: Store) -> None:
    root = call_tree(native, WINDOW).root
    (main,) = root.children
    assert [(child.frame.file, round(child.total, 4)) for child in main.children] == [
        ("app", 6.0),
        ("app", 2.0),
        ("app", 2.0),
    ]
    assert root.total == pytest.approx(10.0, abs=1e-4)


def test_snapshots_of_a_program_without_python(native: Store) -> None:
    shot = Shot(native, WINDOW, native.session or session(), 1.7e9, summarise(native, WINDOW).verdict)
    folded = dict(line.rsplit(" ", 1) for line in "".join(collapsed.document(shot)).splitlines())
    wait = "app (100);comm100 (100);main (app);step (app);cuCtxSynchronize (libcuda.so.1);[gpu_wait.sync]"
    assert int(folded[wait]) == pytest.approx(2e6, abs=100)
    (profile,) = json.loads("".join(speedscope.document(shot)))["profiles"]
    opened = [event["at"] for event in profile["events"] if event["type"] == "O"]
    assert opened == pytest.approx([0, 0, 6, 8, 8], abs=0.03), "main and crunch, mill, step and the call"
    assert len(profile["events"]) == 2 * len(opened)


def test_a_child_without_python_is_told_beside_its_python_parent() -> None:
    parent = replace(ROOT, python="3.11.7")
    child = ProcessInfo(500, PID, 1.7e9, ("ffmpeg",), "/usr/bin/ffmpeg", "ffmpeg")
    store = stored(
        ProcessBatch(0.0, (parent, child)),
        peeks(PID, [(0, 10, PYTHON)]),
        stacks(PID, [(0, 10, (MAIN, DECODE))]),
        peeks(500, [(0, 10, seen("ffmpeg:encode", "ffmpeg:main"))], pid=500),
    )
    rows = summarise(store, WINDOW).functions
    assert {row.name: row.is_native for row in rows if row.self_share > 0.5} == {"decode": False, "encode": True}


def test_a_python_process_without_stacks_is_not_told_by_the_interpreters_functions() -> None:
    store = stored(ProcessBatch(0.0, (replace(ROOT, python="3.11.7"),)), peeks(PID, [(0, 10, seen("python3.11:main"))]))
    assert summarise(store, WINDOW).functions == ()


# ------------------------------------------------------------------------------------------- below Python

GRIND = seen("liba.so:grind", "_ctypes.so:call", *EVAL)
POLISH = seen("liba.so:polish", "_ctypes.so:call", *EVAL)
OTHER_LINE = Frame(DECODE.name, DECODE.file, DECODE.line + 1)


def test_a_lines_time_by_the_native_functions_it_called() -> None:
    """Lines that change faster than the stacks: what counts is the frame that each look read."""
    rows = [
        ((number + 1) / 50, *((GRIND, DECODE), (POLISH, OTHER_LINE), (PYTHON, DECODE))[number % 3])
        for number in range(501)
    ]
    store = stored(looks(PID, rows), stacks(PID, [(0, 5, (MAIN, DECODE)), (5, 10, (MAIN, OTHER_LINE))]))
    summary = summarise(store, WINDOW, native=True)
    lines = {row.line: row.native for row in summary.lines}
    (part,) = lines[DECODE.line]
    assert (part.name, part.module) == ("grind", "liba.so")
    assert part.share == pytest.approx(0.5, abs=0.01), "half is the interpreter's"
    assert lines[OTHER_LINE.line] == (NativePart("polish", "liba.so", 1.0),)
    decode = next(row for row in summary.functions if row.name == "decode")
    assert {part.name: round(part.share, 2) for part in decode.native} == {"grind": 0.33, "polish": 0.33}
    assert document(summary)["lines"][0]["native_calls"][0]["module"] == "liba.so"
    assert "grind (liba.so) 33 %" in next(row for row in text(summary).splitlines() if row.startswith("    native: "))


def test_call_paths_go_on_below_the_python_line() -> None:
    read = peeks(PID, [(0, 6, GRIND), (6, 10, PYTHON)], frames=(STEP, STEP))
    store = stored(read, stacks(PID, [(0, 10, (MAIN, STEP))]))
    (main,) = call_tree(store, WINDOW).root.children
    (step,) = main.children
    (call,) = step.children
    (grind,) = call.children
    assert (round(step.self, 3), call.frame, grind.frame) == (
        4.0, NativeCall("call", "_ctypes.so", 0), NativeCall("grind", "liba.so", 0)
    )  # fmt: skip
    assert (round(grind.self, 3), grind.states) == (6.0, {"native": 1.0})
    parts = list(merged(store, KEY, WINDOW, thread_states(store, KEY, WINDOW).stacks))
    assert sum(sum(part.time.values()) for part in parts) == pytest.approx(10.0), "no time is lost or made"
    assert all(CUT not in part.stack for part in parts)


def test_a_stack_of_about_that_time_has_no_native_calls() -> None:
    """It may be another line's: only a look that read the frame itself tells."""
    store = stored(peeks(PID, [(0, 10, GRIND)]), stacks(PID, [(0, 10, (MAIN, STEP))]))
    (main,) = call_tree(store, WINDOW).root.children
    assert [child.children for child in main.children] == [()]


def test_functions_stay_pythons_where_there_is_python() -> None:
    store = stored(peeks(PID, [(0, 10, GRIND)]), stacks(PID, [(0, 10, (MAIN, STEP))]))
    assert [row.name for row in hot.functions(store, [KEY], WINDOW)] == ["step", "main"]


def test_the_recorded_cuda_program_names_what_its_time_went_into() -> None:
    """The C++ job of the H200: half the time in its own function, more than a third waiting for the device."""
    truth, observations = main_thread("cxx")
    names = [called(observation)[-1].name for observation in observations if called(observation)]
    share = {name: names.count(name) / len(observations) for name in set(names)}
    assert share["cudaDeviceSynchronize"] == pytest.approx(truth["sync"], abs=0.05)
    inside = [
        observation for observation in observations if "decode_image" in {call.name for call in called(observation)}
    ]
    assert len(inside) / len(observations) == pytest.approx(truth["decode_image"], abs=0.05)
