"""Reads external values that the runtime cannot read itself, or refuses them with advice.

The runtime inspects each value of a call once, and reads NumPy arrays, arrays that other libraries
export directly, and arrays on the device of the network. For all other feeds, arguments of
operators, and arrays for `ScopeVariable.set` and `Tensor.from_numpy` it uses this module:

- A NumPy array is borrowed if it is ready: C-contiguous, aligned, of native byte order. Any other
  array is copied. An array of a subclass is read as a plain array; a masked array is refused.
- A NumPy scalar keeps its dtype. Python numbers and lists get the dtype of the arrays with which
  they are combined, if it can represent them.
- An array of another library on the host is borrowed with the DLPack C exchange API, the buffer
  protocol or ``__dlpack__``: `lend`, `read_host`. opwright tensors and variables are borrowed, too.
- An array on a device must have DLPack, or the attribute that the device names: `find_place`. On
  the device where it is needed, such an array becomes a tensor without a copy: `read_tensor`.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from opwright import _runtime
from opwright.context.context import Context, current_context
from opwright.describe.dtypes import (
    Array,
    describe_held,
    dtype_from_numpy,
    dtype_to_numpy,
    is_float,
    is_held,
    wider_dtype,
)
from opwright.describe.meta import Meta
from opwright.device.opening import HOST_CODES, find_device_name, find_interface_place
from opwright.errors import DeviceNotFoundError, DtypeError, FeedError, OpwrightError

HOST_KINDS: Final = (np.ndarray, np.generic, int, float, complex, list, tuple)
"""Types of values that are always on the host."""


def is_array(value: object) -> bool:
    """Whether a value is a NumPy array or an array of any library that supports DLPack."""
    return isinstance(value, np.ndarray) or hasattr(value, "__dlpack__")


def find_place(value: Any, context: Context, who: str = "array") -> tuple[int, int] | None:
    """Return the DLPack device of an array that is not on the host, or None for other values."""
    if isinstance(value, HOST_KINDS):
        return None
    with reading(value, who):
        if not hasattr(value, "__dlpack_device__"):
            return find_interface_place(value, context)
        code, number = map(int, value.__dlpack_device__())
    return None if code in HOST_CODES else (code, number)


def describe_place(code: int, number: int, context: Context) -> str:
    """Return a DLPack device for messages, by name if a plugin provides it."""
    name = find_device_name(code, number, context)
    return str(name) if name else f"DLPack device type {code}, number {number}"


def lend(value: Any) -> Any:
    """Return the ndarray that an array of another library exports, or any other value unchanged.

    The ndarray may have any strides.
    """
    if isinstance(value, (np.ndarray, np.generic)) or not hasattr(value, "__dlpack__"):
        return value
    lent = _runtime.find_lent(value)
    return value if lent is None else lent


def read_host(value: Any, who: str, dtype: str | None = None, beside: str = "") -> Array:
    """Return a value as in `borrow_host`, but copied if a kernel could not read it."""
    return make_ready(borrow_host(value, who, dtype, beside))


def borrow_host(value: Any, who: str, dtype: str | None = None, beside: str = "") -> Array:
    """Return a value on the host as an array with the same memory, strides and byte order.

    `dtype` is the dtype of Python numbers and lists, by default the choice of NumPy; arrays and
    NumPy scalars keep their dtype. `who` (operator and slot, or feed) and `beside` (the value that
    has this dtype and may be cast) are for messages.

    Raises
    ------
    DtypeError
        For an array of an unsupported dtype, a masked array, a value that is not an array of
        numbers, and a number that the dtype cannot represent.
    FeedError
        For an array that its library does not export.
    DeviceNotFoundError
        For an array on a device that no installed plugin provides.
    """
    if isinstance(value, np.ndarray):
        array = plain_array(value, who)
    elif hasattr(value, "__dlpack__"):
        array = _from_dlpack(value, who)
    else:
        return hold(value, dtype, who, beside)
    try:
        dtype_from_numpy(array.dtype)
    except DtypeError as error:
        raise DtypeError(
            f"{who}: must be an array of bools, ints or floats, got dtype {array.dtype}; cast it "
            "to one of these"
        ) from error
    return array


def borrow_memory(value: Any, who: str) -> Array:
    """Return an ndarray over the memory of an array on the host, never over a copy.

    The runtime calls this for subclasses of ndarray and arrays that only have ``__dlpack__``.
    Raises FeedError for anything else.
    """
    place = find_place(value, current_context(), who)
    if place is not None or not is_array(value):
        shown = "" if place is None else f" on {describe_place(*place, current_context())}"
        raise FeedError(
            f"{who}: must be an array whose memory can be used in place, got "
            f"{type(value).__name__}{shown}; pass an array on the host, or on the device of a "
            "network with fetch_device=True"
        )
    try:
        return borrow_host(value, who)
    except DtypeError as error:
        raise FeedError(str(error)) from error


def read_feed(
    value: Any, label: str, dtype: str | None, device: _runtime.Device, context: Context
) -> Array | _runtime.Tensor:
    """Return a feed in a form that plans on `device` can read: a ready array or a device tensor.

    `dtype` is the dtype of the variable, for numbers and lists; `label` begins error messages.
    Raises FeedError for anything but an array of numbers, and for an array on another device.
    """
    if not device.is_host:
        tensor = find_tensor(value, device, label)
        if tensor is not None:
            return tensor
    place = find_place(value, context, label)
    if place is not None:
        raise _elsewhere(value, place, label, device, context)
    try:
        return read_host(value, label, dtype, "the variable")
    except (DtypeError, DeviceNotFoundError) as error:
        raise FeedError(str(error)) from error


def _elsewhere(
    value: Any, place: tuple[int, int], label: str, device: _runtime.Device, context: Context
) -> FeedError:
    here, there = device.name, describe_place(*place, context)
    if isinstance(value, (_runtime.Tensor, _runtime.ScopeVariable)):
        other = value.opened_device or device
        here, there = device.name_beside(other), other.name_beside(device)
    return FeedError(
        f"{label}: an array must be on the host or on {here}, where the network runs, got "
        f"{type(value).__name__} on {there}; copy it, or compile for its device"
    )


def meta_of(array: Array | np.generic | _runtime.Tensor) -> Meta:
    """Return the meta of an array."""
    if isinstance(array, _runtime.Tensor):
        return Meta(array.shape, array.dtype)
    return Meta(array.shape, dtype_from_numpy(array.dtype))


def read_tensor(value: Any, device: _runtime.Device, who: str) -> _runtime.Tensor:
    """Return an array on `device` as a tensor, without a copy.

    Raises FeedError if the array is elsewhere, not contiguous, or not exported by its library.
    """
    with reading(value, who, device.name):
        return _runtime.Tensor.from_array(value, device, who)


def find_tensor(value: Any, device: _runtime.Device, who: str) -> _runtime.Tensor | None:
    """Like `read_tensor`, but return None for a value that is not on `device`."""
    if isinstance(value, HOST_KINDS):
        return None
    with reading(value, who, device.name):
        return _runtime.Tensor.from_array(value, device, who) if device.holds(value) else None


def read_to_copy(value: Any, device: _runtime.Device, who: str) -> Array:
    """Return a ready array on the host, which the runtime copies to `device`.

    opwright tensors and variables are read from any device. Raises DtypeError and FeedError like
    `read_host`, and FeedError for an array of another library that is not on the host.
    """
    if isinstance(value, (_runtime.Tensor, _runtime.ScopeVariable)):
        return value.numpy()
    context = current_context()
    place = find_place(value, context, who)
    if place is not None:
        raise FeedError(
            f"{who}: an array must be on the host or on {device.name}, its destination, got "
            f"{type(value).__name__} on {describe_place(*place, context)}; copy it to the host, or "
            "give its device"
        )
    return read_host(value, who)


def plain_array(value: Array, who: str) -> Array:
    """Return an array of a subclass as a plain ndarray; DtypeError for a masked one."""
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)  # slow to import
    if masked is not None and isinstance(value, masked):
        raise DtypeError(
            f"{who}: must be an array without a mask, got a masked array; "
            "pass its filled(0), or a different fill value"
        )
    return np.asarray(value)


def hold(value: Any, dtype: str | None, who: str, beside: str) -> Array:
    """Convert Python numbers, lists or a NumPy scalar to an array that a kernel can read.

    The parameters are the same as for `borrow_host`. Raises DtypeError if the value is not an array
    of numbers, or the dtype cannot represent them.
    """
    plain = _plain(value, who)
    if dtype is None or isinstance(value, np.generic):
        return make_ready(plain)
    try:
        with np.errstate(invalid="ignore", over="ignore"):  # found by the comparisons
            array = np.asarray(value, dtype_to_numpy(dtype))
        if _holds(array, plain, dtype):
            return make_ready(array)
    except (OverflowError, ValueError):  # beyond the range of C types, or NaN
        pass
    raise _range_error(plain, dtype, who, beside)


@contextmanager
def reading(value: Any, who: str, where: str = "the host") -> Iterator[None]:
    """Convert an error that a library raised on exporting an array to a FeedError with advice."""
    try:
        yield
    except OpwrightError:
        raise
    except (TypeError, ValueError, AttributeError, BufferError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        way_out = "pass one with __dlpack__"
        if getattr(value, "requires_grad", False):
            way_out = "its gradient cannot be followed here: pass its detach()"
        raise FeedError(
            f"{who}: must be an array that can be read on {where}, got {type(value).__name__} "
            f"({reason}); {way_out}"
        ) from error


def _from_dlpack(value: Any, who: str) -> Array:
    if not hasattr(value, "__dlpack_device__"):
        raise FeedError(
            f"{who}: must be an array with values, got {type(value).__name__}, which has no "
            "values while a function is traced; call the operator outside jit and grad"
        )
    with reading(value, who):
        code, _ = value.__dlpack_device__()
        if int(code) not in HOST_CODES:
            raise DeviceNotFoundError(
                f"{who}: must be on a device of an installed plugin, got an array of type "
                f"{type(value).__name__} on DLPack device type {int(code)}; copy it to the host"
            )
        return _runtime.read_host_array(value, who)


def make_ready(array: Array) -> Array:
    """Return an array that is C-contiguous, aligned and of native byte order, copied if needed."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned and array.dtype.isnative:
        return array
    return np.require(array, array.dtype.newbyteorder("="), ["C", "A"])


def _plain(value: Any, who: str) -> Array:
    try:
        plain = np.asarray(value)
        # NumPy converts integers beyond 64 bits to objects.
        if plain.dtype != object or not all(isinstance(number, int) for number in plain.flat):
            dtype_from_numpy(plain.dtype)
    except (TypeError, ValueError) as error:
        raise DtypeError(
            f"{who}: must be an array of numbers, got {value!r}; pass one, or numbers"
        ) from error
    return plain


def _holds(array: Array, plain: Array, dtype: str) -> bool:
    if not is_float(dtype):
        return bool(np.array_equal(array, plain))
    if np.isfinite(array).all():
        return True
    return all(is_held(number, dtype) for number in plain.ravel().tolist())


def _range_error(plain: Array, dtype: str, who: str, beside: str) -> DtypeError:
    if is_float(dtype):
        shown = reprlib.repr(plain.tolist())
        return DtypeError(
            f"{who}: must be numbers in the range of {dtype}, got {shown}; scale them"
        )
    number = next(number for number in plain.ravel().tolist() if not is_held(number, dtype))
    return DtypeError(
        f"{who}: must be {describe_held(dtype, number)} to become {dtype}, got {number!r}; "
        f"cast {beside} to {wider_dtype(number)}"
    )
