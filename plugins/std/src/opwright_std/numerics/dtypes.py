"""Dtype lists of the standard operators, and the type of a kernel's arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from opwright.op import FLOAT_DTYPES, INDEX_DTYPES, INT_DTYPES

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"

FLOATS = FLOAT_DTYPES
HALVES = ("float16", "bfloat16")
INDICES = INDEX_DTYPES
NUMBERS = FLOAT_DTYPES + INT_DTYPES
ORDERED = (*NUMBERS, "bool")
WHOLE = (*INT_DTYPES, "bool")
WIDE = ("float32", "float64")


def accumulated_dtype(dtype: str) -> str:
    """Return the dtype of sums and products: 64 bits for integers and bool."""
    if dtype not in WHOLE:
        return dtype
    return "uint64" if dtype.startswith("u") else "int64"
