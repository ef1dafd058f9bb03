"""Devices of the runtime by name: the host's own, and those that plugins bring."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast
from weakref import WeakKeyDictionary

from opwright import _runtime
from opwright.device.arrays import HOST_CODES
from opwright.errors import DeviceNotFoundError, KernelError, OpwrightError, PluginError
from opwright.registry import HOST_DEVICE, DeviceEntry, join_device, split_device

if TYPE_CHECKING:
    from opwright.plugins.context import Context
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


class PythonDevices(Protocol):
    """Devices of one type of which there may be several, or none: a plugin names this instead.

    A lone `PythonDevice` is number 0, and is taken to be there.

    Attributes
    ----------
    dlpack_code : int
        DLPack's DLDeviceType, that of each device; asked for without opening one.
    """

    dlpack_code: int

    def open(self, number: int, /) -> PythonDevice:
        """Return the device of this number, at least 0; called once for each that is used.

        All Contexts share what it returned, as long as one of them, a plan or a tensor holds it;
        it is asked for again only after that. Never called by two threads at once.

        Raises
        ------
        DeviceNotFoundError
            Where there is none of this number, or what it needs is missing: the text reaches the
            user as it is. Any other error is told as one of the plugin's.
        """


class ArrayPlace(NamedTuple):
    """Where an array of another library lies: compact, row-major.

    Attributes
    ----------
    pointer : int
        Its address on the device; 0 without elements.
    shape : tuple of int
    dtype : str
        A canonical name, ``"float32"``.
    number : int or None
        Of the device; None without elements, which lie anywhere.
    stream : int
        Handle of the stream on which its library still works on it; 0 where that is done.
    """

    pointer: int
    shape: tuple[int, ...]
    dtype: str
    number: int | None
    stream: int


class DeviceArrays(Protocol):
    """What Python kernels on a device in a compiled library need; named by ``arrays=`` in a hook.

    All methods are called with the GIL held. Pointers are ints, numbers those of the device.

    It may have three members more, for libraries that do not speak DLPack: `interface`, the name
    of an attribute by which arrays on devices of this type say where they lie, ``locate`` and
    ``describe``. Then such arrays are taken as those with ``__dlpack__`` are, and tensors on the
    device have the attribute.

    ``locate(description, /) -> ArrayPlace`` reads the attribute of an array. It raises ValueError,
    as ``<rule broken>, got <value>; <way out>``, for one that cannot be read as it is.

    ``describe(pointer, shape, dtype, number, /)`` returns what the attribute of a tensor is: all
    work on it is done when a library sees it. It raises AttributeError where the attribute cannot
    tell the dtype: the tensor does not have it then.
    """

    def view(self, pointer: int, shape: tuple[int, ...], dtype: str, number: int, /) -> object:
        """Return the device's kind of array over memory that opwright owns, compact row-major.

        It is made once where the address stays from run to run, and given to each run. Never
        called for a tensor without elements or of which only the shape is read: the kernel gets a
        NumPy dummy.
        """

    def stream(self, pointer: int, number: int, /) -> AbstractContextManager[object]:
        """Return a context manager within which the library enqueues on this stream.

        Asked for in each call of a kernel, and left when the kernel returns: work that goes on
        belongs to the stream. The stream may be one that is being recorded.
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
# What a Context has used stays open as long as its registry lives. The runtime itself holds no
# device, but knows which are open: what one library, or one object, brings is opened once.
_used: WeakKeyDictionary[DeviceEntry, dict[int, _runtime.Device]] = WeakKeyDictionary()
_opening = threading.RLock()  # not held while a plugin is imported, which waits for other threads


def _forget_lock() -> None:
    global _opening  # noqa: PLW0603
    _opening = threading.RLock()


os.register_at_fork(after_in_child=_forget_lock)  # the thread that held the old one may be gone


def get_device(name: str, context: Context) -> _runtime.Device:
    """Return the runtime's device of this name, opened at its first use.

    It is one for all Contexts whose entry of this name is the same library file or Python object.

    Parameters
    ----------
    name : str
        Device type, and the number behind a colon where it is not 0: ``"cuda"``, ``"cuda:1"``.

    Raises
    ------
    DeviceNotFoundError
        Where no plugin brings it, or the number is none.
    PluginError
        Where what the plugin named is no device, or its library cannot be used.
    KernelError
        Where the device cannot be opened, or there are not so many.
    """
    kind, number = split_device(name)
    if kind == HOST_DEVICE:
        return _runtime.host_device()
    entry = context.devices.get(kind)
    used = _used.setdefault(entry, {})
    device = used.get(number)
    if device is None:
        device = _find_or_open(entry, number, context)
        _give_arrays(device, entry)
        used[number] = device
    return device


