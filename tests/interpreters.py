"""Other Pythons that tests try as targets: where they are found, and what is said when they are not."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Names the folders that have interpreters ("python3.14", "python3.13t"), beside the PATH and pyenv's. It is read
#: now: no test sees variables that might be settings of gputop's.
VARIABLE = "GPUTOP_PYTHONS"
_FOLDERS = os.environ.get(VARIABLE, "")


def find(version: str) -> str | None:
    """Return an interpreter of this version, "3.13t" for the free-threaded build, or None."""
    return sys.executable if version == _OWN else next(_candidates(version), None)


def python(version: str) -> str:
    """Return an interpreter of this version; skips when there is none."""
    found = find(version)
    if found is None:
        pytest.skip(f"no Python {version} on the PATH, in {VARIABLE} or in pyenv")
    return found


_OWN = f"{sys.version_info[0]}.{sys.version_info[1]}" + "t" * bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def _candidates(version: str) -> Iterator[str]:
    named = shutil.which(f"python{version}", path=_FOLDERS)
    if named:
        yield named
    versions = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    kept = sorted(versions.glob(f"{version.removesuffix('t')}.*/bin/python{version}"))
    yield from map(str, kept[-1:])
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield on_path
