"""The canonical names of dtypes, and their conversion to and from NumPy and DLPack.

A dtype has the same name in programs, registrations, messages and errors.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import numpy as np

from opwright.errors import DtypeError
from opwright.messages.names import hint

# The type codes of DLPack (DLDataTypeCode in dlpack.h).
Array: TypeAlias = np.ndarray[Any, Any]
"""A NumPy array of any dtype and shape."""

_DL_INT, _DL_UINT, _DL_FLOAT, _DL_BFLOAT, _DL_BOOL = 0, 1, 2, 4, 6
_DL_FLOAT8_E4M3FN, _DL_FLOAT8_E5M2 = 10, 12

_DLPACK: Final = {
    "bool": (_DL_BOOL, 8),
    "int8": (_DL_INT, 8),
    "int16": (_DL_INT, 16),
    "int32": (_DL_INT, 32),
    "int64": (_DL_INT, 64),
    "uint8": (_DL_UINT, 8),
    "uint16": (_DL_UINT, 16),
    "uint32": (_DL_UINT, 32),
    "uint64": (_DL_UINT, 64),
    "float16": (_DL_FLOAT, 16),
    "bfloat16": (_DL_BFLOAT, 16),
    "float32": (_DL_FLOAT, 32),
    "float64": (_DL_FLOAT, 64),
    "float8_e4m3fn": (_DL_FLOAT8_E4M3FN, 8),
    "float8_e5m2": (_DL_FLOAT8_E5M2, 8),
    "int4": (_DL_INT, 4),
    "uint4": (_DL_UINT, 4),
}

DTYPES: Final = tuple(_DLPACK)
"""All canonical dtype names."""

FLOAT_DTYPES: Final = ("float16", "bfloat16", "float32", "float64")
"""The dtypes that can have a gradient."""

INT_DTYPES: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
"""The integer dtypes, signed and unsigned, without bool."""

NARROW_DTYPES: Final = ("float8_e4m3fn", "float8_e5m2", "int4", "uint4")
"""One-byte dtypes for storage, which can only be converted and do not have gradients. ``"*"`` does
not include them: kernels that support them must name them."""

INDEX_DTYPES: Final = ("int32", "int64")
"""The dtypes of indices and class ids."""

MAX_DIM: Final = 2**63 - 1
"""The largest dimension in messages, DLPack and the runtime; also limits sizes in bytes."""

_FLOATS: Final = frozenset(FLOAT_DTYPES)
_CODES: Final = {
    name: code | bits << 8 | 1 << 16 for name, (code, bits) in _DLPACK.items()
}  # DLDataType {uint8 code, uint8 bits, uint16 lanes = 1} read as one little-endian word.
_SIZES: Final = {name: (bits + 7) // 8 for name, (_, bits) in _DLPACK.items()}
_NAMES: Final = {code: name for name, code in _CODES.items()}
_NUMPY: Final[dict[str, np.dtype[Any]]] = {
    name: np.dtype(name) for name in DTYPES if name not in ("bfloat16", *NARROW_DTYPES)
}
_FROM_NUMPY: Final[dict[np.dtype[Any], str]] = {dtype: name for name, dtype in _NUMPY.items()}


def short_dtype(dtype: str) -> str:
    """Return the short name: ``f32``, ``bf16``, ``i8``, ``u64``, ``f8_e5m2``; bool is unchanged."""
    for kind, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i")):
        if dtype.startswith(kind):
            return short + dtype.removeprefix(kind)
    return dtype


def is_float(dtype: str) -> bool:
    """Return whether values of this canonical dtype can have a gradient."""
    return dtype in _FLOATS


def check_dtype(dtype: str, who: str = "dtype") -> None:
    """Raise DtypeError, with `who` as prefix, unless `dtype` is a canonical name."""
    if dtype not in _DLPACK:
        raise DtypeError(f"{who}: unknown dtype, got {dtype!r}{hint(str(dtype), DTYPES, 'dtypes')}")


def canonical_dtype(dtype: object) -> str:
    """Return the canonical name of a dtype given as a name, a NumPy dtype or a scalar type.

    Parameters
    ----------
    dtype : str, numpy.dtype or type
        ``"float32"``, ``np.float32``, ``np.dtype("<f4")``, ``ml_dtypes.bfloat16``.

    Raises
    ------
    DtypeError
        For a dtype that opwright does not support.
    """
    if isinstance(dtype, str) and dtype in _DLPACK:
        return dtype
    if dtype is not None:  # which NumPy treats as float64
        try:
            return dtype_from_numpy(np.dtype(dtype))  # type: ignore[call-overload]
        except (TypeError, ValueError, SyntaxError):
            pass  # reported below, with the known names
    raise DtypeError(f"dtype: unknown dtype, got {dtype!r}{hint(str(dtype), DTYPES, 'dtypes')}")


def dtype_from_numpy(dtype: np.dtype[Any]) -> str:
    """Return the canonical name of a NumPy dtype of either byte order."""
    name = _FROM_NUMPY.get(dtype)
    if name is not None:
        return name
    if dtype.name in _DLPACK:  # of the other byte order, or a dtype of ml_dtypes
        return str(dtype.name)
    raise DtypeError(f"dtype: unknown dtype, got {dtype}{hint(str(dtype), DTYPES, 'dtypes')}")


def dtype_to_numpy(dtype: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a canonical name, in native byte order.

    Raises
    ------
    DtypeError
        For an unknown name, and for bfloat16 and narrow dtypes if ml_dtypes is not installed.
    """
    known = _NUMPY.get(dtype)
    if known is not None:
        return known
    check_dtype(dtype)
    try:
        import ml_dtypes  # importing it takes 7 ms, and few programs need it
    except ImportError:
        raise DtypeError(
            f"dtype: {dtype} needs ml_dtypes, which is not installed; pip install ml_dtypes"
        ) from None
    _NUMPY[dtype] = np.dtype(getattr(ml_dtypes, dtype))
    return _NUMPY[dtype]


