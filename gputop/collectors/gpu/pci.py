"""GPUs as the PCI bus sees them: tells whether one sleeps without asking its driver, which would wake it."""

from __future__ import annotations

from pathlib import Path

_NVIDIA = "0x10de"

#: PCI base class of display controllers (VGA 0x0300, 3D 0x0302).
_DISPLAY = "0x03"

DEVICES = Path("/sys/bus/pci/devices")


def nvidia_gpus(devices: Path = DEVICES) -> list[str]:
    """Return the bus addresses of all NVIDIA GPUs, in NVML's order; empty where sysfs does not show them."""
    try:
        folders = sorted(devices.iterdir())
    except OSError:
        return []
    return [
        folder.name
        for folder in folders
        if _read(folder / "vendor") == _NVIDIA and _read(folder / "class").startswith(_DISPLAY)
    ]


def asleep(address: str, devices: Path = DEVICES) -> bool:
    """Tell whether runtime power management has suspended a device (sysfs-devices-power: `runtime_status`)."""
    return _read(devices / address / "power" / "runtime_status") == "suspended"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
