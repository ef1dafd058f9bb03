"""The dtype lists that the standard operators declare, and the type of a kernel's arrays."""

from __future__ import annotations

from typing import Any, TypeAlias

from numpy.typing import NDArray

from opwright.op import FLOAT_DTYPES, INDEX_DTYPES, INT_DTYPES

Array: TypeAlias = NDArray[Any]

FLOATS = FLOAT_DTYPES
HALVES = ("float16", "bfloat16")
INDICES = INDEX_DTYPES
NUMBERS = FLOAT_DTYPES + INT_DTYPES