def item_size(dtype: str) -> int:
    """Return the size of one element in bytes."""
    if dtype not in _SIZES:
        check_dtype(dtype)
    return _SIZES[dtype]


def dtype_to_code(dtype: str) -> int:
    """Return the dtype as the int ``code | bits << 8 | lanes << 16``, the bytes of DLDataType."""
    if dtype not in _CODES:
        check_dtype(dtype)
    return _CODES[dtype]


def dtype_from_code(code: int) -> str:
    """Return the canonical name of a dtype code; inverts `dtype_to_code`."""
    name = _NAMES.get(code)
    if name is None:
        raise DtypeError(f"dtype: unknown DLPack type, got code {code:#x}")
    return name


# -- numbers in the range of a dtype --------------------------------------------------------------
# Python numbers, lists and attributes have no dtype and adopt one. A float dtype rounds them.
# An integer dtype represents integers in its range, and bool represents 0 and 1; all other numbers
# are refused, never clipped.


_OVERFLOWS: Final = {
    "float16": 65520.0,
    "bfloat16": 2.0**128 - 2.0**119,
    "float32": 2.0**128 - 2.0**103,
    "float64": math.inf,
    "float8_e4m3fn": 464.0,
    "float8_e5m2": 61440.0,
}
"""Finite numbers above this, the largest finite number plus half a unit, round to infinity."""


def is_held(value: float, dtype: str) -> bool:
    """Whether a dtype can represent a number; a float dtype only lacks large finite numbers."""
    if dtype in _OVERFLOWS:
        if math.isinf(value):
            return dtype != "float8_e4m3fn"  # which has no infinities
        return math.isnan(value) or abs(value) < _OVERFLOWS[dtype]
    least, most = _range_of(dtype)
    return math.isfinite(value) and value == math.floor(value) and least <= value <= most


def describe_held(dtype: str, value: float) -> str:
    """Return the rule for numbers of `dtype`: ``"in [0, 255]"``, ``"an integer"``."""
    if dtype in _OVERFLOWS:
        return f"below {_OVERFLOWS[dtype]:.5g} in magnitude"
    if dtype == "bool":
        return "0 or 1"
    if not math.isfinite(value) or value != math.floor(value):
        return "an integer"
    return "in [{}, {}]".format(*_range_of(dtype))


def wider_dtype(value: float) -> str:
    """Return int64 if it can represent a number, otherwise float64."""
    return "int64" if is_held(value, "int64") else "float64"


def _range_of(dtype: str) -> tuple[int, int]:
    code, bits = _DLPACK[dtype]
    if code == _DL_INT:
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return 0, 1 if code == _DL_BOOL else 2**bits - 1
