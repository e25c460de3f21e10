"""The screen of the GPUs: history in full, lists from three up, reasons for what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.collectors.gpu.metrics import DEVICE_METRICS
from gputop.model import NA, GpuUse
from gputop.tui import history
from gputop.tui.missing import sentences
from gputop.tui.screens.gpus import Gpus
from gputop.tui.tree import rows
from tests.fakes.source import FakeSource
from tests.tui.running import page, running, still, until


@pytest.mark.parametrize(("gpus", "size"), [(1, (160, 48)), (2, (160, 48)), (1, (80, 24))])
async def test_one_or_two_gpus_are_shown_in_full(gpus: int, size: tuple[int, int]) -> None:
    async with running(FakeSource(gpus=gpus), size) as (app, pilot):
        await pilot.press("d")
        await until(pilot, lambda: "GPU 0" in page(app))
        for words in ("used by this program", "12.4 of 140 GiB", "of 700 W", "memory 11.9 GiB"):
            assert page(app).count(words) == gpus, words
        assert page(app).count("SM 1980 MHz") == gpus


@pytest.mark.parametrize(
    ("gpus", "size"), [(8, (160, 48)), (16, (160, 48)), (16, (80, 24)), (2, (80, 24)), (3, (80, 24))]
)
async def test_more_gpus_are_listed_and_the_chosen_one_is_shown_in_full(gpus: int, size: tuple[int, int]) -> None:
    async with running(FakeSource(gpus=gpus), size) as (app, pilot):
        await pilot.press("d")
        await until(pilot, lambda: f"{gpus}, the program's own first" in page(app))
        rows = [row.split()[0] for row in page(app).splitlines()[2 : 2 + gpus]]
        assert rows == [f"{index}●" for index in range(gpus)]
        await pilot.press(*["down"] * (gpus - 1))
        await until(pilot, lambda: f"GPU {gpus - 1} · NVIDIA H200" in page(app))
        await pilot.press("escape")
        assert not isinstance(app.screen, Gpus)


async def test_a_lost_gpu_keeps_its_row_and_says_why() -> None:
    async with running(FakeSource(gpus=8), (120, 40)) as (app, pilot):
        await pilot.press("d")
        await until(pilot, lambda: "5● GPU is lost: reset it or reboot" in page(app))


async def test_without_gpus_the_reason_is_shown() -> None:
    from tests.fakes.source import NO_DRIVER

    async with running(FakeSource(gpus=0, notes=(NO_DRIVER,))) as (app, pilot):
        await pilot.press("d")
        await until(pilot, lambda: "no NVIDIA driver" in page(app))


def test_energy_throttling_and_what_is_missing() -> None:
    source = FakeSource()
    scene = still("starved")
    item = source.gpu_history(scene.summary.window, 40)[0]  # type: ignore[union-attr]
    mean = replace(item.mean, metrics={**item.mean.metrics, "throttle.power_cap": 0.125, "throttle.thermal": 0.0})
    newest = replace(item.newest, metrics={**item.newest.metrics, "energy_j": 7200.0, "fan": NA("no fan here")})
    drawn = history.block(scene, replace(item, mean=mean, newest=newest), 60, 120, 40)
    shown = "\n".join("".join(text for text, _ in row) for row in drawn)
    assert "7200 J, 2.00 Wh since attach" in shown
    assert "power cap 12.5 %" in shown
    assert "no fan here: fan" in shown
    (throttled,) = [row for row in shown.splitlines() if "throttled  " in row]
    assert "thermal" not in throttled


def test_every_number_of_the_driver_is_on_the_screen() -> None:
    """NVLink, video engines, ECC, MIG and GPM each have their place; what is missing has its reason there too."""
    scene = still("starved")
    item = FakeSource().gpu_history(scene.summary.window, 40)[0]  # type: ignore[union-attr]
    numbers = dict.fromkeys(DEVICE_METRICS, 0.5) | {"mig_mode": 0.0, "nvlink_rx_bps": 3e6, "nvlink_tx_bps": 4e6}
    full = replace(item, newest=replace(item.newest, metrics=dict(numbers)))
    bare = replace(item, newest=replace(item.newest, metrics=dict.fromkeys(DEVICE_METRICS, NA("none of it here"))))
    for size in ((160, 47), (80, 23)):
        shown = " ".join(" ".join(text for text, _ in row) for row in history.block(scene, full, 60, *size))
        for words in ("NVLink", "encoder 50 %, decoder 50 %", "0 uncorrected", "off", "occupancy 50 %, FP32 50 %"):
            assert words in shown, words
        drawn = history.block(scene, bare, 60, *size)
        told = " ".join(" ".join("".join(text for text, _ in row) for row in drawn).split())
        assert all(label in told for label in ("NVLink ↓", "enc", "ECC", "MIG", "occupancy", "tensor")), told


def test_reasons_are_told_once_for_all_gpus() -> None:
    scene = still("bound")
    assert scene.summary is not None
    gpus = tuple(replace(gpu, metrics={**gpu.metrics, "fan": NA("no fan here")}) for gpu in scene.summary.gpus)
    told = list(sentences(replace(scene.summary, gpus=gpus)))
    assert "GPU 0, 1: fan: no fan here" in told


async def test_t32_screens_of_sixteen_gpus_survive_a_storm_of_sizes() -> None:
    async with running(FakeSource(gpus=16), (80, 24)) as (app, pilot):
        for key in ("", "d"):
            await pilot.press(*key)
            for size in ((200, 60), (40, 10), (80, 24), (30, 5), (160, 48), (80, 24)):
                await pilot.resize_terminal(*size)
                await pilot.pause()
        await until(pilot, lambda: "16, the program's own first" in page(app))
        assert [row.split()[0] for row in page(app).splitlines()[2:18]] == [f"{index}●" for index in range(16)]


def test_t33_a_process_on_several_gpus_has_one_cpu_number() -> None:
    scene = still("bound")
    assert scene.summary is not None
    use = GpuUse(0.5, 0.5, 3e9, True, ((4121, 1e9),))
    shared = replace(scene.summary, gpus=tuple(replace(gpu, target=use) for gpu in scene.summary.gpus))
    (row,) = [row for row in rows(shared) if row.process.pid == 4121]
    assert len(shared.gpus) == 2
    assert row.gpu_bytes == 2e9
    assert row.cpu == rows(scene.summary)[0].cpu
