"""Devices: what a plugin's device must provide, how it is opened, and how it gets arrays.

The public face for authors of devices. `PythonDevice`, `PythonDevices` and `DeviceArrays` are
protocols: a class that has their members need not inherit from them.
"""

from __future__ import annotations

from opwright.device.contract import ArrayPlace, DeviceArrays, PythonDevice, PythonDevices
from opwright.device.opening import get_device
from opwright.registry import HOST_DEVICE, DeviceEntry, DeviceName

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
