"""What OpenCL devices there are, in the order of their numbers, or what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright.errors import DeviceNotFoundError

if TYPE_CHECKING:
    from types import ModuleType

    import pyopencl as cl


def load_pyopencl() -> ModuleType:
    """Import pyopencl.

    Raises
    ------
    DeviceNotFoundError
        Where it cannot be imported, with the command that helps.
    """
    try:
        import pyopencl
    except ImportError as error:
        raise DeviceNotFoundError(
            f"opencl: pyopencl must be importable, got {type(error).__name__}: {error}; "
            'pip install "pyopencl[pocl]" (with pocl, OpenCL for the CPU; without, your driver\'s)'
        ) from error
    return pyopencl


def list_devices() -> list[cl.Device]:
    """Return every device of every platform: GPUs first, CPUs last, else in OpenCL's order.

    Raises
    ------
    DeviceNotFoundError
        Where pyopencl, a platform or a device is missing.
    """
    cl = load_pyopencl()
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:  # the loader calls it an error that there is none
        raise DeviceNotFoundError(
            f"opencl: a platform must be installed, got none ({error}); install the OpenCL driver "
            'of your device, or one for the CPU: pip install "pyopencl[pocl]"'
        ) from error
    found = [device for platform in platforms for device in _devices_of(platform)]
    if not found:
        names = ", ".join(repr(platform.name) for platform in platforms) or "no platform"
        raise DeviceNotFoundError(
            f"opencl: a platform must have a device, got none from {names}; see what clinfo lists, "
            'or install OpenCL for the CPU: pip install "pyopencl[pocl]"'
        )
    return sorted(found, key=lambda device: bool(device.type & cl.device_type.CPU))


def get_device(number: int) -> cl.Device:
    """Return the OpenCL device of this number.

    Raises
    ------
    DeviceNotFoundError
        Where there is none, listing those that there are.
    """
    found = list_devices()
    if number >= len(found):
        listed = ", ".join(f"opencl:{i} ({each.name.strip()})" for i, each in enumerate(found))
        raise DeviceNotFoundError(
            f"opencl:{number}: the number of a device must be in [0, {len(found)}), got {number}; "
            f"devices are {listed}"
        )
    return found[number]


def _devices_of(platform: cl.Platform) -> list[cl.Device]:
    opencl = load_pyopencl()
    try:
        devices: list[cl.Device] = platform.get_devices()
    except opencl.Error:  # "not found" is an error here, too; the others may still have some
        return []
    return devices