def _give_arrays(device: _runtime.Device, entry: DeviceEntry) -> None:
    if not entry.is_native or device.arrays is not None:
        return
    try:
        arrays = entry.load_arrays()
    except PluginError:  # told by the kernels that need them, and by doctor
        return
    device.set_arrays(arrays)


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


def find_lack_of_arrays(name: str, context: Context) -> str | None:
    """Give a device the arrays of its Python kernels; return why it has none, None where it does.

    Raises
    ------
    PluginError
        Where what the plugin named cannot be imported, or lacks a method.
    """
    device = get_device(name, context)
    entry = context.devices.get(split_device(name)[0])
    if not entry.is_native:
        return None  # it makes them itself
    arrays = entry.load_arrays()
    if device.arrays is not None and device.arrays is arrays:
        return None
    if arrays is not None and device.arrays is not None:
        return (
            f"device {entry.name} of {entry.package.label} has one kind of arrays in a process, "
            f"got {arrays!r} beside {device.arrays!r} of another Context; name the same in both"
        )
    if arrays is None:
        return (
            f"device {entry.name} of {entry.package.label} gives no arrays to kernels in Python; "
            "its hook must name them: registry.add(..., arrays=)"
        )
    device.set_arrays(arrays)
    return None


def find_device_name(code: int, number: int, context: Context) -> str | None:
    """Return the name of the device that DLPack calls (code, number), None where nobody brings it.

    The libraries and modules of the registered devices are opened; no device is.
    """
    if code in HOST_CODES:
        return HOST_DEVICE
    for kind in context.devices.names():
        entry = context.devices.find(kind)
        if entry is None:
            continue
        try:
            loaded = entry.load(context.ops.libraries)
        except PluginError:  # told where the device is asked for by name
            continue
        if getattr(loaded, "dlpack_code", None) == code:
            return join_device(kind, number)
    return None


def find_interface_place(value: Any, context: Context) -> tuple[int, int] | None:
    """Return DLPack's device of an array that says where it lies by a device's attribute alone.

    None for all else. The libraries and arrays of the registered devices are opened; no device is.
    """
    if hasattr(value, "__dlpack__"):
        return None
    for kind in context.devices.names():
        entry = context.devices.find(kind)
        if entry is None or not entry.is_native:
            continue
        try:
            arrays: Any = entry.load_arrays()
            interface = getattr(arrays, "interface", None)
            if interface is None or not hasattr(value, interface):
                continue
            code: int = cast("NativeDevice", entry.load(context.ops.libraries)).dlpack_code
        except PluginError:  # told where the device is asked for by name
            continue
        try:
            number = arrays.locate(getattr(value, interface)).number
        except (ValueError, OpwrightError):  # told where the array is read
            number = 0
        return code, number or 0
    return None


def _find_or_open(entry: DeviceEntry, number: int, context: Context) -> _runtime.Device:
    loaded = entry.load(context.ops.libraries)
    with _opening:
        if entry.is_native:
            return cast("NativeDevice", loaded).open(number, entry.package)
        return _runtime.find_python_device(loaded, number) or _open(loaded, entry, number)


def _open(loaded: object, entry: DeviceEntry, number: int) -> _runtime.Device:
    made = loaded
    if hasattr(loaded, "open"):
        made = _call_open(cast("PythonDevices", loaded), entry, number)
    elif number:
        raise DeviceNotFoundError(
            f"{entry.name}:{number}: a device written in Python is one unless it brings open, got "
            f"number {number}; write {entry.name!r}"
        )
    origin = f"{entry.package.label} ({loaded!r})"
    return _runtime.make_python_device(_checked(made, entry), number, loaded, origin)


def _call_open(devices: PythonDevices, entry: DeviceEntry, number: int) -> PythonDevice:
    try:
        return devices.open(number)
    except OpwrightError:
        raise
    except Exception as error:
        raise KernelError(
            f"{join_device(entry.name, number)}: could not be opened by {entry.package.label}, "
            f"got {type(error).__name__}: {error}; see whether the device works without opwright"
        ) from error


def _checked(loaded: object, entry: DeviceEntry) -> PythonDevice:
    missing = [name for name in _MEMBERS if not hasattr(loaded, name)]
    if missing:
        raise PluginError(
            f"{entry.name}: a device must have {', '.join(_MEMBERS)}, got {loaded!r} without "
            f"{missing[0]!r} from {entry.package.label}; add it"
        )
    return cast("PythonDevice", loaded)
