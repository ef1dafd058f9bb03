"""Test cases of one_hot."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Array, Case, Values


def one_hot(x: Array, depth: int) -> Array:
    return (x[..., None] == np.arange(depth)).astype(float)


def case(ids: Any, depth: int, label: str) -> Case:
    dtypes = ("int32", "int64")
    return Case("one_hot", {"x": Values(ids)}, one_hot, {"depth": depth}, dtypes, label, ulps=0)


CASES = (
    case([0, 2, 1, 2], 3, "vector"),
    case([[0], [4]], 5, "column"),
    case([[[1, 0], [0, 1]]], 2, "stack"),
    case(1, 2, "scalar"),
    case([], 3, "empty"),
    case([0, 0], 1, "one-class"),
    case([16, 31, 32, 0], 33, "wide"),
)
