"""Test cases of rms_norm."""

from __future__ import annotations

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values


def rms_norm(
    x: Array, scale: Array | float = 1.0, begin_norm_axis: int = 1, epsilon: float = 1e-5
) -> tuple[Array, Array]:
    begin = begin_norm_axis % x.ndim
    axes = tuple(range(begin, x.ndim))
    if x.size == 0:
        return x, np.zeros(x.shape[:begin])
    inv_rms = 1 / np.sqrt((x**2).mean(axes, keepdims=True) + epsilon)
    return x * inv_rms * scale, inv_rms.reshape(x.shape[:begin])


def case(
    shape: tuple[int, ...], label: str, begin: int = 1, scaled: bool = True, **attrs: float
) -> Case:
    inputs: dict[str, Source] = {"x": Random(shape)}
    if scaled:
        inputs["scale"] = Random(shape[begin:])
    given = {"begin_norm_axis": begin, **attrs}
    return Case("rms_norm", inputs, rms_norm, given, label=label, terms=16, magnitude=4.0)


CASES = (
    *(case((3, n), str(n)) for n in LENGTHS if n > 1),
    case((3, 1), "1", epsilon=0.1),
    case((0, 4), "empty"),
    case((3, 0), "empty-rows"),
    case((3, 4), "plain", scaled=False),
    case((2, 3, 4), "last", begin=-1),
    case((2, 3, 4), "two-axes"),
    case((2, 3, 4), "all", begin=0),
    case((7, 1030), "long", epsilon=0.5),
    Case(
        "rms_norm",
        {"x": Values([[0.0, 0.0, 0.0], [1e-3, -1e-3, 2e-3]])},
        rms_norm,
        {"epsilon": 1e-2},
        label="small",
        magnitude=10.0,
    ),
)
