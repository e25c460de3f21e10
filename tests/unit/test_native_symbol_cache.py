"""Symbol tables on disk: kept, found again, and never taken from anybody else."""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.collectors.native import symbol_cache, symbols
from gputop.collectors.native.arch import here
from gputop.collectors.native.elf import BytesSource, FileSource, Image
from gputop.collectors.native.symbol_cache import SymbolCache, open_cache
from gputop.collectors.native.symbols import SymbolReader, Symbols
from tests.unit.native_tools import compiled, needs_gcc

TABLE = bytes(range(256)) * 10


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def cache(base: Path) -> Iterator[SymbolCache]:
    opened = open_cache()
    assert opened is not None
    yield opened
    opened.close()


def _files(base: Path) -> list[Path]:
    return sorted((base / "gputop").iterdir())


def test_a_table_is_found_again_by_its_file_s_identity_only(cache: SymbolCache, base: Path) -> None:
    assert cache.load(b"one") == b""
    cache.store(b"one", TABLE)
    assert cache.load(b"one") == TABLE
    assert cache.load(b"two") == b""
    (file,) = _files(base)
    assert [path.stat().st_mode & 0o777 for path in (base, base / "gputop", file)] == [0o700, 0o700, 0o600]


def _other_owner(file: Path) -> None:
    os.chown(file, 12345, -1)


def _fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def _directory(file: Path) -> None:
    file.unlink()
    file.mkdir(0o700)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"x" + file.read_bytes()[1:]),
        lambda file: file.write_bytes(file.read_bytes()[:-1] + b"x"),
        lambda file: file.chmod(0o640),
        lambda file: file.rename(file.with_name("kept")) and file.symlink_to("kept"),
        _fifo,
        _directory,
        pytest.param(_other_owner, marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")),
    ],
    ids=["short", "empty", "other format", "damaged", "open to others", "link", "fifo", "directory", "foreign"],
)
def test_what_cannot_be_trusted_is_as_good_as_absent(
    cache: SymbolCache, base: Path, spoil: Callable[[Path], object]
) -> None:
    cache.store(b"one", TABLE)
    assert cache.load(b"one") == TABLE
    spoil(_files(base)[0])
    assert cache.load(b"one") == b""


def test_another_file_s_table_under_its_name_is_not_taken(cache: SymbolCache, base: Path) -> None:
    cache.store(b"one", TABLE)
    first = _files(base)[0]
    cache.store(b"two", TABLE[::-1])
    (second,) = set(_files(base)) - {first}
    second.replace(first)
    assert cache.load(b"one") == b""


def test_those_used_longest_ago_make_way_and_so_do_left_overs(base: Path) -> None:
    opened = open_cache()
    assert opened is not None
    opened.close()
    (base / "gputop" / "1.part").write_bytes(bytes(100))
    os.utime(base / "gputop" / "1.part", (1, 1))
    cache = SymbolCache(os.open(base / "gputop", os.O_RDONLY), limit=3 * (len(TABLE) + 100))
    for number in range(3):
        cache.store(bytes([number]), TABLE)
        os.utime(max(_files(base), key=lambda file: file.stat().st_mtime), (number + 2, number + 2))
    assert cache.load(b"\0") == TABLE, "now it is the one used last"
    cache.store(b"new", TABLE)
    assert [bool(cache.load(name)) for name in (b"\0", b"\1", b"\2", b"new")] == [True, False, True, True]
    assert not (base / "gputop" / "1.part").exists()
    cache.store(b"huge", bytes(2 * len(TABLE)))
    assert cache.load(b"huge") == b""
    cache.close()


def test_a_full_disk_leaves_nothing_behind(cache: SymbolCache, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "replace", full)
    cache.store(b"one", TABLE)
    assert _files(base) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be handed somebody else's directories")
def test_root_uses_no_directory_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: str(tmp_path / "root"))
    (tmp_path / "root").mkdir()
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 12345, 12345)
    for base in (theirs, theirs / "absent", tmp_path / "open"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(base))
        if base.name == "open":
            base.mkdir()
            base.chmod(0o777)
        opened = open_cache()
        assert opened is not None
        opened.close()
        assert not (base / "gputop").exists()
    assert (tmp_path / "root" / ".cache" / "gputop").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
def test_a_directory_that_was_planted_is_not_used(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: "~root")
    (base / "gputop").mkdir(parents=True, mode=0o700)
    os.chown(base / "gputop", 12345, 12345)
    assert open_cache() is None
    (base / "gputop").rmdir()
    elsewhere = base.parent / "elsewhere"
    elsewhere.mkdir(0o700)
    (base / "gputop").symlink_to(elsewhere)
    assert open_cache() is None


def _machine() -> int:
    arch = here()
    if arch is None:
        pytest.skip("native stacks are not supported on this processor")
    return arch.elf_machine


def _read(path: Path) -> Symbols:
    """Return the symbols of a file as a run of its own reads them."""
    with open(path, "rb") as file:
        table = Symbols(Image(FileSource(file.fileno()), _machine()))
        reader = SymbolReader()
        reader.read([table])
        deadline = time.monotonic() + 20
        while reader.child:
            assert time.monotonic() < deadline
            reader.poll()
            time.sleep(0.005)
        assert table.ready
        assert table.name(table.image.entry) in ("_start", "")
    return table


@needs_gcc
def test_the_second_run_reads_the_table_of_the_first(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Path(compiled(tmp_path, "chains"))
    monkeypatch.setattr(symbols, "_WORTH_KEEPING_S", -1.0)
    cold = _read(program)
    monkeypatch.setattr(symbols, "table_of", lambda image: struct.pack("<Q", 0))
    warm = _read(program)
    assert list(warm._addresses) == list(cold._addresses) != []
    stamp = program.stat().st_mtime_ns + 1
    os.utime(program, ns=(stamp, stamp))
    assert list(_read(program)._addresses) == [], "another time of change is another file"


@needs_gcc
def test_what_takes_no_time_is_not_kept(base: Path, tmp_path: Path) -> None:
    assert len(_read(Path(compiled(tmp_path, "chains")))._addresses) > 10
    assert _files(base) == []


@needs_gcc
def test_a_build_has_the_name_that_the_linker_gave_it(tmp_path: Path) -> None:
    program = compiled(tmp_path, "chains")
    listed = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    image = Image(BytesSource(Path(program).read_bytes()), _machine())
    assert len(image.build_id()) == 20
    assert f"Build ID: {image.build_id().hex()}" in listed
    assert image.identity() == b"", "what is no file has no identity"


def test_root_s_own_directory_is_root_s_whatever_the_environment_calls_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sudo may keep the HOME of the user who called it."""
    asked: list[Path] = []
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(symbol_cache, "_open_within", lambda base: asked.append(base))
    symbol_cache.open_cache()
    assert asked == [Path(os.path.expanduser("~root"), ".cache")]


def test_a_table_above_the_limit_is_not_read(cache: SymbolCache, base: Path) -> None:
    cache.store(b"one", TABLE)
    smaller = SymbolCache(os.open(base / "gputop", os.O_RDONLY), limit=len(TABLE) // 2)
    assert smaller.load(b"one") == b""
    smaller.close()
