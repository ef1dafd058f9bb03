"""Finds the working OpenCL devices in numbered order, or the missing requirement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opwright.errors import DeviceNotFoundError

if TYPE_CHECKING:
    from types import ModuleType

    import pyopencl as cl


EMPTY_KERNEL: Final = "__kernel void empty(void) {}"


def load_pyopencl() -> ModuleType:
    """Import pyopencl.

    Raises
    ------
    DeviceNotFoundError
        If it cannot be imported; the message contains the command that installs it.
    """
    try:
        import pyopencl
    except ImportError as error:
        raise DeviceNotFoundError(
            f"opencl: pyopencl must be importable, got {type(error).__name__}: {error}; "
            'pip install "pyopencl[pocl]" for OpenCL on the CPU, or pyopencl for your own driver'
        ) from error
    return pyopencl


def list_devices() -> list[cl.Device]:
    """Return the devices of all platforms in OpenCL's order, except that CPUs are last.

    Raises
    ------
    DeviceNotFoundError
        If pyopencl, a platform or a device is missing.
    """
    cl = load_pyopencl()
    try:
        platforms, reason = cl.get_platforms(), "an empty list"
    except cl.Error as error:  # most loaders report the absence of platforms as an error
        platforms, reason = [], str(error)
    if not platforms:
        raise DeviceNotFoundError(
            f"opencl: a platform must be installed, got none ({reason}); install the OpenCL driver "
            'of your device, or one for the CPU: pip install "pyopencl[pocl]"'
        )
    found = [device for platform in platforms for device in _devices_of(platform)]
    if not found:
        names = ", ".join(repr(platform.name) for platform in platforms)
        raise DeviceNotFoundError(
            f"opencl: a platform must have a device, got none from {names}; see what clinfo lists, "
            'or install OpenCL for the CPU: pip install "pyopencl[pocl]"'
        )
    return sorted(found, key=lambda device: bool(device.type & cl.device_type.CPU))


def get_device(number: int) -> cl.Device:
    """Return the OpenCL device with this number among those whose drivers can build kernels.

    Raises
    ------
    DeviceNotFoundError
        If there is no such device; the message lists the working and the failing devices.
    """
    working: list[cl.Device] = []
    faults: list[str] = []
    for device in list_devices():
        fault = find_fault(device)
        if fault is not None:
            faults.append(f"{device.name.strip()} cannot build an empty kernel: {fault}")
        elif len(working) == number:
            return device
        else:
            working.append(device)
    left_out = "; ".join(faults)
    if not working:
        raise DeviceNotFoundError(
            f"opencl: a driver must build an empty kernel, got only failing drivers: {left_out}; "
            "install a newer driver that supports this processor"
        )
    listed = ", ".join(f"opencl:{i} ({each.name.strip()})" for i, each in enumerate(working))
    raise DeviceNotFoundError(
        f"opencl:{number}: the number of a device must be in [0, {len(working)}), got {number}; "
        f"devices are {listed}{f'; skipped: {left_out}' if faults else ''}"
    )


def find_fault(device: cl.Device) -> str | None:
    """Return the reason why a driver cannot build an empty kernel, or None if it can.

    A driver that is older than the processor can list it, but may be unable to compile for it.
    """
    opencl = load_pyopencl()
    try:
        opencl.Program(opencl.Context([device]), EMPTY_KERNEL).build(cache_dir=False)
    except opencl.Error as error:
        lines = str(error).splitlines()
        return next((line for line in lines if "error:" in line), lines[0] if lines else "no text")
    return None


def _devices_of(platform: cl.Platform) -> list[cl.Device]:
    opencl = load_pyopencl()
    try:
        devices: list[cl.Device] = platform.get_devices()
    except opencl.Error:  # also raised for "not found"; other platforms can have devices
        return []
    return devices
