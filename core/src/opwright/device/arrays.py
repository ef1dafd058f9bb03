"""Arrays of other libraries: in without a copy where DLPack allows, out as they came in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from opwright import _runtime
from opwright.describe.dtypes import dtype_from_numpy
from opwright.describe.held_values import make_ready
from opwright.device.jax_arrays import give_to_jax
from opwright.errors import DeviceNotFoundError, DtypeError, FeedError, OpwrightError

if TYPE_CHECKING:
    from numpy.typing import NDArray


HOST_CODES: Final = (1, 3)
"""DLPack's kDLCPU and kDLCUDAHost: memory that NumPy reads."""


def is_array(value: object) -> bool:
    """Whether a value is an array of NumPy or of any library that speaks DLPack."""
    return isinstance(value, np.ndarray) or hasattr(value, "__dlpack__")


def read_array(value: Any, who: str) -> NDArray[Any]:
    """Return an array as `borrow_array` does, copied where a kernel could not read it."""
    return make_ready(borrow_array(value, who))


def borrow_array(value: Any, who: str) -> NDArray[Any]:
    """Return an array as a NumPy array of the same memory, strides and byte order.

    Parameters
    ----------
    value : array
        It keeps its dtype; one of a subclass of ndarray is read as an ndarray.
    who : str
        Operator and slot, or feed, for messages.

    Raises
    ------
    DtypeError
        For an array of a dtype that opwright does not have, and for a masked one.
    FeedError
        For an array that its library does not lend.
    DeviceNotFoundError
        For an array that lies on a device no installed plugin provides.
    """
    is_numpy = isinstance(value, np.ndarray)
    array = plain_array(value, who) if is_numpy else _from_dlpack(value, who)
    try:
        dtype_from_numpy(array.dtype)
    except DtypeError as error:
        raise DtypeError(
            f"{who}: must be an array of numbers, got {value!r}; cast it to another dtype"
        ) from error
    return array


def lend(value: Any) -> Any:
    """Return the ndarray that another library lends at once, else the value as it is."""
    if isinstance(value, (np.ndarray, np.generic)) or not hasattr(value, "__dlpack__"):
        return value
    lent = _runtime.find_lent(value)
    return value if lent is None else lent


def plain_array(value: NDArray[Any], who: str) -> NDArray[Any]:
    """Return an array of a subclass as the ndarray that it is; DtypeError for a masked one."""
    if isinstance(value, np.ma.MaskedArray):
        raise DtypeError(
            f"{who}: must be an array whose elements all count, got a masked array; "
            "pass its filled(0), or with another value in place of 0"
        )
    return np.asarray(value)


@contextmanager
def reading(value: Any, who: str, where: str = "the host") -> Iterator[None]:
    """Turn what a library raises while it lends an array into a FeedError with a way out."""
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


def _from_dlpack(value: Any, who: str) -> NDArray[Any]:
    if not hasattr(value, "__dlpack_device__"):
        raise FeedError(
            f"{who}: must be an array with values, got {type(value).__name__}, which stands for "
            "one while a function is traced; call the operator outside jit and grad"
        )
    with reading(value, who):
        code, _ = value.__dlpack_device__()
        if int(code) not in HOST_CODES:
            raise DeviceNotFoundError(
                f"{who}: no installed plugin runs operators on arrays of DLPack device type "
                f"{int(code)}, got {type(value).__name__}; copy it to the host"
            )
        return _runtime.read_host_array(value, who)


def as_given(result: Any, like: Any) -> Any:
    """As `from_numpy_like`, for a `like` that the buffer protocol lent: JAX's, most of all."""
    given = give_to_jax(result, like) if type(result) is np.ndarray else None
    return from_numpy_like(result, like) if given is None else given


def from_numpy_like(result: Any, like: Any) -> Any:
    """Return results, arrays or tensors, as the kind of array that ``like`` is; None: NumPy.

    That is a tensor for a variable of a scope, and where the library of ``like`` has no DLPack.
    """
    if like is None:
        return result
    if isinstance(result, tuple):
        return tuple(from_numpy_like(item, like) for item in result)
    ours = isinstance(like, (_runtime.Tensor, _runtime.ScopeVariable))
    if ours or not hasattr(like, "__dlpack__"):
        is_tensor = isinstance(result, _runtime.Tensor)
        return result if is_tensor else _runtime.Tensor.from_numpy(result)
    given = None
    if isinstance(result, np.ndarray):
        given = _runtime.give_like(result, like)
        given = give_to_jax(result, like) if given is None else given
    return _namespace(like).from_dlpack(_exported(result)) if given is None else given


def _exported(result: Any) -> Any:
    """What speaks DLPack for a result: NumPy itself does not for bfloat16."""
    if isinstance(result, np.ndarray) and result.dtype.kind not in "biuf":
        return _runtime.Tensor.from_numpy(result)
    return result


def _namespace(like: Any) -> Any:
    """The module of an array's library that has ``from_dlpack``."""
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__()
    return sys.modules[type(like).__module__.partition(".")[0]]
