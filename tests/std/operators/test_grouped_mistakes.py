"""Errors of grouped products: offsets are checked before any memory access, shapes before a run."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import OpwrightError, ShapeError

X = np.ones((6, 4), np.float32)
Y = np.ones((6, 5), np.float32)
WEIGHT = np.ones((3, 4, 5), np.float32)
ENDS = np.array([1, 3, 6])

OFFSETS: list[tuple[list[int], str]] = [
    ([-1, 3, 6], "got -1 at 0"),
    ([4, 3, 6], "got 3 at 1"),
    ([0, 3, 7], "got 7 at 2"),
    ([9, 9, 9], "got 9 at 0"),
    ([0, -(2**31), 6], f"got {-(2**31)} at 1"),
]

SHAPES: list[tuple[str, tuple[Any, ...], str]] = [
    ("grouped_matmul", (X[0], WEIGHT, ENDS), "x must be [n, k], got [4]"),
    ("grouped_matmul", (X, WEIGHT[0], ENDS), "weight must be [groups, k, m], got [4, 5]"),
    ("grouped_matmul", (Y, WEIGHT, ENDS), "the inner dimensions must be equal, got 5 and 4"),
    ("grouped_matmul", (X, WEIGHT, ENDS[:2]), "an element for each matrix of weight, got [2]"),
    ("grouped_matmul", (X, WEIGHT, ENDS[:, None]), "offsets must be [groups], got [3, 1]"),
    ("grouped_outer", (X, Y[:5], ENDS), "x must be [n, k] and y [n, m], got [6, 4] and [5, 5]"),
    ("grouped_outer", (X, Y, ENDS[:, None]), "offsets must be [groups], got [3, 1]"),
]


@pytest.mark.parametrize("library", ["onednn", "numpy"])
@pytest.mark.parametrize("op", ["grouped_matmul", "grouped_outer"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(("offsets", "message"), OFFSETS)
def test_offsets_outside_the_rows_or_not_ascending_are_refused(
    offsets: list[int], message: str, dtype: str, op: str, library: str
) -> None:
    other = WEIGHT if op == "grouped_matmul" else Y
    match = re.escape(f"offsets must ascend in [0, 6], {message}; pass the row at which each group")
    with ow.current_context().pin(op, library), pytest.raises(OpwrightError, match=match):
        getattr(ow.ops, op)(X, other, np.array(offsets, dtype))


@pytest.mark.parametrize(("op", "arrays", "message"), SHAPES)
def test_the_error_for_a_wrong_shape_states_the_shape(
    op: str, arrays: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ShapeError, match=rf"{op}: .*{re.escape(message)}"):
        getattr(ow.ops, op)(*arrays)
