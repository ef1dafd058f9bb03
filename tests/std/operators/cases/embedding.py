"""Test cases of embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import LENGTHS, WIDE, Array, Case, Random, Values


def embedding(weight: Array, index: Array, padding_index: int = -1) -> Array:
    return np.where((index == padding_index)[..., None], 0.0, weight[index])


def case(rows: int, size: int, index: Any, label: str, dtype: str = "int64", **attrs: int) -> Case:
    return Case(
        "embedding",
        {"weight": Random((rows, size)), "index": Values(index, dtype)},
        embedding,
        attrs=attrs,
        dtypes=WIDE,
        label=label,
        ulps=0,
    )


CASES = (
    case(5, 3, [0, 4, 4, 1], "repeated"),
    case(5, 3, [[0, 1, 2], [2, 2, 4]], "matrix", "int32"),
    case(5, 3, [[1], [2]], "column"),
    case(5, 3, 3, "scalar"),
    case(5, 3, [], "none"),
    case(5, 3, [2, 0, 2, 4], "padding", padding_index=2),
    case(5, 3, [2, 0], "padding-first", padding_index=0),
    *(case(4, n, [3, 1, 3], f"size-{n}") for n in LENGTHS),
)
