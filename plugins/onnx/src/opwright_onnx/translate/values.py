"""Values during the translation of a model, and functions that do not append operators."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

import opwright as ow
from opwright_onnx.dtypes import Array, array_dtype, numpy_dtype
from opwright_onnx.errors import ModelError
from opwright_onnx.translate.codes import Codes
from opwright_onnx.translate.sizes import Sizes

Value = Any
"""A Variable, an array of known elements, Sizes or Codes; a list of these for a sequence; None
where absent."""

MAX_TABLE: Final = 2**25
"""The maximum element count of an array that a row computes from sizes at load time."""

FLOATS: Final = ("float16", "bfloat16", "float32", "float64")


def find_leaves(values: Iterable[Value]) -> list[Value]:
    """Return values as a flat list, with sequences expanded to their elements."""
    found: list[Value] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found += find_leaves(value)
        else:
            found.append(value)
    return found


def is_list(value: Value) -> bool:
    """Return whether a value is a sequence."""
    return isinstance(value, (list, tuple))


def with_numbers(value: Value, like: Value) -> Value:
    """Replace numbers in a value by arrays with the dtype of `like`."""
    if isinstance(value, (bool, int, float)):
        return np.array(value, numpy_dtype("float32" if like is None else dtype_of(like)))
    return value


def dtype_of(value: Value) -> str:
    """Return the dtype of a value."""
    if isinstance(value, Codes):
        return value.kind
    return value.dtype if isinstance(value, (ow.Variable, Sizes)) else array_dtype(value)


def is_texts(value: Value) -> bool:
    """Return whether a value is an array of strings; these exist only while a model is loaded."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "O"


def count_bytes(meta: Any) -> int:
    """Return the size of a value in bytes, or 0 if its shape is unknown."""
    if meta is None or any(dim < 0 for dim in meta.shape):
        return 0
    count = 1
    for dim in meta.shape:
        count *= dim
    return count * numpy_dtype(meta.dtype).itemsize


def check_table(*sizes: int) -> None:
    """Raise ModelError if an array of these sizes is too large to be computed at load time."""
    count = math.prod(sizes)
    if count > MAX_TABLE:
        raise ModelError(
            f"a table of indices must have at most {MAX_TABLE} elements, got shape {list(sizes)}"
        )


def is_exact(array: Array, dtype: str) -> bool:
    """Return whether attributes, which are stored as float64, can represent every element."""
    if dtype in ("int64", "uint64"):
        return bool((np.abs(array.astype(np.float64)) < 2**53).all())
    return dtype in FLOATS or dtype == "bool" or dtype.startswith(("int", "uint"))


def describe(value: Value) -> str:
    """Describe a value for error messages."""
    return "a sequence" if is_list(value) else "nothing" if value is None else repr(value)
