"""Fixtures for known-answer programs: import them into a test module (`from tests.fixtures_targets import …`).

with start_target("mix.py", cuda_library, "20", "python=.5", "idle=.5") as target:
    …look at target.pid…
    truth = target.truth()
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.build import compile_shared, compiler

TARGETS = Path(__file__).parent / "targets"

#: How long a target may take to get ready and to end, on a loaded machine.
_PATIENCE_S = 30.0


@dataclass
class Target:
    """A target program in its steady state."""

    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def truth(self) -> dict[str, Any]:
        """End the program and return what it says about itself: "wall", "shares", "hot" (see targets/common.py)."""
        output, _ = self.process.communicate(timeout=_PATIENCE_S)
        assert self.process.returncode == 0, f"the target failed with {self.process.returncode}"
        truth: dict[str, Any] = json.loads(output.splitlines()[-1])
        return truth


@contextmanager
def start_target(name: str, *arguments: object, python: str = sys.executable, **environment: str) -> Iterator[Target]:
    """Start `targets/NAME` and wait until it is in its steady state; it is ended on the way out."""
    process = subprocess.Popen(
        [python, str(TARGETS / name), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "ready\n", f"the target did not get ready: {line!r}"
        yield Target(process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def cuda_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the stand-in for the CUDA driver; skips without a C compiler."""
    if compiler() is None:
        pytest.skip("a C compiler is needed for the stand-in CUDA driver")
    return compile_shared("cuda.c", "libcuda.so.1", tmp_path_factory.mktemp("cuda"))


@pytest.fixture(scope="session")
def nccl_library(cuda_library: Path) -> Path:
    """Compile the stand-in for NCCL beside that for the driver."""
    return compile_shared("nccl.c", "libnccl.so.2", cuda_library.parent, (cuda_library,))
