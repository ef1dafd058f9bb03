"""Test cases of nonzero."""

from __future__ import annotations

import numpy as np
from case import FLOATS, INTS, LENGTHS, WIDE, Array, Case, Random, Source, Values


def nonzero(x: Array) -> Array:
    return np.argwhere(x).T


def case(x: Source, label: str, dtypes: tuple[str, ...] = WIDE) -> Case:
    return Case("nonzero", {"x": x}, nonzero, dtypes=dtypes, label=label)


CASES = (
    case(Values([[0, 1, 0], [2, 0, 3]]), "matrix", (*FLOATS, *INTS)),
    case(Values([[True, False], [False, True]]), "bool", ("bool",)),
    case(Values([0.0, 0.0]), "none"),
    case(Values([np.nan, -0.0, np.inf, 1e-30]), "special"),
    case(Values([[[0, 1]], [[1, 1]]]), "stack"),
    case(Random((0, 3)), "empty"),
    *(case(Random((n,), dtype="bool"), f"length-{n}", ("bool",)) for n in LENGTHS),
)
