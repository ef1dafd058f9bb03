"""Devices of the runtime by name: the host's own, and those that plugins bring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, cast
from weakref import WeakKeyDictionary

from opwright import _runtime
from opwright.errors import PluginError
from opwright.registry import HOST_DEVICE, DeviceEntry

if TYPE_CHECKING:
    from opwright.context import Context
    from opwright.registry.native_kernel import NativeKernel
    from opwright.registry.native_library import NativeDevice


class PythonDevice(Protocol):
    """What a plugin's device must have. A handle is an int, never 0; sizes are in bytes.

    Attributes
    ----------
    name : str
        Device type, as plans and kernels name it.
    dlpack_code : int
        DLPack's DLDeviceType.
    addressable : bool
        Whether a handle is an address that may be offset, so that one arena serves a plan;
        otherwise each value gets a buffer of its own.
    """

    name: str
    dlpack_code: int
    addressable: bool

    def allocate(self, size: int, /) -> int:
        """Return a handle; MemoryError where there is no room."""

    def free(self, handle: int, /) -> None:
        """Give the memory back."""

    def copy(self, dst: int, dst_is_host: bool, src: int, src_is_host: bool, size: int, /) -> None:
        """Copy bytes; a host side is an address, an addressable handle may be offset."""

    def synchronize(self) -> None:
        """Wait until everything that was begun is done."""

    def view(self, handle: int, shape: tuple[int, ...], dtype: str, /) -> object:
        """Return the array that Python kernels of this device get.

        Never called for handle 0: a tensor without elements, or of which only the shape is read,
        reaches the kernel as a NumPy dummy.
        """


_MEMBERS: Final = (
    "name",
    "dlpack_code",
    "addressable",
    "allocate",
    "free",
    "copy",
    "synchronize",
    "view",
)
# One runtime device for each entry: two devices are the same only if they are one object.
_made: WeakKeyDictionary[DeviceEntry, _runtime.Device] = WeakKeyDictionary()


def get_device(name: str, context: Context) -> _runtime.Device:
    """Return the runtime's device of this name.

    Raises
    ------
    DeviceNotFoundError
        Where no plugin brings it.
    PluginError
        Where what the plugin named is no device, or its library cannot be used.
    KernelError
        Where the device cannot be opened.
    """
    if name == HOST_DEVICE:
        return _runtime.host_device()
    entry = context.devices.get(name)
    device = _made.get(entry)
    if device is None:
        device = _made.setdefault(entry, _make(entry, context))
    return device


def find_helper(name: str, kernel: str, context: Context) -> NativeKernel:
    """Return a kernel of the library that brought a device; see `opwright.kernel.DeviceCall`.

    Raises
    ------
    PluginError
        Where the device is in no library, or the library has no such kernel.
    """
    entry = context.devices.get(name)
    if not entry.is_native:
        raise PluginError(
            f"{name}: a DeviceCall needs a device in a compiled library, got {entry!r}; "
            "return a Python callable"
        )
    return cast("NativeDevice", entry.load(context.ops.libraries)).find_helper(kernel)


def _make(entry: DeviceEntry, context: Context) -> _runtime.Device:
    loaded = entry.load(context.ops.libraries)
    if entry.is_native:
        return cast("NativeDevice", loaded).open()
    return _runtime.make_python_device(_checked(loaded, entry))


def _checked(loaded: object, entry: DeviceEntry) -> PythonDevice:
    missing = [name for name in _MEMBERS if not hasattr(loaded, name)]
    if missing:
        raise PluginError(
            f"{entry.name}: a device must have {', '.join(_MEMBERS)}, got {loaded!r} without "
            f"{missing[0]!r} from {entry.package.label}; add it"
        )
    return cast("PythonDevice", loaded)
