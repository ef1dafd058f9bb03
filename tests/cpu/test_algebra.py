"""Kernels of opwright-cpu over many lines, blocks and panels: beside NumPy, at their edges."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow

WIDE = ("float32", "float64")
RNG = np.random.default_rng(0)


def tolerance(dtype: str, n: int) -> float:
    return float(4 * np.finfo(dtype).eps * (1 + np.log2(n)))


def joined(pairs):
    return pairs[..., 0] + 1j * pairs[..., 1]


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("n", [1, 2, 30, 49, 64, 97, 210])
@pytest.mark.parametrize("lines", [3, 8, 17])
def test_transforms_of_many_lines_are_those_of_numpy(lines, n, dtype):
    x = RNG.standard_normal((lines, n, 2)).astype(dtype)
    half = x[:, : n // 2 + 1]
    for found, expected in (
        (joined(ow.ops.fft(x)), np.fft.fft(joined(x))),
        (joined(ow.ops.ifft(x)), np.fft.ifft(joined(x))),
        (joined(ow.ops.rfft(x[..., 0])), np.fft.rfft(x[..., 0])),
        (ow.ops.irfft(half, n=n), np.fft.irfft(joined(half), n)),
    ):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance(dtype, n) * scale)


@pytest.mark.parametrize("axis", [[], [0], [2, -5], [1, 3]])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_axes_of_transforms_may_lie_anywhere(axis, norm):
    x = RNG.standard_normal((4, 6, 5, 3, 2))
    axes = [i % 5 for i in axis] or None
    np.testing.assert_allclose(
        joined(ow.ops.fftn(x, axis=axis, norm=norm)), np.fft.fftn(joined(x), axes=axes, norm=norm)
    )
    np.testing.assert_allclose(
        joined(ow.ops.ifftn(x, axis=axis, norm=norm)), np.fft.ifftn(joined(x), axes=axes, norm=norm)
    )


@pytest.mark.parametrize("op", ["fft", "rfft"])
def test_what_is_no_number_stays_in_its_line(op):
    x = RNG.standard_normal((20, 64) if op == "rfft" else (20, 64, 2)).astype("float32")
    broken = x.copy()
    broken[5, 7] = np.nan
    whole, found = getattr(ow.ops, op)(x), getattr(ow.ops, op)(broken)
    others = np.arange(20) != 5
    np.testing.assert_array_equal(found[others], whole[others])
    assert np.isnan(found[5]).all()


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_systems_of_several_blocks_are_solved(dtype, left, upper, transpose, unit):
    a = (np.abs(RNG.standard_normal((2, 1, 70, 70))) / 70 + np.eye(70)).astype(dtype)
    b = RNG.standard_normal((1, 3, 70, 90) if left else (1, 3, 90, 70)).astype(dtype)
    attrs = {"left": left, "upper": upper, "transpose": transpose, "unit_diagonal": unit}
    found = ow.ops.triangular_solve(a, b, **attrs)
    matrix = np.triu(a) if upper else np.tril(a)
    matrix = matrix * (1 - np.eye(70)) + np.eye(70) if unit else matrix
    matrix = matrix.swapaxes(-1, -2) if transpose else matrix
    product = matrix @ found if left else found @ matrix
    wanted = np.broadcast_to(b, product.shape)
    np.testing.assert_allclose(product, wanted, rtol=0, atol=200 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize(("n", "m", "k"), [(1, 1, 3), (5, 33, 7), (9, 40, 0), (4, 32, 1)])
def test_distances_of_close_vectors_keep_their_digits(n, m, k, p, dtype):
    x = 1e3 + RNG.standard_normal((2, n, k)).astype(dtype)
    y = x[:1, :1] + np.finfo(dtype).eps * 1e5 * RNG.standard_normal((1, m, k)).astype(dtype)
    apart = np.abs(x[..., :, None, :].astype("float64") - y[..., None, :, :].astype("float64"))
    expected = np.sum(apart**p, -1) ** (1 / p)
    np.testing.assert_allclose(ow.ops.cdist(x, y, p=p), expected, rtol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
@pytest.mark.parametrize("k", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("axes", [[0, 1], [2, 0], [1, 2]])
def test_turned_images_are_those_of_numpy(axes, k, dtype):
    x = RNG.integers(-99, 99, (19, 21, 18)).astype(dtype)
    np.testing.assert_array_equal(ow.ops.rot90(x, k=k, axes=axes), np.rot90(x, k, axes))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_the_greatest_whole_number_of_a_window_may_be_below_0(dtype):
    low = 0 if dtype == "uint8" else -120
    x = RNG.integers(low, low + 50, (2, 3, 9, 40)).astype(dtype)
    out = ow.ops.max_pool2d(x, kernel=[3, 2], strides=[3, 2])
    np.testing.assert_array_equal(out, x.reshape(2, 3, 3, 3, 20, 2).max((3, 5)))
