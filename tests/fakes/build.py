"""Compile the stand-ins for libraries that a machine without a GPU lacks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent

#: Only exported functions keep a name and every call keeps its frame, as in the libraries that are stood in for.
_FLAGS = (
    "-O1",
    "-shared",
    "-fPIC",
    "-s",
    "-fvisibility=hidden",
    "-fno-optimize-sibling-calls",
    "-pthread",
    "-Wall",
    "-Werror",
)


def compiler() -> str | None:
    """Return the C compiler's path, or None where there is none."""
    return shutil.which("gcc") or shutil.which("cc")


def compile_shared(source: Path | str, soname: str, directory: Path, libraries: tuple[Path, ...] = ()) -> Path:
    """Compile `source` (a path, or a file's name in this folder) into `directory`/`soname`.

    `libraries` are linked to it and found again beside it. Raises CalledProcessError when the compiler fails, and
    RuntimeError when there is none.
    """
    command = compiler()
    if command is None:
        raise RuntimeError("no C compiler")
    path = directory / soname
    link = [*map(str, libraries), "-Wl,-rpath,$ORIGIN"]
    subprocess.run(
        [command, *_FLAGS, f"-Wl,-soname,{soname}", "-o", str(path), str(HERE / source), *link],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return path
