"""Native functions of running programs at known ratios: of a C++ program without Python, and below two Python lines.

How much of the two functions' time is in the first is a share of as many looks as there were, so that its error is that
of a draw; looks follow no rhythm of the program's 8 ms rounds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from gputop.analysis.demangle import demangled
from tests.e2e.harness import report
from tests.fixtures_targets import start_target
from tests.unit.native_tools import SOURCES, needs_gcc, needs_ptrace, running

pytestmark = needs_ptrace


def error(document: dict[str, Any], truth: float) -> float:
    """Return the error of a share as the main thread's looks tell it: five sigma of a draw, as looks stand for unequal
    times when others take the CPUs."""
    looks = next(thread["samples"] for thread in document["threads"] if thread["main"])
    assert looks >= 30, "too few looks to tell anything"
    return 5 * sqrt(truth * (1 - truth) / float(looks))


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_functions_of_a_program_without_python(tmp_path: Path) -> None:
    program = tmp_path / "halves"
    subprocess.run(["g++", "-O1", "-o", program, SOURCES / "halves.cpp"], check=True)
    with running(str(program)) as target:
        document = report(target.pid, 3)
        output, _ = target.communicate(timeout=20)
    truth = json.loads(output)
    expected = truth["crunch"] / (truth["crunch"] + truth["mill"])
    rows = {row["name"]: row for row in document["functions"]}
    crunch, mill = rows[demangled("_ZN4work6crunchIdEEdT_d")], rows[demangled("_ZN4work4millEd")]
    assert crunch["native"]
    assert (crunch["file"], crunch["line"]) == (mill["file"], mill["line"]) == ("halves", 0)
    seen = crunch["total"] / (crunch["total"] + mill["total"])
    assert seen == pytest.approx(expected, abs=error(document, expected))
    assert rows["main"]["total"] == pytest.approx(1.0, abs=0.05), "all of the time, though none is its own"
    assert sum(crunch["states"].get(state, 0.0) for state in ("native", "starved")) == pytest.approx(1.0, abs=0.02)
    assert any(crunch["name"][:20] in line for line in document["verdict"]["evidence"])


@needs_gcc
def test_functions_below_the_python_lines_that_call_them(tmp_path: Path) -> None:
    library = tmp_path / "libshares.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, SOURCES / "shares.c"], check=True)
    with start_target("two_calls.py", library) as target:
        document = report(target.pid, 3)
        truth = target.truth()
    lines = {row["line"]: row for row in document["lines"] if row["file"] == truth["hot"]["file"]}
    grind, polish = (lines[truth["lines"][mark]["line"]] for mark in ("grind", "polish"))
    for line, function in ((grind, "grind"), (polish, "polish")):
        first = line["native_calls"][0]
        assert (first["name"], first["module"]) == (function, "libshares.so")
        assert first["share"] >= 0.9
    seen = grind["self"] / (grind["self"] + polish["self"])
    assert seen == pytest.approx(0.75, abs=error(document, 0.75))
    (main,) = [row for row in document["functions"] if row["name"] == "main"]
    part = {call["name"]: call["share"] for call in main["native_calls"]}
    assert part["grind"] / (part["grind"] + part["polish"]) == pytest.approx(0.75, abs=error(document, 0.75))
