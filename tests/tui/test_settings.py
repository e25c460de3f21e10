"""The settings screen: changes are applied at once and kept in the file, of which nothing else is touched."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from gputop import config
from gputop.config import Settings
from gputop.errors import GputopError, UsageError
from gputop.tui.app import GputopApp
from gputop.tui.screens.overview import Overview
from gputop.tui.screens.settings import moved, values
from tests.tui.running import page, running, text, until

_FIELDS = {item.name: item for item in fields(Settings)}


@pytest.mark.parametrize("name", sorted(_FIELDS))
def test_every_value_offered_is_a_valid_one(name: str, tmp_path: Path) -> None:
    item = _FIELDS[name]
    assert item.default in values(item)
    for value in values(item):
        file = tmp_path / "config.toml"
        config.save({name: value}, file)
        assert getattr(config.load({}, {}, file), name) == value


def test_numbers_end_and_choices_go_round() -> None:
    assert moved(_FIELDS["hz"], 2.0, 1) == 5.0
    assert moved(_FIELDS["hz"], 10.0, 1) == 10.0
    assert moved(_FIELDS["hz"], 3.3, -1) == 2.0
    assert moved(_FIELDS["theme"], "ansi", 1) == "dark"
    assert moved(_FIELDS["mouse"], True, 1) is False


_FILE = """\
# my settings
hz = 1.0   # slow line
'theme' = "light"

[other]
hz = 3
"""


def test_every_other_line_of_the_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(_FILE)
    config.save({"hz": 5.0, "theme": "ansi", "mouse": False}, file)
    kept = _FILE.replace("hz = 1.0", "hz = 5").replace("light", "ansi").replace("[other]", "mouse = false\n[other]")
    assert file.read_text() == kept


def test_the_file_is_private_and_replaced_at_once(tmp_path: Path) -> None:
    file = tmp_path / "new" / "config.toml"
    config.save({"window": 30.0}, file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(file.parent) == ["config.toml"]
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    config.save({"window": 20.0}, link)
    assert link.is_symlink()
    assert file.read_text() == "window = 20\n"


@pytest.mark.parametrize("broken", ["hz = [", "hz = '''\n1'''"])
def test_a_file_that_cannot_be_changed_safely_is_left_alone(broken: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(broken)
    with pytest.raises(GputopError):
        config.save({"hz": 5.0}, file)
    assert file.read_text() == broken
    assert os.listdir(tmp_path) == ["config.toml"]


def test_a_file_that_cannot_be_written_says_what_helps(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GputopError, match="cannot write") as raised:
        config.save({"hz": 5.0}, tmp_path / "file" / "config.toml")
    assert "GPUTOP_CONFIG" in raised.value.remedy
    assert not isinstance(raised.value, UsageError)


def _at(app: GputopApp, name: str) -> int:
    return list(_FIELDS).index(name)


async def _change(app: GputopApp, pilot: Any, name: str, key: str = "right") -> None:
    await pilot.press("home", *["down"] * _at(app, name), key)


async def test_what_can_be_is_applied_at_once() -> None:
    async with running() as (app, pilot):
        await pilot.press("S")
        await until(pilot, lambda: "settings" in page(app))
        await _change(app, pilot, "theme")
        assert app.colours.name == "light"
        assert app.theme == "gputop-light"
        await _change(app, pilot, "glyphs", "left")
        assert app.glyphs.name == "ascii"
        assert page(app).isascii()
        await _change(app, pilot, "window", "left")
        assert app.scene.view.seconds == 50.0
        await _change(app, pilot, "hz")
        assert app._timer is not None
        assert app._timer._interval == 1 / 5
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, Overview))
        assert text(app, "timeline").isascii()
        await until(pilot, lambda: app.scene.summary.window.seconds < 51)  # type: ignore[union-attr]


async def test_saving_and_what_waits_for_the_next_start() -> None:
    async with running(size=(140, 30)) as (app, pilot):
        await pilot.press("S")
        await until(pilot, lambda: "settings" in page(app))
        await _change(app, pilot, "stack_rate")
        row = next(row for row in page(app).splitlines() if "stack rate" in row)
        assert row.lstrip().startswith("*")
        assert "from the next start on" in row
        assert "1 changed, s saves them" in page(app)
        await pilot.press("s")
        await until(pilot, lambda: "saved in" in page(app))
        assert config.config_path().read_text() == "stack_rate = 200\n"
        assert "changed, s saves" not in page(app)


async def test_what_cannot_be_saved_says_why() -> None:
    config.config_path().parent.mkdir(parents=True)
    config.config_path().write_text("hz = [")
    async with running(size=(140, 30), settings=Settings()) as (app, pilot):
        await pilot.press("S")
        await until(pilot, lambda: "settings" in page(app))
        await _change(app, pilot, "hz")
        await pilot.press("s")
        await until(pilot, lambda: "not saved" in page(app))
    assert config.config_path().read_text() == "hz = ["


async def test_the_environment_wins_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTOP_HZ", "2")
    async with running(size=(140, 30)) as (app, pilot):
        await pilot.press("S")
        await until(pilot, lambda: "GPUTOP_HZ is set and wins over the file" in page(app))


async def test_a_narrow_screen_says_below_what_the_setting_is() -> None:
    async with running(size=(40, 10)) as (app, pilot):
        await pilot.press("S", *["down"] * 4)
        shown = page(app).splitlines()
        assert "budget" in "".join(shown[1:6])
        assert "percent of its time the target may be" in " ".join(shown[6:9])
        assert "held up (from the next start on)" in " ".join(shown[6:9])
