"""Test cases of gather."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import LENGTHS, NUMBERS, WIDE, Array, Case, Random, Values


def gather(x: Array, index: Array, axis: int = 0) -> Array:
    axis %= x.ndim
    picked = [np.expand_dims(x[(slice(None),) * axis + (i,)], axis) for i in index.ravel()]
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return np.concatenate(picked, axis).reshape(shape) if picked else np.empty(shape, x.dtype)


def case(
    shape: tuple[int, ...], index: Any, label: str, dtype: str = "int64", **attrs: Any
) -> Case:
    return Case(
        "gather",
        {"x": Random(shape), "index": Values(index, dtype)},
        gather,
        attrs=attrs,
        dtypes=WIDE,
        label=label,
        ulps=0,
    )


CASES = (
    case((4, 3), [0, 3, 3, 1, 0], "repeated"),
    case((4, 3), [-1, 2, -4], "negative", "int32"),
    case((4, 3), [[0, 1], [2, 2]], "matrix"),
    case((4, 3), 2, "scalar"),
    case((4, 3), [], "none"),
    Case(
        "gather",
        {"x": Random(()), "index": Values([0, -1, 0], "int64")},
        lambda x, index, axis: np.array([x] * len(index)),
        {"axis": -1},
        label="of-scalar",
        ulps=0,
    ),
    case((0, 3), [], "empty"),
    case((2, 3, 4), [[2, 0], [1, 2]], "middle", axis=1),
    case((2, 3, 4), [3, 0, 3], "last", axis=-1),
    case((5,), [4, 4, 0], "vector"),
    *(case((3, n), [2, 0, 2], f"width-{n}") for n in LENGTHS),
    Case(
        "gather",
        {"x": Random((4, 3), -9, 9), "index": Values([1, -1], "int64")},
        gather,
        dtypes=NUMBERS,
        label="dtypes",
        ulps=0,
        no_grad="integers among them",
    ),
)
