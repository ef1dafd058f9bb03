"""Opens runtime devices, the host and plugin devices, by name."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

from opwright import _runtime
from opwright.context.context import Context
from opwright.errors import DeviceNotFoundError, KernelError, OpwrightError, PluginError
from opwright.foreign import describe_error
from opwright.registry import HOST, DeviceEntry, DeviceName

if TYPE_CHECKING:
    from opwright.device.contract import PythonDevice, PythonDevices
    from opwright.targets.library import NativeDevice
    from opwright.targets.native_kernel import NativeKernel

HOST_CODES: Final = (1, 3)
"""kDLCPU and kDLCUDAHost of DLPack, whose memory NumPy can read."""

# Devices that a Context has used stay open as long as its registry exists. The runtime does not own
# devices, but tracks open devices so that a device of a library, or an object, is opened once.
_used: WeakKeyDictionary[DeviceEntry, dict[int, _runtime.Device]] = WeakKeyDictionary()
_opening = threading.RLock()  # not held during imports, which may wait for threads


def _forget_lock() -> None:
    global _opening  # noqa: PLW0603
    _opening = threading.RLock()


os.register_at_fork(after_in_child=_forget_lock)  # the owner of the old lock may be gone


def get_device(name: str, context: Context) -> _runtime.Device:
    """Return the runtime device for a name as users write it, such as ``"cuda"`` or ``"cuda:1"``.

    The device is opened at first use, and shared by all Contexts whose entry for this name is the
    same library file or Python object.

    Raises
    ------
    DeviceNotFoundError
        If no plugin provides it, or the number is invalid.
    PluginError
        If the plugin names something that is not a device, or its library cannot be used.
    KernelError
        If the device cannot be opened or does not exist.
    """
    return open_device(DeviceName.parse(name), context)


def open_device(name: DeviceName, context: Context) -> _runtime.Device:
    """Like `get_device`, for a parsed name."""
    if name.is_host:
        return _runtime.host_device()
    entry = context.devices.get(name.kind)
    used = _used.setdefault(entry, {})
    device = used.get(name.number)
    if device is None:
        device = _find_or_open(entry, name.number)
        _give_arrays(device, entry)
        used[name.number] = device
    return device


def _give_arrays(device: _runtime.Device, entry: DeviceEntry) -> None:
    if not entry.is_native or device.arrays is not None:
        return
    try:
        arrays = entry.load_arrays()
    except PluginError:  # reported by the kernels that need them, and by doctor
        return
    device.set_arrays(arrays)


def find_helper(kind: str, kernel: str, context: Context) -> NativeKernel:
    """Return a kernel of the library that provided a device; see `opwright.kernel.DeviceCall`.

    Raises PluginError if the device is not in a library, or the library has no such kernel.
    """
    entry = context.devices.get(kind)
    if not entry.is_native:
        raise PluginError(
            f"{kind}: a DeviceCall needs a device in a compiled library, got {entry!r}; "
            "return a Python callable"
        )
    return cast("NativeDevice", entry.load()).find_helper(kernel)


def find_lack_of_arrays(name: DeviceName, context: Context) -> str | None:
    """Set the arrays for Python kernels of a device; return why that failed, or None on success.

    Raises PluginError if the object that the plugin named cannot be imported, or lacks a method.
    """
    device = open_device(name, context)
    entry = context.devices.get(name.kind)
    if not entry.is_native:
        return None  # the device makes them itself
    arrays = entry.load_arrays()
    if device.arrays is not None and device.arrays is arrays:
        return None
    if arrays is not None and device.arrays is not None:
        return (
            f"device {entry.name} of {entry.package.label} must have one kind of arrays, "
            f"got {arrays!r} and {device.arrays!r} of another Context; name the same in both"
        )
    if arrays is None:
        return (
            f"device {entry.name} of {entry.package.label} gives no arrays to kernels in Python; "
            "its hook must name them: registry.add(..., arrays=)"
        )
    device.set_arrays(arrays)
    return None


def find_device_name(code: int, number: int, context: Context) -> DeviceName | None:
    """Return the device of a DLPack (code, number), or None if no plugin provides it.

    The search opens the libraries and modules of registered devices, but no device.
    """
    if code in HOST_CODES:
        return HOST
    for entry in context.devices.entries():
        try:
            loaded = entry.load()
        except PluginError:  # reported if the device is used by name
            continue
        if getattr(loaded, "dlpack_code", None) == code:
            return DeviceName(entry.name, number)
    return None


def find_interface_place(value: Any, context: Context) -> tuple[int, int] | None:
    """Return the DLPack device of an array that only has the attribute that a device names.

    Returns None for other values. Opens the libraries and arrays of registered devices, but no
    device.
    """
    if hasattr(value, "__dlpack__"):
        return None
    for entry in context.devices.entries():
        if not entry.is_native:
            continue
        try:
            arrays: Any = entry.load_arrays()
            interface = getattr(arrays, "interface", None)
            if interface is None or not hasattr(value, interface):
                continue
            code: int = cast("NativeDevice", entry.load()).dlpack_code
        except PluginError:  # reported if the device is used by name
            continue
        try:
            number = arrays.locate(getattr(value, interface)).number
        except (ValueError, OpwrightError):  # reported if the array is read
            number = 0
        return code, number or 0
    return None


def _find_or_open(entry: DeviceEntry, number: int) -> _runtime.Device:
    loaded = entry.load()
    with _opening:
        if entry.is_native:
            return cast("NativeDevice", loaded).open(number, entry.package)
        return _runtime.find_python_device(loaded, number) or _open(loaded, entry, number)


def _open(loaded: object, entry: DeviceEntry, number: int) -> _runtime.Device:
    device = loaded
    if hasattr(loaded, "open"):
        device = _call_open(cast("PythonDevices", loaded), entry, number)
    elif number:
        raise DeviceNotFoundError(
            f"{entry.name}:{number}: a Python device without open has only number 0, "
            f"got {number}; write {entry.name!r}"
        )
    origin = f"{entry.package.label} ({loaded!r})"
    return _runtime.make_python_device(_check(device, entry), number, loaded, origin)


def _call_open(devices: PythonDevices, entry: DeviceEntry, number: int) -> PythonDevice:
    try:
        return devices.open(number)
    except OpwrightError:
        raise
    except Exception as error:
        raise KernelError(
            f"{DeviceName(entry.name, number)}: could not be opened by {entry.package.label}, "
            f"got {describe_error(error)}; check that the device works without opwright"
        ) from error


def _check(loaded: object, entry: DeviceEntry) -> PythonDevice:
    from opwright.device.contract import MEMBERS

    missing = [name for name in MEMBERS if not hasattr(loaded, name)]
    if missing:
        raise PluginError(
            f"{entry.name}: a device must have {', '.join(MEMBERS)}, got {loaded!r} without "
            f"{missing[0]!r} from {entry.package.label}; add it"
        )
    return cast("PythonDevice", loaded)
