"""The commands on real programs: what they print and write agrees, keeps to the schemas, and obeys the settings."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import psutil
import pytest

from gputop.config import Settings
from gputop.engine import Engine
from gputop.engine.replay import Replay
from gputop.model import Window
from gputop.report.document import document as as_document
from gputop.report.text import text
from gputop.session import SessionWriter
from gputop.snapshot.formats import FORMATS
from gputop.snapshot.kineto.request import Options
from gputop.target.describe import describe
from tests.e2e.harness import document, ended, eventually, gputop, noted, report, start, states, together
from tests.fixtures_targets import cuda_library, start_target

__all__ = ["cuda_library"]

DATA = Path(__file__).parents[1] / "data"


class Watched(NamedTuple):
    """A mix of python, native and sleep, watched by several commands at once."""

    pid: int
    began: float
    ended: float
    recording: Path
    trace: Path
    live: dict[str, Any]
    printed: str
    truth: dict[str, float]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, cuda_library: Path) -> Watched:
    """Watch once; that is where the time goes."""
    folder = tmp_path_factory.mktemp("watched")
    recording, trace = folder / "r.gputop", folder / "t.json"
    with start_target("mix.py", cuda_library, 100, "python=.4", "native=.2", "idle=.4") as target:
        attached = ("--pid", target.pid, "--duration", 3)
        began = time.time()
        recorded, snapped, live, printed = together(
            ("record", *attached, "-o", recording),
            ("snapshot", *attached, "-o", trace),
            ("report", *attached, "--json"),
            ("report", *attached),
        )
        ended = time.time()
        truth = target.truth()["shares"]
    assert recorded.returncode == snapped.returncode == printed.returncode == 0
    assert (recorded.stdout, snapped.stdout) == ("", "")
    assert str(recording) in recorded.stderr
    assert f"sampled trace: {trace}" in snapped.stderr
    return Watched(target.pid, began, ended, recording, trace, document(live), printed.stdout, truth)


def close(seen: dict[str, float], truth: dict[str, float], points: float = 0.05) -> None:
    """Demand that shares agree, but for time without a CPU."""
    spare = points + seen.get("starved", 0.0) + truth.get("starved", 0.0)
    for state in {*seen, *truth} - {"starved"}:
        assert abs(seen.get(state, 0.0) - truth.get(state, 0.0)) <= spare, (state, seen, truth)


def test_report_json_holds_the_truth(watched: Watched) -> None:
    close(states(watched.live, watched.pid), watched.truth, 0.07)
    assert watched.live["target"]["pid"] == watched.pid
    assert watched.began - 0.1 < watched.live["window"]["start_unix"] < watched.ended
    assert watched.live["window"]["duration_s"] == pytest.approx(3, abs=0.1)
    assert not watched.live["target"]["exited"]


def test_report_text_says_the_same(watched: Watched) -> None:
    found = re.findall(r"^ +([\d.]+) %  [#.]+  (\w+)", watched.printed, re.MULTILINE)
    close({state: float(share) / 100 for share, state in found if state != "no"}, watched.truth, 0.07)
    assert "mix.py" in watched.printed.splitlines()[0]
    assert "compute_python" in watched.printed
    assert "no NVIDIA driver here" in watched.printed or "gpu 0" in watched.printed


def test_a_recording_reports_what_was_seen_live(watched: Watched) -> None:
    as_json, printed, part = together(
        ("report", watched.recording, "--json"),
        ("report", watched.recording),
        ("report", watched.recording, "--duration", 1, "--json"),
    )
    seen = document(as_json)
    close(states(seen, watched.pid), states(watched.live, watched.pid), 0.07)
    assert {row["name"] for row in watched.live["functions"][:2]} == {row["name"] for row in seen["functions"][:2]}
    assert printed.stdout.splitlines()[0] == watched.printed.splitlines()[0]
    assert document(part)["window"]["duration_s"] == pytest.approx(1, abs=0.01)


def test_a_recording_is_the_live_picture_to_the_last_digit(tmp_path: Path) -> None:
    path = tmp_path / "r.gputop"
    with start_target("computes.py", "busy") as target:
        engine = Engine(describe(target.pid), Settings(), recording=SessionWriter(path))
        engine.start()
        eventually(lambda: sum(engine.store.stack_quality(Window(0, float("inf")))) > 0)
        engine.stop()
    window = engine.store.span()
    assert window is not None
    live, replayed = (source.summary(window, 1) for source in (engine, Replay(path)))
    assert json.dumps(as_document(replayed)) == json.dumps(as_document(live))
    assert text(replayed) == text(live)


def test_the_trace_is_nested_named_and_on_the_clock(watched: Watched) -> None:
    trace = json.loads(watched.trace.read_text())
    jsonschema.validate(trace, json.loads((DATA / "chrome_trace.schema.json").read_text()))
    tracks: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)
    names, counters, stamps = {}, defaultdict(list), []
    for event in trace["traceEvents"]:
        if event["ph"] in "BEC":
            stamps.append(event["ts"])
        if event["ph"] in "BE":
            tracks[event["pid"], event["tid"]].append(event)
        elif event["ph"] == "C":
            counters[event["pid"], event["name"]].append(event["ts"])
        elif event["ph"] == "M":
            names[event["pid"], event.get("tid", 0), event["name"]] = event["args"].get("name")
    seconds = [trace["baseTimeNanoseconds"] / 1e9 + at / 1e6 for at in (min(stamps), max(stamps))]
    assert watched.began - 0.1 < seconds[0] < seconds[1] < watched.ended + 0.1
    assert seconds[1] - seconds[0] == pytest.approx(3, abs=0.3)
    assert names[watched.pid, 0, "process_name"] == "mix.py"
    assert f"MainThread ({watched.pid}) stacks" in names.values()
    assert f"MainThread ({watched.pid}) states" in names.values()
    assert all(at == sorted(at) for at in counters.values())
    assert {"CPU", "all cores"} <= {name for _, name in counters}
    for events in tracks.values():
        check_nesting(events)
    seen = {event["name"] for events in tracks.values() for event in events if event["ph"] == "B"}
    assert {"main", "compute_python", "compute_native", "python", "native", "idle"} <= seen


def check_nesting(events: list[Any]) -> None:
    """Demand that slices are in order, closed, and never end before they began."""
    open_slices: list[float] = []
    last = 0.0
    for event in events:
        assert event["ts"] >= last
        last = event["ts"]
        if event["ph"] == "B":
            open_slices.append(last)
        else:
            assert open_slices.pop() <= last
    assert not open_slices


def test_every_format_is_written_from_a_recording_by_its_ending(watched: Watched, tmp_path: Path) -> None:
    files = [tmp_path / f"trace{item.endings[0]}" for item in FORMATS] + [tmp_path / "trace.json.gz"]
    replay = Replay(watched.recording)
    for file in files[1:]:
        replay.snapshot(file, 3.0, Options(), lambda sentence: None)
    assert gputop("snapshot", watched.recording, "--duration", 3, "-o", files[0]).returncode == 0
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert json.loads(gzip.decompress(files[-1].read_bytes())) == json.loads(files[0].read_text())
    for file in files[:-1]:
        data = file.read_bytes()
        assert b"compute_python" in (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data), file


#: Works until there is a file of the name that it is given.
UNTIL = """
import os, sys
def work():
    while not os.path.exists(sys.argv[1]): pass
