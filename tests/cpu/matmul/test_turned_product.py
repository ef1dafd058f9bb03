"""Matrix products x^T y over many rows, as in the gradient of a weight."""

from __future__ import annotations

import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow

# (columns of x, columns of y, rows) with complete and partial tiles, panels and blocks; the
# opwright-cpu kernels refuse some sizes.
SIZES = [
    (16, 16, 512),
    (17, 512, 513),
    (64, 33, 700),
    (128, 384, 2048),
    (130, 100, 1000),
    (250, 80, 505),
    (252, 528, 512),
    (252, 144, 1024),
    (253, 64, 600),
    (15, 64, 600),
]


n_threads = thread_counts(1, 2, 3, 7)


def _draw(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m + n + k)
    x, y = rng.standard_normal((k, m)), rng.standard_normal((k, n))
    return x.astype("float32"), y.astype("float32")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_products_match_float64(size: tuple[int, int, int], n_threads: int) -> None:
    x, y = _draw(*size)
    wanted = x.T.astype("float64") @ y
    got = ow.ops.matmul(x, y, transpose_x=True)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("size", [(128, 384, 2048), (250, 80, 505)], ids=str)
def test_integers_are_summed_exactly(size: tuple[int, int, int], n_threads: int) -> None:
    x, y = (np.round(4 * array) for array in _draw(*size))
    got = ow.ops.matmul(x, y, transpose_x=True)
    np.testing.assert_array_equal(got, x.T.astype("float64") @ y)


def test_nan_and_infinities_affect_only_their_row_and_column() -> None:
    x, y = np.ones((600, 64), "float32"), np.ones((600, 80), "float32")
    x[3, 1], y[5, 79] = np.nan, np.inf
    out = ow.ops.matmul(x, y, transpose_x=True)
    assert np.isnan(out[1]).all()
    np.testing.assert_array_equal(np.delete(out[:, 79], 1), np.inf)
    np.testing.assert_array_equal(np.delete(out[:, :79], 1, axis=0), 600)
