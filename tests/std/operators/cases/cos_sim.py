"""Test cases of cos_sim."""

from __future__ import annotations

import numpy as np
from case import FLOATS, LENGTHS, WIDE, Array, Case, Random, Values


def cos_sim(
    x: Array, y: Array, scale: float = 1.0, axis: int = -1, epsilon: float = 1e-12
) -> tuple[Array, Array, Array]:
    rank = max(x.ndim, y.ndim)
    full = [one.reshape((1,) * (max(rank, 1) - one.ndim) + one.shape) for one in (x, y)]
    n = max(one.shape[axis] for one in full)
    lengths = [np.linalg.norm(one, axis=axis, keepdims=True) for one in full]
    x_norm, y_norm = (
        np.maximum(length * (n / max(1, one.shape[axis])) ** 0.5, epsilon)
        for length, one in zip(lengths, full, strict=True)
    )
    out = scale * (full[0] * full[1]).sum(axis, keepdims=True) / x_norm / y_norm
    return tuple(part.reshape(part.shape if rank else ()) for part in (out, x_norm, y_norm))


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
        {"x": Random((2, 1, 3)), "y": Random((2, 1))},
        cos_sim,
        attrs={"axis": 1},
        label="ranks-and-lengths",
        terms=2,
    ),
    Case("cos_sim", {"x": Values(0.5), "y": Values(-2.0)}, cos_sim, attrs={"axis": 0}, label="0-d"),
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
