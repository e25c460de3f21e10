"""Which py-spy is run: ours, and nothing that somebody else could have put there."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from pathlib import Path

import pytest

from gputop.collectors.stacks import command


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "py-spy"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/bin/python")
    monkeypatch.setattr("sysconfig.get_path", lambda name: "/nowhere/scripts")
    monkeypatch.setattr(importlib.metadata, "files", lambda name: None)


def test_the_installed_one_is_found() -> None:
    found = command.find_binary()
    assert found is not None
    assert found.is_absolute()
    assert found.name == "py-spy"


@pytest.mark.usefixtures("nothing_installed")
def test_beside_the_interpreter(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(program.parent / "python"))
    assert command.find_binary() == program


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("path", ["", ".", ":", "..:", "relative/bin"])
def test_never_from_the_working_directory(program: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    (program.parent / "relative" / "bin").mkdir(parents=True)
    os.link(program, program.parent / "relative" / "bin" / "py-spy")
    monkeypatch.chdir(program.parent)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", path)
    assert command.find_binary() is None


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(("user", "found"), [(0, False), (os.getuid() or 1000, True)])
def test_from_path_for_ordinary_users_only(
    program: Path, monkeypatch: pytest.MonkeyPatch, user: int, found: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setenv("PATH", str(program.parent))
    assert (command.find_binary() == program) is found


@pytest.mark.usefixtures("nothing_installed")
def test_writable_by_everybody_is_not_run(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(program.parent / "python"))
    program.chmod(0o777)
    assert command.find_binary() is None


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_another_users_is_not_run(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(program.parent / "python"))
    os.chown(program, 54321, 54321)
    assert command.find_binary() is None


@pytest.mark.usefixtures("nothing_installed")
def test_none_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert command.find_binary() is None
