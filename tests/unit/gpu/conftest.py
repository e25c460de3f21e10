"""The stand-in for NVML, compiled once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.build import compile_shared, compiler
from tests.fakes.nvml import Nvml


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the stand-in; it has another name than NVML, so that nothing but its own tests finds it."""
    if compiler() is None:
        pytest.skip("the stand-in for NVML needs a C compiler")
    return compile_shared("nvml.c", "libnvml-standin.so", tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """Return the stand-in in this process, with an empty script and a clock that the test moves."""
    devices = tmp_path / "pci"
    devices.mkdir()
    return Nvml(nvml_library, tmp_path / "nvml.script", devices, monkeypatch)
