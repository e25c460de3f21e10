"""Drivers that are missing, broken, asleep or lose a GPU: faults T16, T17, T19, T20, T24, T34 and T36."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from gputop.collectors.gpu import nvml_library
from gputop.collectors.gpu.backend import Stopping, Unavailable
from gputop.collectors.gpu.nvml import NvmlBackend
from gputop.collectors.gpu.nvml_library import Library
from tests.fakes.nvml import Nvml
from tests.unit.gpu.test_nvml_processes import reason

LOST = "GPU is lost (fallen off the bus)"


def refused(backend: NvmlBackend) -> Unavailable:
    """Return why a backend does not work here."""
    with pytest.raises(Unavailable) as raised:
        backend.probe()
    return raised.value


@pytest.mark.parametrize(
    ("code", "words", "remedy"),
    [
        (9, "not loaded", "modprobe"),
        (18, "different versions", "reboot"),
        (4, "permission", "/dev/nvidia"),
        (999, "NVML error 999", "dmesg"),
    ],
)
def test_driver_that_does_not_start_says_why(nvml: Nvml, code: int, words: str, remedy: str) -> None:
    nvml.script(f"error nvmlInit {code}")
    trouble = refused(nvml.backend())
    assert words in trouble.remark.what
    assert remedy in trouble.remark.remedy


def test_driver_without_a_gpu(nvml: Nvml) -> None:
    nvml.script("gpus 0")
    assert "finds no GPU" in refused(nvml.backend()).remark.what
    assert nvml.calls("nvmlShutdown") == 1


def test_t16_no_null_handle_ever_reaches_the_driver(nvml: Nvml) -> None:
    backend = nvml.started("gpus 3", "error nvmlDeviceGetHandleByIndex_v2 15 1", "set 2 util 77")
    for tick in range(40):
        first, lost, last = nvml.look(backend, at=tick / 2)
        assert (first.error, lost.error, last.error) == ("", LOST, "")
    assert nvml.calls("NULL") == 0
    assert last.metric("utilization") == 0.77
    assert nvml.calls("nvmlDeviceGetHandleByIndex_v2") == 2 + 4, "a lost GPU is tried again every 5 s"


def test_t17_lost_gpu_keeps_its_row_number_and_name(nvml: Nvml) -> None:
    backend = nvml.started("gpus 3", "text 1 name H200", "error * 15 1 4", "set * gpm.2 10")
    nvml.looks(backend, until=3.5)
    first, lost, last = nvml.looks(backend, until=6.0)
    assert [gpu.index for gpu in (first, lost, last)] == [0, 1, 2]
    assert (lost.error, lost.name, lost.uuid) == (LOST, "H200", "GPU-1")
    assert reason(lost.metric("power_w")) == reason(lost.target.sm) == reason(lost.others) == LOST
    assert first.metric("utilization") == last.metric("utilization") == 0.3
    backend.close()
    assert nvml.calls("nvmlGpmSampleFree") == nvml.calls("nvmlGpmSampleAlloc")


def test_t17_gpu_that_comes_back_is_read_again(nvml: Nvml) -> None:
    backend = nvml.started("error * 16 0 2")
    assert nvml.looks(backend, until=3.0)[0].error == "GPU must be reset"
    nvml.script("gpus 1")
    nvml._standin.nvmlInitWithFlags(0)
    assert nvml.looks(backend, until=9.0)[0].error == ""


def test_driver_that_is_unloaded_ends_the_backend(nvml: Nvml) -> None:
    backend = nvml.started()
    nvml.look(backend)
    nvml._standin.nvmlShutdown()
    with pytest.raises(Unavailable, match="unloaded"):
        nvml.look(backend)
    backend.close()


def test_t19_the_path_of_errors_is_safe(nvml: Nvml) -> None:
    """Exceptions of pynvml cannot be hashed; ours can, and hide nothing of it."""
    nvml.script("error nvmlInit 12")
    trouble = refused(nvml.backend())
    assert len({trouble, trouble}) == 1
    assert trouble.__cause__ is None
    assert "libnvidia-ml.so.1" in str(trouble)


def test_t20_no_library_says_what_was_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pynvml = pytest.importorskip("pynvml")
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "CDLL", _no_library)
    monkeypatch.setattr(nvml_library, "ELSEWHERE", (str(tmp_path),))
    trouble = refused(NvmlBackend(threading.Event(), devices=tmp_path))
    assert "no NVIDIA driver here" in trouble.remark.what
    assert "/usr/lib/wsl/lib" in trouble.remark.what
    assert "--gpus all" in trouble.remark.remedy


def test_t24_library_beside_the_loaders_path_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / nvml_library.LIBRARY).write_bytes(b"")
    loaded: list[str] = []
    monkeypatch.setattr(nvml_library, "ELSEWHERE", (str(tmp_path / "none"), str(tmp_path)))
    monkeypatch.setattr("ctypes.CDLL", loaded.append)
    module = _module(nvmlInit=_fail_once(nvml_library.LIBRARY_NOT_FOUND))
    Library(module, threading.Event()).open()
    assert loaded == [str(tmp_path / nvml_library.LIBRARY)]


def card(devices: Path, number: int, status: str) -> Path:
    """Make a GPU as sysfs shows it, and return the file with its power state."""
    folder = devices / f"0000:{number:02x}:00.0"
    (folder / "power").mkdir(parents=True)
    (folder / "vendor").write_text("0x10de\n")
    (folder / "class").write_text("0x030200\n")
    (folder / "power" / "runtime_status").write_text(f"{status}\n")
    return folder / "power" / "runtime_status"


def test_t34_sleeping_gpu_is_not_woken(nvml: Nvml, tmp_path: Path) -> None:
    status = card(tmp_path / "pci", 1, "suspended")
    nvml.script()
    nvml._standin.nvmlShutdown()
    before = nvml.calls("nvmlDeviceGetCount_v2"), nvml.calls("nvmlShutdown")
    backend = nvml.backend()
    assert backend.probe() == 1
    (gpu,) = nvml.look(backend)
    assert "asleep" in gpu.error
    assert (nvml.calls("nvmlDeviceGetCount_v2"), nvml.calls("nvmlShutdown")) == before, "NVML was not opened"
    status.write_text("active\n")
    assert nvml.look(backend)[0].metric("utilization") == 0.3
    status.write_text("suspended\n")
    asked = nvml.calls("nvmlDeviceGetUtilizationRates")
    (gpu,) = nvml.look(backend)
    assert ("asleep" in gpu.error, gpu.name) == (True, "Stand-in")
    assert nvml.calls("nvmlDeviceGetUtilizationRates") == asked


def test_t34_of_two_gpus_only_the_one_awake_is_asked(nvml: Nvml, tmp_path: Path) -> None:
    card(tmp_path / "pci", 1, "suspended")
    card(tmp_path / "pci", 2, "active")
    backend = nvml.started("gpus 2")
    asleep, awake = nvml.look(backend)
    assert ("asleep" in asleep.error, awake.error) == (True, "")
    assert nvml.calls("nvmlDeviceGetHandleByIndex_v2") == 1


def test_t36_foreign_pynvml_is_named_with_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = ModuleType("pynvml")
    foreign.__file__ = "/somewhere/pynvml/__init__.py"
    monkeypatch.setitem(sys.modules, "pynvml", foreign)
    trouble = refused(NvmlBackend(threading.Event(), devices=Path("/nowhere")))
    assert "/somewhere/pynvml" in trouble.remark.what
    assert "pip install --force-reinstall nvidia-ml-py" in trouble.remark.remedy
    assert "\n" not in trouble.remark.remedy


def test_t36_missing_pynvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    trouble = refused(NvmlBackend(threading.Event(), devices=Path("/nowhere")))
    assert trouble.remark.remedy == f"{sys.executable} -m pip install nvidia-ml-py"


def test_failures_of_pynvml_have_one_shape() -> None:
    class MismatchError(Exception):
        pass

    module = _module(NVMLLibraryMismatchError=MismatchError, mismatched=_raise(MismatchError()),
                     undecodable=_raise(UnicodeDecodeError("utf-8", b"", 0, 1, "")))  # fmt: skip
    library = Library(module, threading.Event())
    codes = {name: _code(library, name) for name in ("mismatched", "undecodable", "missing")}
    assert codes == {"mismatched": 13, "undecodable": 999, "missing": 13}


def test_driver_is_left_alone_once_we_stop(nvml: Nvml) -> None:
    backend = nvml.started()
    nvml.stopping.set()
    with pytest.raises(Stopping):
        nvml.look(backend)
    assert nvml.calls("nvmlDeviceGetHandleByIndex_v2") == 0
    backend.close()
    assert nvml.calls("nvmlShutdown") == 1


def test_hostile_gpu_name_is_printable(nvml: Nvml) -> None:
    backend = nvml.started("text 0 name \x1b[2J\x1b]0;pwned\x07")
    (gpu,) = nvml.look(backend)
    assert gpu.name.isprintable()
    assert "pwned" in gpu.name


def _module(**members: object) -> ModuleType:
    """Return something like pynvml with these members."""
    module = ModuleType("pynvml")
    vars(module).update({"NVMLError": NvmlError} | members)
    return module


class NvmlError(Exception):
    """pynvml's exception."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


def _raise(error: Exception) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


def _fail_once(code: int) -> Callable[[], None]:
    errors = [NvmlError(code)]

    def function() -> None:
        if errors:
            raise errors.pop()

    return function


def _no_library(name: str) -> None:
    raise OSError(f"{name}: cannot open shared object file")


def _code(library: Library, function: str) -> int:
    with pytest.raises(nvml_library.Failure) as raised:
        library.call(function)
    return raised.value.code
