"""Cases of cos_sim."""

from __future__ import annotations

import numpy as np
from case import FLOATS, LENGTHS, WIDE, Array, Case, Random, Values


def cos_sim(
    x: Array, y: Array, scale: float = 1.0, axis: int = -1, epsilon: float = 1e-12
) -> tuple[Array, Array, Array]:
    x_norm = np.maximum(np.linalg.norm(x, axis=axis, keepdims=True), epsilon)
    y_norm = np.maximum(np.linalg.norm(y, axis=axis, keepdims=True), epsilon)
    return scale * (x * y).sum(axis, keepdims=True) / x_norm / y_norm, x_norm, y_norm


CASES = (
    *(
        Case("cos_sim", {"x": Random((3, n)), "y": Random((3, n))}, cos_sim, label=str(n), terms=n)
        for n in LENGTHS
    ),
    Case(
        "cos_sim",
        {"x": Random((3, 4, 2)), "y": Random((3, 4, 2))},
        cos_sim,
        attrs={"axis": 1, "scale": 5.0},
        label="axis",
        terms=5,
        magnitude=5.0,
    ),
    Case(
        "cos_sim",
        {"x": Random((3, 1, 4)), "y": Random((1, 5, 4))},
        cos_sim,
        label="broadcast",
        terms=4,
    ),
    Case("cos_sim", {"x": Random((5,)), "y": Random((5,))}, cos_sim, label="vectors", terms=5),
    Case(
        "cos_sim",
        {
            "x": Values([[1.5, -1.5, 1.25], [0.125, 1.5, 1.0]]),
            "y": Values([[1.25, -1.5, 1.5], [0.5, 1.0, -0.25]]),
        },
        cos_sim,
        attrs={"scale": 8.0, "epsilon": 2.515},  # which float16 rounds up
        label="held",
        terms=3,
        magnitude=8.0,
        dtypes=FLOATS,
    ),
    Case(
        "cos_sim",
        {"x": Values([[0.0, 0.0], [1e-3, 2e-3]]), "y": Values([[1.0, 2.0], [-1.0, 1.0]])},
        cos_sim,
        attrs={"epsilon": 0.5},
        label="short",
        dtypes=WIDE,
        no_grad="the derivative of the norm jumps at zero",
    ),
)
