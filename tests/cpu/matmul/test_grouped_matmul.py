"""Products of groups of rows, divided among threads by rows or by columns."""

from __future__ import annotations

import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow

# (rows, inner dimension, columns, groups), with enough work for several threads.
SIZES = [(700, 60, 33, 5), (300, 40, 400, 3), (1000, 130, 17, 64), (65, 500, 640, 8)]

n_threads = thread_counts(1, 2, 3, 7)


def _draw(rows: int, k: int, m: int, groups: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(rows + k)
    x, y = rng.standard_normal((rows, k)), rng.standard_normal((rows, m))
    offsets = np.sort(rng.integers(0, rows, groups))
    return x.astype("f4"), y.astype("f4"), rng.standard_normal((groups, k, m), "f4"), offsets


def _groups(array: np.ndarray, offsets: np.ndarray) -> list[np.ndarray]:
    return np.split(array.astype("f8"), offsets)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_of_groups_match_float64(
    size: tuple[int, int, int, int], transpose: bool, n_threads: int
) -> None:
    x, _, weight, offsets = _draw(*size)
    *groups, rest = _groups(x, offsets)
    wanted = np.concatenate([*map(np.matmul, groups, weight), np.zeros((len(rest), size[2]))])
    if transpose:
        weight = weight.swapaxes(1, 2).copy()
    got = ow.ops.grouped_matmul(x, weight, offsets, transpose_weight=transpose)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_outer_products_of_groups_match_float64(
    size: tuple[int, int, int, int], n_threads: int
) -> None:
    x, y, _, offsets = _draw(*size)
    pairs = zip(_groups(x, offsets)[:-1], _groups(y, offsets)[:-1], strict=True)
    wanted = np.stack([left.T @ right for left, right in pairs])
    got = ow.ops.grouped_outer(x, y, offsets)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-6 * np.abs(wanted).max())
