"""The contract of plugin devices: the protocols of devices and of their arrays."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol


class PythonDevice(Protocol):
    """The members that a plugin's device must have. A handle is a nonzero int; sizes are in bytes.

    Attributes
    ----------
    name : str
        Device type, as in plans and kernels.
    dlpack_code : int
        DLPack's DLDeviceType.
    addressable : bool
        Whether a handle is an address that may be offset, so that a plan can use one arena;
        otherwise each value gets its own buffer.
    """

    name: str
    dlpack_code: int
    addressable: bool

    def allocate(self, size: int, /) -> int:
        """Allocate memory and return its handle; raise MemoryError if there is not enough."""

    def free(self, handle: int, /) -> None:
        """Free the memory."""

    def copy(self, dst: int, dst_is_host: bool, src: int, src_is_host: bool, size: int, /) -> None:
        """Copy bytes; host memory is given by address, and addressable handles may be offset."""

    def synchronize(self) -> None:
        """Wait until all work that was started is done."""

    def view(self, handle: int, shape: tuple[int, ...], dtype: str, /) -> object:
        """Return the array that is passed to Python kernels on this device.

        Not called for handle 0, since kernels get a NumPy dummy for a tensor that has no elements
        or is read only for its shape.
        """


class PythonDevices(Protocol):
    """Several devices of one type, which a plugin names instead of a `PythonDevice`.

    A single `PythonDevice` has number 0, and is assumed to exist.

    Attributes
    ----------
    dlpack_code : int
        The DLDeviceType of all devices, which is read without opening a device.
    """

    dlpack_code: int

    def open(self, number: int, /) -> PythonDevice:
        """Return the device with this number, at least 0; called once for each device that is used.

        All Contexts share the device as long as one of them, a plan or a tensor refers to it;
        afterward, it is reopened on demand. Threads do not call this concurrently.

        Raises
        ------
        DeviceNotFoundError
            If no device has this number, or a requirement is missing; the user sees the message
            unchanged. Any other error is reported as an error of the plugin.
        """


class ArrayPlace(NamedTuple):
    """The compact, row-major memory of another library's array.

    Attributes
    ----------
    pointer : int
        Its address on the device; 0 without elements.
    shape : tuple of int
    dtype : str
        A canonical name, ``"float32"``.
    number : int or None
        The device number; None without elements.
    stream : int
        Handle of the stream on which the library still works on the array; 0 if no work is pending.
    """

    pointer: int
    shape: tuple[int, ...]
    dtype: str
    number: int | None
    stream: int


class DeviceArrays(Protocol):
    """An object, named by ``arrays=``, that creates arrays for Python kernels of a compiled device.

    All methods are called with the GIL held. Pointers are ints, `number` is the device number.

    For libraries without DLPack, the object may have three more members: `interface`, the name of
    an attribute with which arrays describe their memory on devices of this type, ``locate`` and
    ``describe``. Such arrays are then accepted like arrays with ``__dlpack__``, and tensors on the
    device have the attribute.

    ``locate(description, /) -> ArrayPlace`` reads the attribute of an array. ``locate`` raises
    ValueError, as ``<rule broken>, got <value>; <way out>``, for an unreadable array.

    ``describe(pointer, shape, dtype, number, /)`` returns the attribute of a tensor; all work on
    the tensor is done when a library reads it. ``describe`` raises AttributeError if the attribute
    cannot express the dtype, and then the tensor lacks the attribute.
    """

    def view(self, pointer: int, shape: tuple[int, ...], dtype: str, number: int, /) -> object:
        """Return an array of the device over compact, row-major memory that opwright owns.

        The array is created once if the address stays the same from run to run. Not called for a
        tensor that has no elements or is read only for its shape; kernels then get a NumPy dummy.
        """

    def stream(self, pointer: int, number: int, /) -> AbstractContextManager[object]:
        """Return a context manager within which the library enqueues work on this stream.

        The context manager is entered for each call of a kernel and left when the kernel returns,
        while work continues on the stream. The stream may be recording.
        """


_ALL: Final = {**PythonDevice.__annotations__, **vars(PythonDevice)}
MEMBERS: Final = tuple(name for name in _ALL if not name.startswith("_"))
"""The members that are checked when a device is opened."""
