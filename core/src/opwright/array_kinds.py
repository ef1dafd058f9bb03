"""Arrays of other libraries: in without a copy where DLPack allows, out as they came in."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from opwright import _runtime
from opwright.dtypes import dtype_from_numpy
from opwright.errors import DeviceNotFoundError, DtypeError

if TYPE_CHECKING:
    from numpy.typing import NDArray


HOST_CODES: Final = (1, 3)
"""DLPack's kDLCPU and kDLCUDAHost: memory that NumPy reads."""


def is_array(value: object) -> bool:
    """Whether a value is an array of NumPy or of any library that speaks DLPack."""
    return isinstance(value, np.ndarray) or hasattr(value, "__dlpack__")


def to_numpy(value: Any, dtype: np.dtype[Any] | None, who: str) -> NDArray[Any]:
    """Return a value as a NumPy array that a kernel can read: borrowed where that is possible.

    Parameters
    ----------
    value : array_like
        An array keeps its dtype; Python numbers and lists take `dtype`.
    who : str
        Operator and slot, for messages.

    Raises
    ------
    DtypeError
        For values that are no array of a dtype that opwright has.
    DeviceNotFoundError
        For an array that lies on a device no installed plugin brings.
    """
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__dlpack__"):
        array = _from_dlpack(value, who)
    else:
        array = _from_python(value, dtype, who)
    try:
        dtype_from_numpy(array.dtype)
    except DtypeError as error:
        raise DtypeError(f"{who}: must be an array of numbers, got {value!r}") from error
    return np.require(array, array.dtype.newbyteorder("="), ["C", "A"])


def _from_python(value: Any, dtype: np.dtype[Any] | None, who: str) -> NDArray[Any]:
    try:
        return np.asarray(value, None if isinstance(value, np.generic) else dtype)
    except (TypeError, ValueError) as error:
        raise DtypeError(f"{who}: must be an array of numbers, got {value!r}") from error


def _from_dlpack(value: Any, who: str) -> NDArray[Any]:
    code, _ = value.__dlpack_device__()
    if int(code) not in HOST_CODES:
        raise DeviceNotFoundError(
            f"{who}: no installed plugin runs operators on arrays of DLPack device type "
            f"{int(code)}, got {type(value).__name__}; copy it to the host"
        )
    return np.from_dlpack(value)


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
    return _namespace(like).from_dlpack(result)


def _namespace(like: Any) -> Any:
    """The module of an array's library that has ``from_dlpack``."""
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__()
    return sys.modules[type(like).__module__.partition(".")[0]]
