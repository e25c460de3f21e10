"""NVIDIA's management library through pynvml, with one way to fail."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
from typing import Any

from gputop.collectors.gpu.backend import Stopping, Unavailable
from gputop.model import NA

#: Return codes of NVML that are told apart (nvml.h, `nvmlReturn_t`).
(
    SUCCESS,
    UNINITIALIZED,
    NOT_SUPPORTED,
    NO_PERMISSION,
    NOT_FOUND,
    INSUFFICIENT_SIZE,
    DRIVER_NOT_LOADED,
    LIBRARY_NOT_FOUND,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    RESET_REQUIRED,
    VERSION_MISMATCH,
    ARGUMENT_VERSION_MISMATCH,
    UNKNOWN,
) = (0, 1, 3, 4, 6, 7, 9, 12, 13, 15, 16, 18, 25, 999)

#: The call does not exist in this driver, or not for this GPU: asking again soon is of no use.
ABSENT = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH})

#: Nothing more can be had from this GPU.
LOST = frozenset({GPU_IS_LOST, RESET_REQUIRED})

#: Codes that end the reading of a GPU; others concern one value.
FATAL = LOST | {UNINITIALIZED}

_REASONS = {
    NOT_SUPPORTED: "not supported by this GPU or driver",
    NO_PERMISSION: "no permission",
    NOT_FOUND: "the driver has no sample of it",
    FUNCTION_NOT_FOUND: "the driver is too old for it",
    GPU_IS_LOST: "GPU is lost (fallen off the bus)",
    RESET_REQUIRED: "GPU must be reset",
    ARGUMENT_VERSION_MISMATCH: "the driver is too old for it",
    UNKNOWN: "the driver failed for an unknown reason",
}

#: Where drivers put the library when it is not on the loader's path: WSL, Kubernetes, NixOS.
ELSEWHERE = ("/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/run/opengl-driver/lib")
LIBRARY = "libnvidia-ml.so.1"

#: The GPU's device file under WSL, and nowhere else.
WSL_DEVICE = "/dev/dxg"

_INIT_TROUBLES = {
    LIBRARY_NOT_FOUND: (
        f"no NVIDIA driver here: {LIBRARY} is neither on the loader's path nor in {', '.join(ELSEWHERE)}",
        "with an NVIDIA GPU: install its driver; in a container: start it with --gpus all",
    ),
    DRIVER_NOT_LOADED: (
        "the NVIDIA kernel driver is not loaded, or its device files are missing",
        "sudo modprobe nvidia; in a container: start it with --gpus all",
    ),
    VERSION_MISMATCH: (
        "the NVIDIA kernel driver and its library have different versions: it was updated while loaded",
        "reboot the machine (a container: restart it)",
    ),
    NO_PERMISSION: ("no permission to open the NVIDIA devices", "ls -l /dev/nvidia* shows who may"),
}

#: What of nvidia-ml-py is used unconditionally; another package by the name of pynvml lacks some of it.
_NEEDED = ("nvmlInit", "NVMLError", "nvmlMemory_v2", "nvmlGpmSampleGet", "nvmlDeviceGetFieldValues")


class Failure(Exception):
    """NVML refused a call; `code` is its return code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def load() -> Any:
    """Import pynvml.

    Raises:
        Unavailable: it is missing, or a foreign package of that name hides it.
    """
    try:
        module = importlib.import_module("pynvml")
    except ImportError:
        raise Unavailable(
            "the Python package nvidia-ml-py is not installed", f"{sys.executable} -m pip install nvidia-ml-py"
        ) from None
    if not all(hasattr(module, name) for name in _NEEDED):
        pip = f"{sys.executable} -m pip"
        raise Unavailable(
            f"another package called pynvml, or an old one, hides nvidia-ml-py ({module.__file__})",
            f"{pip} uninstall -y pynvml; {pip} install --force-reinstall nvidia-ml-py",
        )
    return module


class Library:
    """The functions of pynvml.

    pynvml fails in many ways: `NVMLError`, `NVMLLibraryMismatchError` (which is not one), an attribute that an older
    binding lacks, text that does not decode. Here each becomes a `Failure` with NVML's code.
    """

    def __init__(self, module: Any, stopping: threading.Event) -> None:
        self.module = module
        #: Under WSL the driver leaves out much of what it reports elsewhere.
        self.wsl = os.path.exists(WSL_DEVICE)
        self._stopping = stopping
        self._error = module.NVMLError
        self._mismatch = getattr(module, "NVMLLibraryMismatchError", module.NVMLError)

    def call(self, function: str, *arguments: Any) -> Any:
        """Return what the pynvml function of this name returns.

        Raises:
            Failure: NVML's or pynvml's refusal.
            Stopping: gputop is ending, the driver is left alone.
        """
        if self._stopping.is_set():
            raise Stopping
        return self.finish(function, *arguments)

    def finish(self, function: str, *arguments: Any) -> Any:
        """Like `call`, also while gputop is ending: to give back what the driver holds for us."""
        asked = getattr(self.module, function, None)
        if asked is None:
            raise Failure(FUNCTION_NOT_FOUND)
        try:
            return asked(*arguments)
        except self._error as error:
            raise Failure(error.value) from None
        except self._mismatch:
            raise Failure(FUNCTION_NOT_FOUND) from None
        except (UnicodeDecodeError, ctypes.ArgumentError, OverflowError):
            raise Failure(UNKNOWN) from None

    def open(self) -> None:
        """Initialise NVML.

        Raises:
            Unavailable: why it cannot be, and the remedy.
        """
        try:
            self._initialise()
        except Failure as failure:
            what, remedy = _INIT_TROUBLES.get(
                failure.code,
                (f"the NVIDIA driver does not start (NVML error {failure.code})", "nvidia-smi and dmesg may tell more"),
            )
            raise Unavailable(what, remedy) from None

    def _initialise(self) -> None:
        try:
            self.call("nvmlInit")
        except Failure as failure:
            if failure.code != LIBRARY_NOT_FOUND or not _preload():
                raise
            self.call("nvmlInit")

    def text(self, function: str, handle: Any) -> str:
        """Return a string of a GPU, empty when the driver does not tell."""
        try:
            value = self.call(function, handle)
        except Failure as failure:
            if failure.code in FATAL:
                raise
            return ""
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def reason(self, code: int) -> NA:
        """Say in words why a value is missing."""
        if self.wsl and code == NOT_SUPPORTED:
            return NA("not reported by the WSL driver")
        return NA(_REASONS.get(code, f"NVML error {code}"))


def _preload() -> bool:
    """Load the library from where the loader does not look; pynvml then finds it by its name."""
    for folder in ELSEWHERE:
        path = os.path.join(folder, LIBRARY)
        if os.path.exists(path):
            try:
                ctypes.CDLL(path)
            except OSError:
                continue
            return True
    return False
