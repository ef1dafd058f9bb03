"""Test cases of rotary_embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values


def rotary(
    x: Array, cos: Array, sin: Array, index: Array | None = None, interleaved: bool = False
) -> Array:
    half = cos.shape[1]
    places = np.arange(x.shape[-2]) if index is None else index
    places = np.broadcast_to(places, (x.shape[0], x.shape[-2])) if x.ndim > 2 else places
    out = x.copy()
    for at in np.ndindex(*x.shape[:-1]):
        p = places[at[0], at[-1]] if x.ndim > 2 else places[at[-1]]
        for i in range(half):
            j, k = (2 * i, 2 * i + 1) if interleaved else (i, half + i)
            z = (x[at][j] + 1j * x[at][k]) * (cos[p, i] + 1j * sin[p, i])
            out[at][j], out[at][k] = z.real, z.imag
    return out


def case(
    x: tuple[int, ...], half: int, label: str, index: Source | None = None, **attrs: Any
) -> Case:
    inputs: dict[str, Source] = {"x": Random(x), "cos": Random((9, half)), "sin": Random((9, half))}
    if index is not None:
        inputs["index"] = index
    return Case("rotary_embedding", inputs, rotary, attrs, label=label, magnitude=4.0)


CASES = (
    *(case((2, 3, 2 * n), n, f"half-{n}") for n in LENGTHS),
    *(case((2, 3, 2 * n), n, f"interleaved-{n}", interleaved=True) for n in LENGTHS),
    case((9, 6), 3, "matrix"),
    case((0, 3, 6), 3, "empty"),
    case((2, 3, 4, 7), 3, "rest"),
    case((2, 3, 4, 8), 3, "rest-interleaved", interleaved=True),
    case((2, 3, 4), 2, "positions", Values([8, 0, 3], "int64")),
    case((2, 2, 3, 4), 2, "positions-of-each", Values([[8, 0, 3], [1, 1, 2]], "int32")),
)
