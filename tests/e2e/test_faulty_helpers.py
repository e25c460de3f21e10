"""Helpers that fail, lie, hang or are killed: what they would have told is missing and named, the rest is right."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from tests.e2e.harness import document, ended, eventually, noted, start, states, with_pyspy
from tests.fakes.pyspy import fake
from tests.fixtures_targets import TARGETS, start_target

_HOSTILE = "'\\x1b[2J\\u202e' + chr(10)"

BROKEN = "writes no readable stacks"

#: What a py-spy does instead of its work, and what is said about it within the time that it gets here.
FAULTS = {
    "truncated": ('attach(); write(\'[{"args": {"filename": "a.py", "line": 3}, "name"\')', BROKEN),
    "corrupt": ("attach(); write(''.join(map(chr, range(1, 1000))) * 100)", BROKEN),
    "other json": ('attach(); write(\'{"a": [1, 2, {"ph": "B"}]}\')', BROKEN),
    "impossible": (
        "attach(); write([event('B', 'x', 10**30), event('E', 'y', -5), event('B', 7, 1), {}, []])",
        "",
    ),
    "silent": ("time.sleep(60)", ""),
    "loud": ("attach()\nfor _ in range(30000): say('noise' * 20)\nwrite([])", ""),
    "refused": (f"fail('Permission denied' + {_HOSTILE})", "no right to read the Python stacks"),
    "crashing": ("os.kill(os.getpid(), signal.SIGSEGV)", "killed from outside (signal 11)"),
    "no results": ("attach()", BROKEN),
}


@pytest.mark.timeout(60)
def test_a_py_spy_that_fails_costs_the_callers_and_nothing_else(tmp_path: Path) -> None:
    with start_target("computes.py", "hash") as target:
        runs = {}
        for name, (body, _) in FAULTS.items():
            (tmp_path / name).mkdir()
            pyspy = fake(tmp_path / name, body + "\n")
            words = ("report", "--pid", target.pid, "--duration", 4, "--json", "--own-budget", 400)
            runs[name] = start(*words, command=with_pyspy(pyspy))
        reports = {name: document(ended(run)) for name, run in runs.items()}
    for name, (_, told) in FAULTS.items():
        seen = reports[name]
        shares = states(seen, target.pid)
        assert shares.get("native", 0) + shares.get("starved", 0) + shares.get("unknown", 0) > 0.8, (name, shares)
        # What our own looks saw: the program's lines, and once in a while the library's in which it reads its clock.
        python = {row["file"]: row["self"] for row in seen["functions"] if not row["native"]}
        elsewhere = sum(share for file, share in python.items() if not file.startswith(str(TARGETS)))
        assert elsewhere < 0.1, (name, python)
        assert told in noted(seen, "stacks"), name
        assert "\x1b" not in noted(seen, "stacks")
        assert pyspies(tmp_path / name) == [], name


def pyspies(folder: Path) -> list[int]:
    """Return the stand-ins of a folder that live."""
    return [one.pid for one in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(one.info["cmdline"] or [])]


def test_a_py_spy_and_a_peeker_that_are_killed_are_started_again() -> None:
    with start_target("computes.py", "busy") as target:
        run = start("report", "--pid", target.pid, "--duration", 4, "--json")
        helpers = psutil.Process(run.pid)
        killed: set[int] = set()
        while len(killed) < 4:
            eventually(lambda: {child.pid for child in helpers.children()} - killed)
            for child in helpers.children():
                if child.pid not in killed:
                    child.send_signal(signal.SIGKILL)
                    killed.add(child.pid)
        seen = document(ended(run))
        assert target.truth()["shares"]["python"] > 0
    assert seen["functions"][0]["name"] == "busy"
    shares = states(seen, target.pid)
    assert shares["python"] + shares.get("starved", 0) > 0.9
