"""The GPU of a Jetson (Tegra), from the kernel's files: NVML knows little more than its name there.

Load comes in per mille from the GPU's device folder, clocks from devfreq, power from the INA3221 monitors on the
board, whose rails often feed more than the GPU. Memory is the machine's. Boards with PCI GPUs too, and those whose GPU
the NVML driver serves (Thor), are left to NVML.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gputop.collectors.gpu import pci
from gputop.collectors.gpu.backend import Remark, Seen, Unavailable, Watched
from gputop.collectors.gpu.machine_memory import machine_memory
from gputop.collectors.gpu.metrics import DEVICE_METRICS
from gputop.model import NA, GpuReading, GpuUse, Value
from gputop.text import printable

#: devfreq names end so: the generic name (Nano; all from JetPack 6 on), and the chips of Orin, Xavier, TX2 and TX1.
_NAMES = ("*.gpu", "*.ga10b", "*.gv11b", "*.gp10b", "*.gm20b")

#: Kernel 5.10 and newer show the monitors as hwmon, older ones as iio devices; labels of GPU rails hold "GPU": "GPU" on
#: AGX Xavier, VDD_GPU_SOC on AGX Orin, VDD_CPU_GPU_CV on Xavier NX, Orin NX and Orin Nano, POM_5V_GPU on Nano.
_HWMON = "sys/bus/i2c/drivers/ina3221/*/hwmon/hwmon*/in*_label"
_IIO = "sys/bus/i2c/drivers/ina3221x/*/iio:device*/rail_name_*"

_NVMAP_CLIENTS = "sys/kernel/debug/nvmap/iovmm/clients"
_KIB = 1024

_SHARED_MEMORY = Remark("the GPU shares the machine's memory: its memory figures are those of the whole machine")
_NO_SHARE = NA("the Tegra driver does not tell the use of a process")


class Rail(NamedTuple):
    """A monitored power rail: its name, the files to multiply, and what makes watts of the product."""

    name: str
    factors: tuple[Path, ...]
    scale: float

    def watts(self) -> Value:
        """Return the power drawn over it."""
        product = self.scale
        for path in self.factors:
            value = _number(path)
            if isinstance(value, NA):
                return value
            product *= value
        return product


class TegraBackend:
    """The one integrated GPU. `root` is where the kernel's files are, another folder in tests."""

    name = "tegra"

    def __init__(
        self,
        stopping: threading.Event,
        clock: Callable[[], float] = time.monotonic,
        *,
        root: Path = Path("/"),
    ) -> None:
        self._root = root
        self._devfreq: Path | None = None
        self._rail: Rail | None = None
        self._thermal: Path | None = None
        self._name = ""
        self._remarks: dict[str, Remark] = {}

    def probe(self) -> int:
        """Look for the GPU among the devfreq devices.

        Raises:
            Unavailable: this is no Jetson, or NVML can tell more about its GPUs.
        """
        if pci.nvidia_gpus(self._root / "sys/bus/pci/devices"):
            raise Unavailable("there are PCI GPUs, which NVML reads")
        self._devfreq = _first(self._root / "sys/class/devfreq", *_NAMES)
        if self._devfreq is None:
            raise Unavailable("no Tegra GPU among the devfreq devices")
        self._rail = _gpu_rail(self._root)
        self._thermal = _gpu_zone(self._root)
        self._name = printable(_text(self._root / "proc/device-tree/model").rstrip("\0")) or "Tegra GPU"
        self._remarks = {"shared-memory": _SHARED_MEMORY}
        if self._rail and self._rail.name != "GPU":
            self._remarks["power-rail"] = Remark(f"GPU power is that of the rail {self._rail.name}")
        return 1

    def read(self, watched: Watched) -> Iterator[Seen]:
        """Yield the GPU."""
        assert self._devfreq is not None, "probe comes first"
        metrics: dict[str, Value] = dict.fromkeys(DEVICE_METRICS, NA("not reported by the Tegra driver"))
        used, total = machine_memory(self._root / "proc/meminfo")
        metrics.update(
            utilization=_number(self._devfreq / "device/load", 1e-3),
            memory_used_bytes=used,
            memory_total_bytes=total,
            memory_shared=1.0,
            clock_sm_mhz=_number(self._devfreq / "cur_freq", 1e-6),
            power_w=self._rail.watts() if self._rail else NA("this board monitors no GPU rail"),
            temperature_c=_number(self._thermal, 1e-3) if self._thermal else NA("no GPU thermal zone"),
        )
        use, others = self._use(watched)
        yield Seen(GpuReading(0, self._devfreq.name, self._name, metrics, use, others))

    def remarks(self) -> Mapping[str, Remark]:
        """Tell that memory, and often the power rail, are shared."""
        return self._remarks

    def close(self) -> None:
        """Nothing is held."""

    def _use(self, watched: Watched) -> tuple[GpuUse, Value]:
        """Return the memory of the watched processes, from a list that only root may read."""
        try:
            clients = _clients((self._root / _NVMAP_CLIENTS).read_text(encoding="ascii", errors="replace"))
        except OSError:
            reason = NA("only root may read which processes use the GPU (debugfs)")
            return GpuUse(_NO_SHARE, _NO_SHARE, reason), reason
        ours = [amount for pid, amount in clients.items() if pid in watched]
        memory: Value = float(sum(ours)) if ours else NA("the target does not use this GPU")
        others = float(len(clients.keys() - watched))
        return GpuUse(_NO_SHARE, _NO_SHARE, memory, present=bool(ours)), others


def _clients(text: str) -> dict[int, int]:
    """Read nvmap's list: lines of "user COMMAND PID SIZEK"; commands may hold spaces."""
    sizes: dict[int, int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[0] == "user" and words[-2].isdigit() and words[-1].rstrip("K").isdigit():
            pid = int(words[-2])
            sizes[pid] = sizes.get(pid, 0) + int(words[-1].rstrip("K")) * _KIB
    return sizes


def _gpu_rail(root: Path) -> Rail | None:
    """Return the rail that feeds the GPU; on small boards it feeds the CPU too."""
    for label in sorted(root.glob(_HWMON)):
        if "GPU" in (name := _text(label)):
            number = label.name.removeprefix("in").removesuffix("_label")
            factors = (label.with_name(f"in{number}_input"), label.with_name(f"curr{number}_input"))
            return Rail(name, factors, 1e-6)  # millivolts times milliamperes
    for label in sorted(root.glob(_IIO)):
        if "GPU" in (name := _text(label)):
            number = label.name.removeprefix("rail_name_")
            return Rail(name, (label.with_name(f"in_power{number}_input"),), 1e-3)
    return None


def _gpu_zone(root: Path) -> Path | None:
    """Return the temperature file of the GPU's thermal zone ("GPU-therm", "gpu-thermal")."""
    for kind in sorted(root.glob("sys/class/thermal/thermal_zone*/type")):
        if _text(kind).lower().startswith("gpu"):
            return kind.with_name("temp")
    return None


def _first(folder: Path, *patterns: str) -> Path | None:
    return next((path for pattern in patterns for path in sorted(folder.glob(pattern))), None)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path, scale: float = 1.0) -> Value:
    try:
        return int(path.read_text(encoding="ascii")) * scale
    except (OSError, ValueError):
        return NA(f"{path.name} cannot be read")
