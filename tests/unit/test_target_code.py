"""Source files of the target: what is shown, and why something is not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gputop.model import ProcessInfo
from gputop.target import code

#: This process, as if started after every file that a test will write.
ME = ProcessInfo(os.getpid(), 1, time.time() + 86_400, ("python",), python="3.12")


def _file(tmp_path: Path, text: str | bytes, name: str = "job.py") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_lines_are_those_that_python_counts(tmp_path: Path) -> None:
    path = _file(tmp_path, "one\r\n\ttwo\n\x0cthree\u2028still three\n")
    found = code.read(str(path), ME, live=True)
    assert found.lines == ("one", "    two", "�three�still three")
    assert (found.missing, found.remark) == ("", "")


def test_escape_sequences_are_not_passed_on(tmp_path: Path) -> None:
    found = code.read(str(_file(tmp_path, "print('\x1b[2J')\n")), ME, live=True)
    assert found.lines == ("print('�[2J')",)


def test_a_relative_name_is_looked_up_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _file(tmp_path, "x = 1\n")
    monkeypatch.chdir(tmp_path)
    assert code.read("job.py", ME, live=True).lines == ("x = 1",)
    assert code.read("job.py", ME, live=False).missing == "the file is not there"


@pytest.mark.parametrize("name", ["<string>", "<frozen runpy>", ""])
def test_code_without_a_file(name: str) -> None:
    assert "made at run time" in code.read(name, ME, live=True).missing


def test_a_file_that_changed_is_not_shown(tmp_path: Path) -> None:
    path = _file(tmp_path, "x = 1\n")
    before = ProcessInfo(os.getpid(), 1, path.stat().st_mtime - 10, ("python",))
    found = code.read(str(path), before, live=True)
    assert found.lines == ()
    assert "changed since the program started" in found.missing


def test_what_is_no_source_says_why(tmp_path: Path) -> None:
    assert code.read(str(tmp_path), ME, live=True).missing.endswith("is not a regular file")
    assert code.read(str(tmp_path / "none.py"), ME, live=True).missing == "the file is not there"
    assert code.read(str(_file(tmp_path, b"\x7fELF\0\0")), ME, live=True).missing == "the file is not text"
    os.mkfifo(tmp_path / "pipe.py")
    assert code.read(str(tmp_path / "pipe.py"), ME, live=True).missing.endswith("is not a regular file")


def test_only_so_much_of_a_file(tmp_path: Path) -> None:
    found = code.read(str(_file(tmp_path, "x" * 1000 + "\n" + "y\n" * code.LIMIT)), ME, live=True)
    assert found.remark == "only the first 4 MiB are shown"
    assert len(found.lines[0]) == 400


def test_what_the_reader_should_know_goes_along(tmp_path: Path) -> None:
    found = code.read(str(_file(tmp_path, "x = 1\n")), ME, live=False, remark="recorded on node7")
    assert found == code.Code(("x = 1",), remark="recorded on node7")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a mount namespace here")
def test_a_program_with_mounts_of_its_own_shows_its_own_file(tmp_path: Path) -> None:
    """A container's file, where this machine has another one of the same name."""
    here, there = tmp_path / "app", tmp_path / "image"
    here.mkdir()
    there.mkdir()
    _file(here, "ours = 1\n")
    _file(there, "theirs = 1\n")
    script = f"mount --bind {there} {here} && echo ready && exec cat"
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        if program.stdout.readline() != "ready\n":
            pytest.skip("no mount namespaces here")
        process = ProcessInfo(program.pid, 1, time.time() + 60, ("cat",))
        found = code.read(str(here / "job.py"), process, live=True)
        program.communicate("")
    assert found.lines == ("theirs = 1",)
    assert code.read(str(here / "job.py"), ME, live=True).lines == ("ours = 1",)


def test_a_process_that_is_gone(tmp_path: Path) -> None:
    gone = ProcessInfo(2**22 + 1, 1, 0.0, ("python",))
    assert code.read(str(_file(tmp_path, "x = 1\n")), gone, live=True).missing == "the file is not there"


def test_links_in_a_container_stay_in_it(tmp_path: Path) -> None:
    """An absolute link of a container's would else show this machine's file of that name."""
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "app" / "deep").mkdir(parents=True)
    (root / "etc" / "hosts").write_text("the container's\n")
    (root / "app" / "absolute.py").symlink_to("/etc/hosts")
    (root / "app" / "outwards.py").symlink_to("../../../../../../../../etc/hosts")
    (root / "app" / "folder").symlink_to("/app/deep")
    (root / "app" / "deep" / "up.py").symlink_to("../absolute.py")
    for name in ("absolute.py", "outwards.py", "folder/up.py"):
        assert code.resolved(str(root), f"/app/{name}") == str(root / "etc" / "hosts"), name
    (root / "app" / "loop.py").symlink_to("loop.py")
    with pytest.raises(OSError, match="too many symbolic links"):
        code.resolved(str(root), "/app/loop.py")


def test_this_very_interpreter_has_source_to_show() -> None:
    assert code.read(os.__file__, ME, live=True).lines[0].startswith("r")
    assert "not text" in code.read(sys.executable, ME, live=True).missing
