"""The demo's stages, watched as a newcomer would: each shows what its docstring promises. And the picker."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from gputop.demo import STAGES, command
from tests.e2e.harness import GPUTOP, document, together
from tests.e2e.tmux import Tmux
from tests.fakes.programs import running


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Report on each stage, without torch: those of one thread side by side, then the one that fills all cores."""
    folder, flags = tmp_path_factory.mktemp("demo"), ("--no-torch", "--seconds", "5")

    def reports(*stages: str) -> dict[str, dict[str, Any]]:
        words = (("report", "--json", "--output", folder / stage, "--", *command(stage), *flags) for stage in stages)
        return {stage: document(run) for stage, run in zip(stages, together(*words), strict=True)}

    crowd = "threads"
    return reports(*(stage for stage in STAGES if stage != crowd)) | reports(crowd)


def below(seen: dict[str, Any], name: str) -> float:
    """Return the share of time in a function and what it calls."""
    return max((float(row["total"]) for row in seen["functions"] if row["name"] == name), default=0.0)


@pytest.mark.parametrize(("stage", "function"), [("naive", "load_model"), ("cached", "decode_image")])
def test_one_thread_computes_all_the_time_where_it_says(stage: str, function: str, shown: dict[str, Any]) -> None:
    seen = shown[stage]
    assert seen["verdict"]["id"] in ("cpu-bound", "starved"), seen["verdict"]
    assert below(seen, function) > 0.45, seen["functions"][:5]
    (main,) = [thread for thread in seen["threads"] if thread["main"]]
    busy = sum(main["states"].get(state, 0) for state in ("python", "native", "starved"))
    assert busy > 0.85


def test_threads_wait_for_each_other(shown: dict[str, Any]) -> None:
    seen = shown["threads"]
    (main,) = [thread for thread in seen["threads"] if thread["main"]]
    # It waits for answers, and for the GIL to take them; before that it has loaded the model.
    assert sum(main["states"].get(state, 0) for state in ("lock", "gil", "starved")) > 0.6, main
    assert main["states"].get("lock", 0) > 0.3, main
    workers = [thread for thread in seen["threads"] if thread["name"].startswith("decoder-")]
    assert len(workers) >= 4
    for state in ("python", "native", "gil"):
        assert sum(worker["states"].get(state, 0) for worker in workers) > 0.03, state
    assert {"decode_image", "classify_locked"} <= {row["name"].rpartition(".")[2] for row in seen["functions"]}


def test_demo_opens_the_screen_and_ends_with_its_job(tmp_path: Path) -> None:
    with Tmux(tmp_path, [*GPUTOP, "demo", "cached"]) as tmux:
        tmux.expect("hottest functions", "decode_image", "images/s")
        tmux.press("q")
        tmux.expect("is still running")
        tmux.press("e")
        tmux.expect("code=0")


def test_the_picker_finds_a_program_and_attaches(tmp_path: Path) -> None:
    job = tmp_path / "pick_me_17.py"
    job.write_text("import sys\nprint('ready', flush=True)\nsys.stdin.read()\n")
    with running(["env", "-C", str(tmp_path), sys.executable, job.name]) as target, Tmux(tmp_path, [*GPUTOP]) as tmux:
        tmux.expect("pick_me_17.py", str(target.pid))
        tmux.press(*"pick_me")
        tmux.expect("1 of")
        tmux.press("Enter")
        tmux.expect(f"pid {target.pid}", "hottest functions")
        tmux.press("q")
        tmux.expect("code=0")
