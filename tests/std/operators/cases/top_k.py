"""Test cases of top_k."""

from __future__ import annotations

import numpy as np
from case import FLOATS, INTS, LENGTHS, WIDE, Array, Case, Random, Source, Values


def top_k(
    x: Array, k: int, axis: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Array, Array]:
    """Sort each row with Python's stable sort; NaN is greater than every number."""
    if x.ndim == 0:
        return x, np.zeros((), int)
    lines = np.moveaxis(x, axis, -1)
    indices = np.zeros((*lines.shape[:-1], k), int)
    for place in np.ndindex(lines.shape[:-1]):
        line = [float(value) for value in lines[place]]
        keys = [(value != value, 0.0 if value != value else value) for value in line]
        by_size = [(-nan, -value) if largest else (nan, value) for nan, value in keys]
        indices[place] = np.argsort(range(len(line)))[:0] if not line else _order(by_size)[:k]
    found = np.take_along_axis(lines, indices, -1)
    return np.moveaxis(found, -1, axis), np.moveaxis(indices, -1, axis)


def _order(keys: list[tuple[float, float]]) -> list[int]:
    return sorted(range(len(keys)), key=keys.__getitem__)


def case(x: Source, k: int, label: str, dtypes: tuple[str, ...] = WIDE, **attrs: object) -> Case:
    return Case(
        "top_k", {"x": x}, top_k, attrs={"k": k, **attrs}, dtypes=dtypes, label=label, ulps=0
    )


DISTINCT = Random((3, 4, 5), distinct=True)
TIES = Values([[1.0, 3.0, 3.0, 2.0, 3.0], [0.0, -0.0, 0.0, -1.0, -1.0]])
SPECIAL = Values([[np.nan, 1.0, np.inf, -np.inf], [1.0, np.nan, 2.0, np.nan]])

CASES = (
    case(DISTINCT, 2, "last"),
    case(DISTINCT, 3, "middle", axis=1),
    case(DISTINCT, 1, "first", axis=-3),
    case(DISTINCT, 5, "all"),
    case(DISTINCT, 2, "least", largest=False),
    case(Random((7,), distinct=True), 3, "vector", FLOATS),
    case(Random((0, 4), distinct=True), 2, "empty"),
    case(Random(()), 1, "scalar", FLOATS),
    case(Random(()), 1, "scalar-least", axis=0, largest=False),
    case(Random((9,), -9, 9), 4, "integers", INTS),
    *(case(Random((2, n), distinct=True), 1, f"width-{n}") for n in LENGTHS if n),
    *(
        Case(
            "top_k",
            {"x": x},
            top_k,
            attrs={"k": 4, "largest": largest},
            label=f"{name}-{'greatest' if largest else 'least'}",
            ulps=0,
            no_grad="equal or undefined elements",
        )
        for name, x in (("ties", TIES), ("special", SPECIAL))
        for largest in (True, False)
    ),
)