work()
"""


def await_stacks(run: subprocess.Popen[str]) -> None:
    """Wait until a gputop has started its third py-spy: the first has brought what it saw by then."""
    seen: set[int] = set()

    def third() -> bool:
        children = psutil.Process(run.pid).children()
        seen.update(child.pid for child in children if "--nonblocking" in command_line(child))
        return len(seen) >= 3

    eventually(third, within=30)


def command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def test_a_snapshot_of_a_program_that_ends_first_holds_what_it_did(tmp_path: Path) -> None:
    """Whether it is the wait for torch's import that it ends in, or the time of the trace."""
    launched, attached, end = tmp_path / "launched.json", tmp_path / "attached.json", tmp_path / "end"
    job = [sys.executable, "-c", UNTIL, str(end)]
    with subprocess.Popen(job) as target:
        runs = [
            start("snapshot", "--pid", target.pid, "--duration", 30, "-o", attached),
            start("snapshot", "--duration", 30, "-o", launched, "--", *job),
        ]
        for run in runs:
            await_stacks(run)
        end.touch()
        assert [ended(run).returncode for run in runs] == [0, 0]
    for trace in (launched, attached):
        seen = {event["name"] for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "B"}
        assert {"work", "python"} <= seen, trace.name


def test_launched_and_exited_targets_keep_to_the_schema_too(tmp_path: Path) -> None:
    program = "import time\nend = time.monotonic() + 1.2\nwhile time.monotonic() < end: pass\nprint('x' * 3)"
    output = tmp_path / "out.txt"
    run = gputop("report", "--json", "--output", output, "--", "sh", "-c", f'exec python3 -c "{program}"; exit 1')
    seen = document(run)
    assert seen["target"]["exited"]
    assert seen["target"]["exit_code"] == 0
    assert seen["target"]["python"].startswith("3."), "the target became another program on the way"
    assert seen["verdict"]["id"] in ("cpu-bound", "starved")
    assert output.read_text() == "xxx\n"
    assert f"what python -c printed is in {output}" in run.stderr or str(output) in run.stderr


