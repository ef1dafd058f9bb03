"""Values without a dtype of their own, as arrays of one that holds them.

Python numbers, lists and attributes take on the dtype of what they go with. A float dtype rounds
them, as it rounds everything; an integer dtype holds whole numbers in its range, and bool 0 and 1:
all others are refused, never cut down to what fits.
"""

from __future__ import annotations

import math
import reprlib
from typing import TYPE_CHECKING, Any

import numpy as np

from opwright.describe.dtypes import dtype_from_numpy, dtype_to_numpy, is_float
from opwright.errors import DtypeError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def is_held(value: float, dtype: str) -> bool:
    """Tell whether a dtype holds a number; a float dtype holds all."""
    if is_float(dtype):
        return True
    least, most = _range_of(dtype)
    return math.isfinite(value) and value == math.floor(value) and least <= value <= most


def describe_held(dtype: str, value: float) -> str:
    """Return ``"in [0, 255]"``, ``"a whole number"``: what `value` is not and `dtype` needs."""
    if dtype == "bool":
        return "0 or 1"
    if not math.isfinite(value) or value != math.floor(value):
        return "a whole number"
    return "in [{}, {}]".format(*_range_of(dtype))


def wider_dtype(value: float) -> str:
    """Return a dtype that holds a number which another one does not."""
    return "int64" if is_held(value, "int64") else "float64"


def hold(value: Any, dtype: str | None, who: str, beside: str) -> NDArray[Any]:
    """Return Python numbers, lists or a NumPy scalar as an array that a kernel can read.

    Parameters
    ----------
    value : array_like
        A NumPy scalar keeps its dtype.
    dtype : str or None
        What all others take on; None: the dtype that NumPy gives them.
    who : str
        Operator and slot, or feed, for messages.
    beside : str
        What has this dtype and may be cast, for messages.

    Raises
    ------
    DtypeError
        Where the value is no array of numbers, or the dtype does not hold one of them.
    """
    plain = _plain(value, who)
    if dtype is None or isinstance(value, np.generic):
        return make_ready(plain)
    try:
        with np.errstate(invalid="ignore"):  # which the comparison finds
            made = np.asarray(value, dtype_to_numpy(dtype))
        if is_float(dtype) or np.array_equal(made, plain):
            return make_ready(made)
    except (OverflowError, ValueError):  # beyond the range of C's numbers, or NaN
        pass
    raise _range_error(plain, dtype, who, beside)


def make_ready(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that is C-contiguous, aligned and of native byte order, itself if it is."""
    return np.require(array, array.dtype.newbyteorder("="), ["C", "A"])


def _plain(value: Any, who: str) -> NDArray[Any]:
    try:
        plain = np.asarray(value)
        # Whole numbers beyond 64 bits are objects to NumPy.
        if plain.dtype != object or not all(isinstance(number, int) for number in plain.flat):
            dtype_from_numpy(plain.dtype)
    except (TypeError, ValueError) as error:
        raise DtypeError(
            f"{who}: must be an array of numbers, got {value!r}; pass one, or numbers"
        ) from error
    return plain


def _range_of(dtype: str) -> tuple[int, int]:
    if dtype == "bool":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _range_error(plain: NDArray[Any], dtype: str, who: str, beside: str) -> DtypeError:
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
