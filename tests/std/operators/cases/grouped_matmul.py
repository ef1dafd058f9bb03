"""Test cases of grouped_matmul and grouped_outer; the references compute row by row."""

from __future__ import annotations

import numpy as np
from case import FLOATS, Array, Case, Random, Values

N = 9


def group_of(row: int, offsets: Array) -> int | None:
    """Return the group of a row, or None if it belongs to no group."""
    return next((group for group, end in enumerate(offsets) if row < end), None)


def grouped_matmul(
    x: Array, weight: Array, offsets: Array, transpose_weight: bool = False
) -> Array:
    matrices = weight.swapaxes(1, 2) if transpose_weight else weight
    out = np.zeros((len(x), matrices.shape[2]))
    for row in range(len(x)):
        group = group_of(row, offsets)
        if group is not None:
            out[row] = x[row] @ matrices[group]
    return out


def grouped_outer(x: Array, y: Array, offsets: Array) -> Array:
    out = np.zeros((len(offsets), x.shape[1], y.shape[1]))
    for row in range(len(x)):
        group = group_of(row, offsets)
        if group is not None:
            out[group] += np.outer(x[row], y[row])
    return out


def product(
    label: str,
    offsets: list[int],
    n: int = N,
    k: int = 4,
    m: int = 5,
    transpose: bool = False,
    index: str = "int32",
) -> Case:
    weight = (len(offsets), m, k) if transpose else (len(offsets), k, m)
    return Case(
        "grouped_matmul",
        {"x": Random((n, k)), "weight": Random(weight), "offsets": Values(offsets, index)},
        grouped_matmul,
        {"transpose_weight": transpose},
        label=label,
        dtypes=FLOATS,
        terms=max(k, 1),
        magnitude=4.0,
    )


def outer(
    label: str, offsets: list[int], n: int = N, k: int = 4, m: int = 5, index: str = "int32"
) -> Case:
    return Case(
        "grouped_outer",
        {"x": Random((n, k)), "y": Random((n, m)), "offsets": Values(offsets, index)},
        grouped_outer,
        label=label,
        dtypes=FLOATS,
        terms=max(n, 1),
        magnitude=4.0,
    )


GROUPS = {
    "even": [3, 6, 9],
    "uneven": [1, 8, 9],
    "empty-first": [0, 4, 9],
    "empty-middle": [2, 2, 2, 9],
    "empty-last": [5, 9, 9],
    "one": [9],
    "rows-of-no-group": [2, 6],
    "all-empty": [0, 0],
    "no-groups": [],
}

CASES = (
    *(make(label, offsets) for make in (product, outer) for label, offsets in GROUPS.items()),
    *(product(f"transposed-{label}", GROUPS[label], transpose=True) for label in GROUPS),
    *(make("long-index", [3, 7], index="int64") for make in (product, outer)),
    *(make("no-rows", [0, 0], n=0) for make in (product, outer)),
    *(make("no-inner", [3, 7], k=0) for make in (product, outer)),
    *(make("no-columns", [3, 7], m=0) for make in (product, outer)),
    *(make("one-column", [3, 8], m=1) for make in (product, outer)),
    *(
        make(f"wide-{m}", [1, 1, 20, 35], n=40, k=17, m=m)
        for m in (15, 33, 130)
        for make in (product, outer)
    ),
    product("wide-transposed", [1, 1, 20, 35], n=40, k=33, m=130, transpose=True),
)
