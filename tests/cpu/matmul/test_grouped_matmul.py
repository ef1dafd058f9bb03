"""Grouped matrix products are divided among threads by rows or by columns."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow

# (rows, inner dimension, columns, groups), with enough work for several threads.
SIZES = [(700, 60, 33, 5), (300, 40, 400, 3), (1000, 130, 17, 64), (65, 500, 640, 8)]
DTYPES = {"float32": 2e-6, "float64": 1e-13, "float16": 1e-3, "bfloat16": 8e-3}
"""The tolerance in each dtype, relative to the largest number."""

n_threads = thread_counts(1, 2, 3, 7)


def _draw(size: tuple[int, ...], dtype: str) -> tuple[np.ndarray, ...]:
    rows, k, m, groups = size
    rng = np.random.default_rng(rows + k)
    shapes = ((rows, k), (rows, m), (groups, k, m))
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    arrays = [rng.standard_normal(shape).astype(kind) for shape in shapes]
    return *arrays, np.sort(rng.integers(0, rows, groups))


def _groups(array: np.ndarray, offsets: np.ndarray) -> list[np.ndarray]:
    return np.split(array.astype("f8"), offsets)


def _check(got: np.ndarray, wanted: np.ndarray, dtype: str) -> None:
    largest = np.abs(wanted).max()
    np.testing.assert_allclose(got.astype("f8") / largest, wanted / largest, atol=DTYPES[dtype])


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_of_groups_match_float64(
    size: tuple[int, ...], dtype: str, transpose: bool, n_threads: int
) -> None:
    x, _, weight, offsets = _draw(size, dtype)
    *groups, rest = _groups(x, offsets)
    products = [group @ matrix for group, matrix in zip(groups, weight.astype("f8"), strict=True)]
    wanted = np.concatenate([*products, np.zeros((len(rest), size[2]))])
    if transpose:
        weight = weight.swapaxes(1, 2).copy()
    got = ow.ops.grouped_matmul(x, weight, offsets, transpose_weight=transpose)
    _check(got, wanted, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_outer_products_of_groups_match_float64(
    size: tuple[int, ...], dtype: str, n_threads: int
) -> None:
    x, y, _, offsets = _draw(size, dtype)
    pairs = zip(_groups(x, offsets)[:-1], _groups(y, offsets)[:-1], strict=True)
    wanted = np.stack([left.T @ right for left, right in pairs])
    _check(ow.ops.grouped_outer(x, y, offsets), wanted, dtype)
