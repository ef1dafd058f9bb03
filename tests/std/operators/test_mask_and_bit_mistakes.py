"""Errors of bit, mask, rotation, distance and margin operators name rule, value and shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import OpwrightError

X = np.ones((2, 3), "float32")

MISTAKES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], str]] = {
    "bit_cast": (
        "bit_cast",
        (X,),
        {"dtype": "int64"},
        r"the last axis of x must be a multiple of 2 for int64, got 3",
    ),
    "bit_cast-scalar": ("bit_cast", (X[0, 0],), {"dtype": "int8"}, r"got a scalar of float32"),
    "mask": (
        "masked_sum",
        (X, np.ones(4, bool)),
        {},
        r"masked_sum: .*(mask|broadcast)",
    ),
    "mask-larger": (
        "masked_mean",
        (X, np.ones((2, 2, 3), bool)),
        {},
        r"mask must broadcast to the shape of x, \[2, 3\], got \[2, 2, 3\]",
    ),
    "rot90": ("rot90", (X,), {"axes": [0]}, r"axes must be 2 axes, got \[0\]"),
    "rot90-vector": ("rot90", (X[0],), {}, r"x must have at least 2 dimensions, got 1"),
    "diff": ("diff", (X[0, 0],), {}, r"x must have at least 1 dimension, got a scalar"),
    "diff-joined": (
        "diff",
        (X, np.ones((3, 1), "float32")),
        {},
        r"prepend must have the shape of x except along axis 1, got \[3, 1\]",
    ),
    "cdist": ("cdist", (X, X[:, :2]), {}, r"with equally many columns, got \[2, 3\] and \[2, 2\]"),
    "classes": (
        "multi_margin_loss",
        (X, np.zeros(3, "int64")),
        {},
        r"label must have the shape \[2\], got \[3\]",
    ),
    "order": ("polygamma", (X,), {"n": -1}, r"n must be in \[0, 100\], got n=-1"),
    "logspace": (
        "logspace",
        (),
        {"start": 0.0, "stop": 1.0, "num": 3, "base": -1.0},
        r"base must be greater than 0, got -1",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_error_for_a_mistake_states_the_wrong_value(name: str) -> None:
    op, arrays, attrs, text = MISTAKES[name]
    with pytest.raises(OpwrightError, match=text):
        getattr(ow.ops, op)(*arrays, **attrs)
