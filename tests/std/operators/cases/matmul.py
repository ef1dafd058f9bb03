"""Test cases of matmul."""

from __future__ import annotations

import numpy as np
from case import LENGTHS, NUMBERS, WIDE, Array, Case, Random, Values


def matmul(x: Array, y: Array, transpose_x: bool = False, transpose_y: bool = False) -> Array:
    """Compute with einsum, which is independent of how matmul treats vectors and stacks."""
    letters_x, letters_y = ("k" if x.ndim == 1 else "mk"), ("k" if y.ndim == 1 else "kn")
    result = letters_x.replace("k", "") + letters_y.replace("k", "")
    if transpose_x:
        letters_x = letters_x[::-1]
    if transpose_y:
        letters_y = letters_y[::-1]
    return np.einsum(f"...{letters_x},...{letters_y}->...{result}", x, y)


def case(x: tuple[int, ...], y: tuple[int, ...], label: str = "", **attrs: bool) -> Case:
    size = x[-2] if attrs.get("transpose_x") else x[-1]
    return Case(
        "matmul",
        {"x": Random(x), "y": Random(y)},
        matmul,
        attrs=attrs,
        label=label or "x".join(map(str, x)) + "@" + "x".join(map(str, y)),
        terms=size,
        magnitude=4.0,
    )


SHAPES = (
    ((3, 4), (4, 5)),
    ((0, 4), (4, 5)),
    ((3, 0), (0, 5)),
    ((3, 4), (4, 0)),
    ((1, 1), (1, 1)),
    ((4,), (4,)),
    ((0,), (0,)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((2, 3, 4), (4,)),
    ((2, 3, 4), (4, 5)),
    ((2, 2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (3, 4, 2)),
    ((1, 3, 4), (2, 4, 2)),
    ((0, 3, 4), (4, 2)),
)

CASES = (
    *(case(x, y) for x, y in SHAPES),
    *(case((n, n + 1), (n + 1, 2)) for n in LENGTHS if n),
    case((4, 3), (4, 5), "turned-x", transpose_x=True),
    case((3, 4), (5, 4), "turned-y", transpose_y=True),
    case((4, 3), (5, 4), "turned-both", transpose_x=True, transpose_y=True),
    case((2, 3, 4), (5, 4), "stack-turned-y", transpose_y=True),
    case((2, 4, 3), (4, 5), "stack-turned-x", transpose_x=True),
    case((2, 4, 3), (1, 5, 4), "stacks-turned", transpose_x=True, transpose_y=True),
    case((4,), (2, 5, 4), "vector-turned-y", transpose_y=True),
    case((2, 4, 3), (4,), "turned-x-vector", transpose_x=True),
    Case(
        "matmul",
        {"x": Random((3, 4), 0, 4), "y": Random((4, 2), 0, 4)},
        matmul,
        dtypes=NUMBERS,
        label="integers",
    ),
    Case(
        "matmul",
        {"x": Values([[np.inf, 1.0], [np.nan, 1.0], [1.0, 1.0]]), "y": Values([[1.0], [2.0]])},
        matmul,
        dtypes=WIDE,
        label="special",
        no_grad="infinite or undefined there",
    ),
)
