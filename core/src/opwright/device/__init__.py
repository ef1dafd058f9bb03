"""Devices, with their contract for plugins, how they are opened, and how arrays get to them.

The public interface for device authors. `PythonDevice`, `PythonDevices` and `DeviceArrays` are
protocols, so a class with their members need not inherit from them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opwright.device.opening import get_device
from opwright.registry import HOST_DEVICE, DeviceEntry, DeviceName

if TYPE_CHECKING:
    from opwright.device.contract import ArrayPlace, DeviceArrays, PythonDevice, PythonDevices

__all__ = [
    "HOST_DEVICE",
    "ArrayPlace",
    "DeviceArrays",
    "DeviceEntry",
    "DeviceName",
    "PythonDevice",
    "PythonDevices",
    "get_device",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Protocols take long to define, and few programs name them.
    return getattr(import_module("opwright.device.contract"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
