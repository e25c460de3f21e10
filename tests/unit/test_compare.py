"""Two windows compared: known changes, chance told from change, and functions of another checkout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.analysis.compare import compare
from gputop.analysis.results import Column, FunctionRow, Headline, Series, Summary, Timeline
from gputop.cli import main
from gputop.model import NA, GpuReading, GpuUse, ProcessInfo, Session, Value, Window
from gputop.report import diff
from gputop.session import SessionWriter
from tests.unit.analysis_tools import DECODE, MAIN, PID, PYTHON, ROOT, STEP, SYNC, peeks, stacks

SESSION = Session(ProcessInfo(1, 0, 0.0, ("python", "train.py")), 1.7e9, "node", 4, "0")


def row(name: str, share: float, file: str = "/a/train.py", line: int = 1) -> FunctionRow:
    return FunctionRow(name, file, line, share, share, {"python": 1.0})


def summary(
    native: Sequence[float],
    busy: Sequence[Value] = (),
    functions: Sequence[FunctionRow] = (),
    *,
    others: Sequence[Value] | None = None,
) -> Summary:
    """Return a window whose thread is `native` in these shares along it, and idle else."""
    columns = tuple(Column(at, 1.0, {"native": share, "idle": 1 - share}) for at, share in enumerate(native))
    mean = sum(native) / len(native)
    states = {"native": mean, "idle": 1 - mean}
    curves = [busy] if others is None else [others, busy]
    use = [GpuUse(NA(""), NA(""), NA(""), present=curve is busy) for curve in curves]
    return Summary(
        session=SESSION,
        window=Window(0, len(native)),
        processes=(),
        ended={},
        threads=(),
        headline=Headline(1, 1, "MainThread", mean, 0.0, 0.0, 1 - mean, states, {}),
        functions=tuple(functions),
        lines=(),
        timeline=Timeline(
            columns,
            Series("CPU", ()),
            tuple(Series(f"GPU {at}", tuple(curve)) for at, curve in enumerate(curves)) if busy else (),
            (),
        ),
        host=None,
        gpus=tuple(GpuReading(at, "", "", {}, own) for at, own in enumerate(use)) if busy else (),
    )


def test_the_gpu_does_more() -> None:
    before = summary([0.8, 0.82] * 10, [0.2, 0.22] * 10, [row("decode", 0.6), row("step", 0.2)])
    after = summary([0.3, 0.32] * 10, [0.9, 0.92] * 10, [row("step", 0.25), row("decode", 0.1)])
    found = compare(before, after)
    assert found.better is True
    assert found.answer == "the GPU is busier: 21 % → 91 %; MainThread native 81 % → 31 %; decode 60 % → 10 %"
    assert {change.name: round(change.points, 6) for change in found.functions} == {"decode": -0.5, "step": 0.05}
    assert found.functions[0].name == "decode", "the largest change first"
    assert {change.name: round(change.points, 6) for change in found.states} == {"native": -0.5, "idle": 0.5}
    assert compare(after, before).better is False


def test_chance_is_told_from_change() -> None:
    """Means differ by 5 points, but each step of the window differs by 40 from the next."""
    before = summary([0.3, 0.7] * 10, [0.3, 0.7] * 10)
    after = summary([0.35, 0.75] * 10, [0.35, 0.75] * 10)
    found = compare(before, after)
    assert found.gpu is not None
    assert found.gpu.noise == pytest.approx(2 * (2 * 0.2**2 / 19) ** 0.5, rel=1e-6)
    assert not found.gpu.clear
    assert found.better is None
    assert (
        found.answer == "the GPU is as busy as before, within chance (50 % → 55 %); MainThread does the same as before"
    )
    steady = compare(summary([0.5, 0.5] * 10, [0.5, 0.51] * 10), summary([0.55] * 20, [0.55, 0.56] * 10))
    assert steady.better is True
    assert steady.states[0].clear


def test_short_windows_say_nothing_of_chance() -> None:
    found = compare(summary([0.2] * 3, [0.2] * 3), summary([0.6] * 3, [0.6] * 3))
    assert found.gpu is not None
    assert found.gpu.noise is None
    assert found.better is True


def test_only_the_targets_gpu_counts() -> None:
    found = compare(summary([0.5] * 10, [0.1] * 10, others=[1.0] * 10), summary([0.5] * 10, [0.3] * 10))
    assert found.gpu is not None
    assert found.gpu.before == pytest.approx(0.1)
    assert found.gpu.after == pytest.approx(0.3)


def test_without_a_gpu_there_is_no_answer_about_it() -> None:
    found = compare(summary([0.5] * 10), summary([0.5] * 10, [NA("lost")] * 10))
    assert (found.gpu, found.better) == (None, None)
    assert found.answer == "MainThread does the same as before; how busy the GPU was is not known for both"
    assert compare(summary([0.5] * 10), summary([0.5] * 10)).answer == "MainThread does the same as before"


def test_functions_of_another_checkout_are_the_same_ones() -> None:
    before = [row("decode", 0.6, "/v1/data.py"), row("main", 0.1, "/v1/a/train.py"), row("main", 0.1, "/v1/b/train.py")]
    after = [row("decode", 0.2, "/v2/data.py", 9), row("main", 0.3, "/v2/train.py"), row("tiny", 0.001, "/v2/train.py")]
    found = compare(summary([0.5] * 10, functions=before), summary([0.5] * 10, functions=after)).functions
    decode = found[0]
    assert (decode.name, decode.before, decode.after, decode.file, decode.line) == (
        "decode", 0.6, 0.2, "/v2/data.py", 9,
    )  # fmt: skip
    rest = sorted((change.file, change.before, change.after) for change in found[1:] if change.before is not None)
    assert rest == [("/v1/a/train.py", 0.1, None), ("/v1/b/train.py", 0.1, None)], "two of one name cannot be told"
    assert ("/v2/train.py", None, 0.3) in {(change.file, change.before, change.after) for change in found}


def test_as_text_and_as_data() -> None:
    before = summary([0.8, 0.82] * 10, [0.2, 0.22] * 10, [row("decode", 0.6)])
    after = summary([0.3, 0.7] * 10, [0.9, 0.92] * 10, [row("collate", 0.1)])
    found = compare(before, after)
    shown = diff.text(found)
    assert "  GPU busy                 21.0 %    91.0 %   +70.0 points" in shown
    assert "  decode                   60.0 %         –   -60.0 points" in shown
    data = json.loads(json.dumps(diff.document(found)))
    assert data["schema"] == "gputop.diff/1"
    assert data["gpu"]["change"] == pytest.approx(0.7)
    assert data["functions"][0] == {
        "name": "decode", "before": 0.6, "after": None, "change": -0.6, "noise": None, "clear": True,
        "file": "/a/train.py", "line": 1,
    }  # fmt: skip
    assert data["better"] is True
    noisy = compare(summary([0.3, 0.7] * 10), summary([0.35, 0.75] * 10))
    assert "within chance" in diff.text(noisy)


def _recording(path: Path, slow: float) -> Path:
    """Write 10 s of a program that decodes for so many of them, then waits for the GPU."""
    writer = SessionWriter(path)
    for batch in (
        replace(SESSION, root=ROOT),
        peeks(PID, [(0, slow, PYTHON), (slow, 10, SYNC)]),
        stacks(PID, [(0, slow, (MAIN, DECODE)), (slow, 10, (MAIN, STEP))]),
    ):
        writer.write(batch)
    writer.close()
    return path


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(_recording(tmp_path / f"{slow}.gputop", slow)) for slow in (8, 2)]
    assert main(["diff", *files]) == 0
    shown = capsys.readouterr().out
    assert "MainThread python 80 % → 20 %; step 20 % → 80 %" in shown
    assert main(["diff", *files, "--json", "--duration", "1"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["before"]["duration_s"] == 1.0
    assert {change["name"] for change in data["functions"]} == {"step"}
    assert main(["diff", files[0]]) == 2
    assert main(["diff", *files, "--", "python"]) == 2
    assert main(["diff", files[0], str(tmp_path / "none.gputop")]) == 1
