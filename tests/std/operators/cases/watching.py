"""Test cases of print and assert_true."""

from __future__ import annotations

import numpy as np
from case import FLOATS, LENGTHS, Array, Case, Random, Values


def print_(x: Array, message: str = "", limit: int = 1000) -> Array:
    return x


def assert_true(condition: Array, message: str = "") -> tuple[()]:
    return ()


CASES = (
    *(
        Case("print", {"x": Random((n,))}, print_, dtypes=FLOATS, label=str(n), attrs={"limit": 4})
        for n in LENGTHS
    ),
    Case("print", {"x": Random(())}, print_, label="number", attrs={"message": "x"}),
    *(
        Case(
            "assert_true",
            {"condition": Values(np.ones((2, n), np.bool_))},
            assert_true,
            dtypes=("bool",),
            label=str(n),
        )
        for n in (0, 1, 33)
    ),
)
