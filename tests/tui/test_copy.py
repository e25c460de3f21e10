"""The copy key: what it copies on each screen."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.source import FakeSource
from tests.tui.running import page, running, text, until


async def test_a_chosen_row_is_copied_else_the_verdict() -> None:
    async with running() as (app, pilot):
        await pilot.press("y")
        assert app.clipboard == f"GPU starved: {app.scene.summary.verdict.sentence}"  # type: ignore[union-attr]
        await until(pilot, lambda: "copied" in text(app, "message"))
        await pilot.press("down", "y")
        assert app.clipboard.startswith("decode_image (/home/ada/train/data.py:31): self ")
        assert app.clipboard.endswith("mostly native")


async def test_processes_gpus_and_output() -> None:
    source = FakeSource(launched=True, output=Path("/tmp/out.log"), exited=(0,))
    async with running(source, (120, 30)) as (app, pilot):
        await pilot.press("p", "y")
        assert app.clipboard == "4121 python train.py --epochs 90"
        await pilot.press("d")
        await until(pilot, lambda: "GPU 0" in page(app))
        await pilot.press("y")
        assert app.clipboard.startswith("GPU 0 (NVIDIA H200): ")
        await pilot.press("O")
        await until(pilot, lambda: "epoch 3" in page(app))
        await pilot.press("y")
        assert "img/s" in app.clipboard
        await pilot.press("escape", "escape")
        await until(pilot, lambda: "hottest functions" in text(app, "hot"))
