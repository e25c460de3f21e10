"""Which ML frameworks a process has loaded, and their versions, from mapped files and the packages beside them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from gputop.target.files import inside, read_text
from gputop.text import printable


@dataclass(frozen=True, slots=True)
class Framework:
    """How to know a framework: one row a framework.

    Attributes:
        name: what people call it.
        mapped: a library that is mapped once it is imported; group 1 is the directory that holds the package.
        packages: pattern of the distribution whose version counts.
        version_file: file with a line `__version__ = "…"`, read before the distribution's name; may be empty.
    """

    name: str
    mapped: re.Pattern[str]
    packages: str
    version_file: str = ""


FRAMEWORKS = (
    Framework("torch", re.compile(r"(.*)/torch/lib/libtorch_(?:cpu|python)\.so$"), "torch", "torch/version.py"),
    Framework("jax", re.compile(r"(.*)/jaxlib/.*\.so$"), "jax"),
    Framework("tensorflow", re.compile(r"(.*)/tensorflow/libtensorflow_\w+\.so"), r"(?:tensorflow|tf)[\w.]*"),
    Framework("cupy", re.compile(r"(.*)/cupy/_core/.*\.so$"), r"cupy[\w.]*"),
    Framework("vllm", re.compile(r"(.*)/vllm/.*\.so$"), "vllm"),
    Framework("onnxruntime", re.compile(r"(.*)/onnxruntime/capi/.*\.so"), r"onnxruntime[\w.]*"),
)

_VERSION_LINE = re.compile(r"^__version__(?:: \w+)? = ['\"]([^'\"]+)['\"]", re.MULTILINE)
#: Entries of a package directory looked at; big environments have about a thousand.
_ENTRIES = 20_000


def frameworks(pid: int, mapped: Iterable[str]) -> tuple[str, ...]:
    """Return ("torch 2.11.0+cu130", …) for the frameworks among the mapped files, without a version if untold."""
    paths = [path for path in mapped if ".so" in path]
    return tuple(filter(None, (_told(pid, framework, paths) for framework in FRAMEWORKS)))


def _told(pid: int, framework: Framework, paths: list[str]) -> str:
    found = next(filter(None, map(framework.mapped.match, paths)), None)
    if found is None:
        return ""
    return printable(f"{framework.name} {_version(inside(pid, found[1]), framework)}".rstrip(), 60)


def _version(site: str, framework: Framework) -> str:
    if framework.version_file:
        found = _VERSION_LINE.search(read_text(f"{site}/{framework.version_file}"))
        if found:
            return found[1]
    return _distribution(site, framework.packages)


def _distribution(site: str, packages: str) -> str:
    """Return the version in a directory name such as "jax-0.11.0.dist-info"."""
    pattern = re.compile(rf"{packages}-(\d[^-]*)(?:-.*)?\.(?:dist|egg)-info$")
    try:
        with os.scandir(site) as entries:
            names = (pattern.match(entry.name) for entry in islice(entries, _ENTRIES))
            return next((found[1] for found in names if found), "")
    except OSError:
        return ""
