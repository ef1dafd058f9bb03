"""Conversions between ONNX element types, opwright dtype names and NumPy dtypes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from opwright.op import DTYPES, dtype_from_numpy, dtype_to_numpy
from opwright_onnx.errors import UnsupportedError
from opwright_onnx.messages import DataType

Array = np.ndarray[Any, Any]

_SPELLINGS: Final = {
    "float": "float32",
    "double": "float64",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e5m2": "float8_e5m2",
}
NAMES: Final[dict[int, str]] = {
    int(element): _SPELLINGS.get(name.lower(), name.lower())
    for name, element in DataType.__members__.items()
    if _SPELLINGS.get(name.lower(), name.lower()) in DTYPES
}
"""The opwright name of each supported element type."""

_NUMBERS: Final = {name: number for number, name in NAMES.items()}

WIDE: Final = frozenset(name for name in DTYPES if name not in ("int4", "uint4"))


def dtype_name(element: int) -> str:
    """Return the opwright name of an element type; UnsupportedError if opwright lacks the dtype."""
    if element in NAMES:
        return NAMES[element]
    known = {int(number): name for name, number in DataType.__members__.items()}
    raise UnsupportedError(
        "elements must have a dtype that opwright supports, got "
        f"{known.get(element, element)}; cast them"
    )


def element_type(dtype: str) -> int:
    """Return the ONNX element type of an opwright dtype."""
    return _NUMBERS[dtype]


def array_dtype(array: Array) -> str:
    """Return the opwright name of an array's dtype."""
    return dtype_from_numpy(array.dtype)


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of an opwright dtype name."""
    return dtype_to_numpy(name)
