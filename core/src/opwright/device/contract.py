"""The contract of a plugin's device: the protocols of devices and of their arrays."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol


class PythonDevice(Protocol):
    """The required members of a plugin's device. A handle is an int, never 0; sizes are in bytes.

    Attributes
    ----------
    name : str
        Device type, as in plans and kernels.
    dlpack_code : int
        DLPack's DLDeviceType.
    addressable : bool
        Whether a handle is an address that may be offset, so a plan uses one arena;
        otherwise each value gets its own buffer.
    """

    name: str
    dlpack_code: int
    addressable: bool

    def allocate(self, size: int, /) -> int:
        """Return a handle; raise MemoryError if out of memory."""

    def free(self, handle: int, /) -> None:
        """Free the memory."""

    def copy(self, dst: int, dst_is_host: bool, src: int, src_is_host: bool, size: int, /) -> None:
        """Copy bytes; a host side is an address, an addressable handle may be offset."""

    def synchronize(self) -> None:
        """Wait until all started work is done."""

    def view(self, handle: int, shape: tuple[int, ...], dtype: str, /) -> object:
        """Return the array that Python kernels of this device get.

        Never called for handle 0: a tensor without elements, or read only for its shape, reaches
        the kernel as a NumPy dummy.
        """


class PythonDevices(Protocol):
    """Any number of devices of one type; a plugin names this instead of a `PythonDevice`.

    A single `PythonDevice` is number 0, and is assumed to exist.

    Attributes
    ----------
    dlpack_code : int
        DLPack's DLDeviceType, the type of each device; read without opening one.
    """

    dlpack_code: int

    def open(self, number: int, /) -> PythonDevice:
        """Return the device with this number, at least 0; called once for each device in use.

        All Contexts share the device, as long as one of them, a plan or a tensor refers to it;
        later it is opened again. Never called by two threads concurrently.

        Raises
        ------
        DeviceNotFoundError
            If there is none of this number, or a requirement is missing: the user sees this text
            unchanged. Any other error is reported as the plugin's.
        """


class ArrayPlace(NamedTuple):
    """The memory of an array of another library: compact, row-major.

    Attributes
    ----------
    pointer : int
        Its address on the device; 0 without elements.
    shape : tuple of int
    dtype : str
        A canonical name, ``"float32"``.
    number : int or None
        The device's number; None without elements.
    stream : int
        Handle of the stream on which its library still works on it; 0 if no work is pending.
    """

    pointer: int
    shape: tuple[int, ...]
    dtype: str
    number: int | None
    stream: int


class DeviceArrays(Protocol):
    """Arrays for Python kernels on a device in a compiled library; ``arrays=`` in a hook names it.

    All methods are called with the GIL held. Pointers are ints, `number` is the device number.

    It may have three more members, for libraries without DLPack: `interface`, the name of an
    attribute by which arrays describe their memory on devices of this type, ``locate`` and
    ``describe``. Then such arrays are accepted like arrays with ``__dlpack__``, and tensors on
    the device have the attribute.

    ``locate(description, /) -> ArrayPlace`` reads the attribute of an array. It raises ValueError,
    as ``<rule broken>, got <value>; <way out>``, for an unreadable array.

    ``describe(pointer, shape, dtype, number, /)`` returns the attribute of a tensor: all work on
    the tensor is done when a library reads it. It raises AttributeError if the attribute cannot
    express the dtype: the tensor lacks it then.
    """

    def view(self, pointer: int, shape: tuple[int, ...], dtype: str, number: int, /) -> object:
        """Return the device's kind of array over memory that opwright owns, compact row-major.

        It is created once if the address stays the same from run to run. Never called for a tensor
        without elements or read only for its shape: the kernel gets a NumPy dummy.
        """

    def stream(self, pointer: int, number: int, /) -> AbstractContextManager[object]:
        """Return a context manager within which the library enqueues on this stream.

        It is entered for each call of a kernel and left when the kernel returns: work that
        continues belongs to the stream. The stream may be in the middle of a recording.
        """


_ALL: Final = {**PythonDevice.__annotations__, **vars(PythonDevice)}
MEMBERS: Final = tuple(name for name in _ALL if not name.startswith("_"))
"""The members that are checked when a device is opened."""