def test_children_are_followed_unless_told_otherwise() -> None:
    with start_target("waits.py", "child") as target:
        attached = ("report", "--pid", target.pid, "--duration", 1, "--json")
        tree, alone = map(document, together(attached, (*attached, "--no-tree")))
    assert [process["ppid"] for process in tree["target"]["processes"]][1:] == [target.pid]
    assert {thread["pid"] for thread in tree["threads"]} > {target.pid}
    assert {thread["pid"] for thread in alone["threads"]} == {target.pid}
    assert len(alone["target"]["processes"]) == 1


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("stack_rate = 20\npeek_rate = 10\nbudget = 0\n")
    with start_target("waits.py", "sleep") as target:
        command = ("report", "--pid", target.pid, "--duration", 1.6, "--json", "--stack-rate", 40)
        run = gputop(*command, GPUTOP_CONFIG=str(config), GPUTOP_STACK_RATE="30", GPUTOP_PEEK_RATE="15")
        broken = gputop("report", "--pid", target.pid, GPUTOP_PEEK_RATE="fast")
    cost = document(run)["cost"]
    assert (cost["stack_rate_hz"], cost["peek_rate_hz"], cost["stopped_share"]) == (40, 15, 0)
    assert (broken.returncode, "the variable GPUTOP_PEEK_RATE: fast is not a number" in broken.stderr) == (2, True)


def test_doctor_finds_what_this_machine_lacks_and_says_so_in_its_exit_code(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    healthy = gputop("doctor")
    no_state = gputop("doctor", XDG_STATE_HOME=str(blocked))
    assert no_state.returncode == 1
    assert re.search(r"^FAIL  state directory .*\n.*→ set XDG_STATE_HOME", no_state.stdout, re.MULTILINE)
    if os.path.exists("/dev/nvidiactl") or os.geteuid() != 0:
        return
    assert healthy.returncode == 0
    assert "WARN  NVIDIA GPUs" in healthy.stdout
    assert "--gpus all" in healthy.stdout


def test_what_is_missing_is_in_the_notes_with_its_remedy() -> None:
    with start_target("waits.py", "sleep") as target:
        seen = report(target.pid, 1)
    if not seen["gpus"]:
        assert "no NVIDIA driver here" in noted(seen, "gpu")
        assert "--gpus all" in noted(seen, "gpu")
