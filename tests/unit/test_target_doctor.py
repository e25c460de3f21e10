"""What works on this machine: each check with its remedy, none able to hang or break the others."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

import psutil
import pytest

from gputop import procfs
from gputop.errors import GputopError
from gputop.target import doctor, probe
from gputop.target.doctor import CHECKS, Check, run_checks
from gputop.target.probe import Look


def checked(name: str) -> Check:
    return doctor._checked(name, dict(CHECKS)[name])


def test_every_check_says_something() -> None:
    checks = run_checks()
    assert [check.name for check in checks] == [name for name, _ in CHECKS]
    assert all(check.finding and check.finding.isprintable() for check in checks)
    assert all(check.remedy for check in checks if check.status == "fail")


def test_a_process_of_the_same_user_can_be_looked_into() -> None:
    scope = probe.yama_scope()
    if scope and not probe.has_ptrace_capability():
        pytest.skip("Yama restricts this user to descendants")
    look = probe.look_into_another()
    if "process_vm_readv" in look.refused or "syscall" in look.refused:
        pytest.skip(f"this machine refuses it: {look.refused}")
    assert 0 < look.seconds < 0.01


@pytest.mark.parametrize(
    ("refused", "scope", "status", "finding"),
    [
        ("", None, "ok", "one look 12 µs"),
        ("", 1, "ok", "Yama scope 1"),
        ("process_vm_readv: Operation not permitted", 1, "warn", "only programs started with gputop"),
        ("process_vm_readv: Operation not permitted", None, "fail", "Operation not permitted"),
        ("/proc/PID/syscall: denied", 3, "fail", "Yama scope 3"),
    ],
)
def test_the_right_to_look(
    refused: str, scope: int | None, status: str, finding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "look_into_another", lambda: Look(refused, 0.0 if refused else 12e-6))
    monkeypatch.setattr(doctor, "yama_scope", lambda: scope)
    check = checked("looking into processes")
    assert (check.status, finding in check.finding) == (status, True)
    assert ("SYS_PTRACE" in check.remedy) == (status != "ok")


def test_the_capability_is_told_from_the_process_status(monkeypatch: pytest.MonkeyPatch) -> None:
    for mask, held in (("0000000000080000", True), ("000001fffff7ffff", False)):
        monkeypatch.setattr(procfs, "status", lambda pid, mask=mask: {"CapEff": mask})
        assert probe.has_ptrace_capability() is held


def test_a_driver_that_hangs_does_not_hang_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_ASK_DRIVER", "import time; time.sleep(600)")
    monkeypatch.setattr(doctor, "_PATIENCE_S", 0.3)
    check = checked("NVIDIA GPUs")
    assert (check.status, "does not answer within 0.3 s" in check.finding) == ("fail", True)
    assert not psutil.Process().children()


def test_what_the_driver_says(monkeypatch: pytest.MonkeyPatch) -> None:
    told = json.dumps(["580.159", ["NVIDIA H200", "NVIDIA H200", "L4\x1b[2J"]])
    monkeypatch.setattr(doctor, "_ASK_DRIVER", f"print({told!r})")
    assert checked("NVIDIA GPUs") == Check("NVIDIA GPUs", "ok", "driver 580.159: 2 × NVIDIA H200, 1 × L4�[2J")


def test_no_driver_and_a_broken_one_differ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "_ASK_DRIVER", "raise OSError('Driver/library version mismatch')")
    monkeypatch.setattr(doctor, "_DEVICES", (str(tmp_path / "nvidiactl"),))
    assert checked("NVIDIA GPUs").status == "warn"
    (tmp_path / "nvidiactl").touch()
    check = checked("NVIDIA GPUs")
    assert (check.status, "version mismatch" in check.finding) == ("fail", True)


def test_pyspy_missing_and_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    check = checked("py-spy")
    assert (check.status, "not installed" in check.finding, "pip install" in check.remedy) == ("fail", True, True)
    (tmp_path / "py-spy").write_text("#!/bin/sh\necho broken >&2; exit 1\n")
    (tmp_path / "py-spy").chmod(0o755)
    assert checked("py-spy").finding == "py-spy does not run: broken"
    (tmp_path / "py-spy").write_text("#!/bin/sh\necho py-spy 0.4.9\n")
    assert checked("py-spy").status == "ok"


def test_a_state_directory_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert checked("state directory").status == "ok"
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    check = checked("state directory")
    assert (check.status, "XDG_STATE_HOME" in check.remedy) == ("fail", True)


class Terminal:
    """A standard output that claims to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("size", "encoding", "status"),
    [((160, 48), "utf-8", "ok"), ((160, 48), "ascii", "warn"), ((39, 20), "UTF8", "warn")],
)
def test_terminals(size: tuple[int, int], encoding: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    terminal.encoding = encoding
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size(size))
    monkeypatch.setenv("TERM", "xterm\x1b[2J")
    check = checked("terminal")
    assert (check.status, bool(check.remedy), check.finding.isprintable()) == (status, status == "warn", True)


def test_a_check_that_breaks_leaves_the_others() -> None:
    def breaks() -> tuple[doctor.Status, str, str]:
        raise GputopError("no \x1b way")

    assert doctor._checked("odd", breaks) == Check("odd", "warn", "could not be checked: no � way")
