"""Files that are there whole or not at all, private, and never in place of another."""

from __future__ import annotations

import errno
import gzip
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.errors import SnapshotError
from gputop.snapshot import write

LOOKS: tuple[Callable[[Path], object], ...] = (write.check, lambda path: write.write(path, ["new"]))


def test_file_is_private_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    chunks: list[str | bytes] = ["{", b'"a":1', "}"]
    assert write.write(path, chunks) == 7
    assert path.read_bytes() == b'{"a":1}'
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["a.json"]


def test_name_ending_in_gz_is_compressed(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    size = write.write(path, ["x" * 5_000_000])
    assert path.stat().st_size == size < 50_000
    assert gzip.decompress(path.read_bytes()) == b"x" * 5_000_000


def test_progress_tells_the_size(tmp_path: Path) -> None:
    told: list[str] = []
    write.write(tmp_path / "a", ("x" * 1_000_000 for _ in range(50)), told.append)
    assert told == ["writing: 18 MB", "writing: 36 MB"]


@pytest.mark.parametrize("look", LOOKS)
def test_existing_file_is_never_overwritten(tmp_path: Path, look: Callable[[Path], object]) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(SnapshotError, match="exists") as caught:
        look(path)
    assert "another name" in caught.value.remedy
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.json"

    def chunks() -> Iterator[str]:
        yield "new"
        path.write_text("old")

    with pytest.raises(SnapshotError, match="exists"):
        write.write(path, chunks())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_link_to_another_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SnapshotError, match="exists"):
        write.write(tmp_path / "a.json", ["new"])
    assert not (tmp_path / "elsewhere").exists()


def test_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*names: object) -> None:
        raise OSError(errno.EPERM, "no hard links")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "a.json"
    write.write(path, ["new"])
    assert path.read_text() == "new"
    with pytest.raises(SnapshotError, match="exists"):
        write.write(path, ["newer"])
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("name", ["missing/a.json", "file/a.json", "n" * 300])
def test_directory_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    for look in LOOKS:
        with pytest.raises(SnapshotError, match="cannot write") as caught:
            look(tmp_path / name)
        assert caught.value.remedy


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        # root may write anywhere; the kernel's answer to anybody else:
        def refuse(*arguments: object) -> int:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr(os, "open", refuse)
    else:
        tmp_path.chmod(0o500)
    with pytest.raises(SnapshotError, match="Permission denied") as caught:
        write.write(tmp_path / "a.json", ["x"])
    assert "directory that you may write to" in caught.value.remedy


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_file_size_limit(tmp_path: Path, name: str) -> None:
    """The kernel really refuses to write on: what there is of the file goes away."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(SnapshotError, match="File too large") as caught:
            write.write(tmp_path / name, [os.urandom(1 << 20)] * 8)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert "ulimit" in caught.value.remedy
    assert os.listdir(tmp_path) == []


def test_full_disk(tmp_path: Path) -> None:
    def chunks() -> Iterator[str]:
        yield "x"
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(SnapshotError, match="No space left") as caught:
        write.write(tmp_path / "a.json.gz", chunks())
    assert "free some space" in caught.value.remedy
    assert os.listdir(tmp_path) == []


def test_error_of_the_source_leaves_nothing(tmp_path: Path) -> None:
    def chunks() -> Iterator[str]:
        yield "x"
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        write.write(tmp_path / "a.json", chunks())
    assert os.listdir(tmp_path) == []


def test_kill_in_the_middle_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    script = """if True:
        import sys, time
        from pathlib import Path
        from gputop.snapshot import write
        def chunks():
            yield b"x" * (2 << 20)
            print("half", flush=True)
            time.sleep(60)
        write.write(Path(sys.argv[1]), chunks())
    """
    path = tmp_path / "a.json"
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "half\n"
        writer.kill()
    assert not path.exists()
    assert all(name.startswith(".gputop-") and name.endswith(".part") for name in os.listdir(tmp_path))
