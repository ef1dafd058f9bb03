"""The opwright-cpu algebra kernels match NumPy for sizes near line, block and panel sizes."""

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
def test_transforms_of_many_rows_match_numpy(lines, n, dtype):
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
def test_transforms_support_any_axes(axis, norm):
    x = RNG.standard_normal((4, 6, 5, 3, 2))
    axes = [i % 5 for i in axis] or None
    np.testing.assert_allclose(
        joined(ow.ops.fftn(x, axis=axis, norm=norm)), np.fft.fftn(joined(x), axes=axes, norm=norm)
    )
    np.testing.assert_allclose(
        joined(ow.ops.ifftn(x, axis=axis, norm=norm)), np.fft.ifftn(joined(x), axes=axes, norm=norm)
    )


@pytest.mark.parametrize("op", ["fft", "rfft"])
def test_a_nan_affects_only_its_own_row(op):
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
def test_distances_between_close_vectors_have_full_precision(n, m, k, p, dtype):
    x = 1e3 + RNG.standard_normal((2, n, k)).astype(dtype)
    y = x[:1, :1] + np.finfo(dtype).eps * 1e5 * RNG.standard_normal((1, m, k)).astype(dtype)
    apart = np.abs(x[..., :, None, :].astype("float64") - y[..., None, :, :].astype("float64"))
    expected = np.sum(apart**p, -1) ** (1 / p)
    np.testing.assert_allclose(ow.ops.cdist(x, y, p=p), expected, rtol=20 * np.finfo(dtype).eps)


def distance_gradients(x, y, share, p):
    """Return the gradients of sum(share * cdist(x, y)), and expected float64 gradients."""

    def loss(x, y, share):
        return ow.ops.sum(ow.ops.multiply(ow.ops.cdist(x, y, p=p), share))

    wide_x, wide_y = x.astype("float64")[..., :, None, :], y.astype("float64")[..., None, :, :]
    apart = wide_x - wide_y
    distance = np.sum(np.abs(apart) ** p, -1, keepdims=True) ** (1 / p)
    derivative = np.sign(apart) if p == 1 else apart / np.where(distance == 0, 1, distance)
    terms = share[..., None] * derivative
    expected = []
    for sign, axis, given in ((1, -2, x), (-1, -3, y)):
        total = sign * terms.sum(axis)
        added = total.ndim - given.ndim
        stretched = [i for i in range(added, total.ndim) if given.shape[i - added] == 1]
        axes = (*range(added), *stretched)
        expected.append(total.sum(axes, keepdims=True).reshape(given.shape))
    return ow.grad(loss, (0, 1))(x, y, share), expected


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize(
    ("left", "right"), [((21, 5), (70, 5)), ((3, 1, 17, 33), (2, 65, 33)), ((1, 1), (1, 1, 1))]
)
def test_gradients_of_distances_match_sums_over_pairwise_differences(left, right, p, dtype):
    x, y = RNG.standard_normal(left).astype(dtype), RNG.standard_normal(right).astype(dtype)
    y[..., 0, :] = x[(0,) * (x.ndim - 2) + (0,)]  # equal vectors have no gradient
    share = RNG.standard_normal((*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-2]))
    share = share.astype(dtype)
    found, expected = distance_gradients(x, y, share, p)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=500 * np.finfo(dtype).eps)


@pytest.mark.parametrize("size", [1e-42, 1e-36, 1e30, 5e37])
def test_gradients_of_extreme_distances_have_the_right_direction(size):
    directions = np.array([[3.0, 4.0], [-1.0, 0.0], [0.6, -0.8]])
    x, y = (size * directions).astype("float32"), np.zeros((1, 2), "float32")
    share = np.full((3, 1), 1e-3, "float32")
    (found, _), (expected, _) = distance_gradients(x, y, share, 2.0)
    np.testing.assert_allclose(found, expected, rtol=1e-2 if size < 1e-38 else 1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_diff_matches_numpy(axis):
    x = RNG.standard_normal((5, 70, 33)).astype("float32")
    np.testing.assert_array_equal(ow.ops.diff(x, axis=axis), np.diff(x, axis=axis))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique_consecutive_finds_runs_of_equal_slices(axis):
    x = RNG.integers(0, 2, (40, 3, 2))
    out, inverse, counts = ow.ops.unique_consecutive(
        x, axis=axis, returns=("out", "inverse", "counts")
    )
    slices = (
        x.reshape(-1, 1) if axis is None else np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
    )
    begins = np.append(True, np.any(slices[1:] != slices[:-1], 1))
    expected = x.ravel()[begins] if axis is None else np.compress(begins, x, axis)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(inverse.reshape(-1), np.cumsum(begins) - 1)
    np.testing.assert_array_equal(counts, np.diff(np.flatnonzero(np.append(begins, True))))


@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
@pytest.mark.parametrize("k", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("axes", [[0, 1], [2, 0], [1, 2]])
def test_rotated_images_match_numpy(axes, k, dtype):
    x = RNG.integers(-99, 99, (19, 21, 18)).astype(dtype)
    np.testing.assert_array_equal(ow.ops.rot90(x, k=k, axes=axes), np.rot90(x, k, axes))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("n", [0, 1, 2, 37])
def test_searchsorted_of_many_values_matches_numpy(n, side):
    x = np.sort(RNG.integers(0, 9, n)).astype("float32")
    x[n - 2 :] = np.nan
    values = RNG.integers(-1, 10, 50).astype("float32")
    values[20] = np.nan
    found = ow.ops.searchsorted(x, values, side=side)
    np.testing.assert_array_equal(found, np.searchsorted(x, values, side=side))


def test_nansum_of_opposite_infinities_is_nan():
    x = np.ones((3, 700), "float32")
    x[0, 3], x[1, 5], x[2, 9] = np.inf, -np.inf, np.nan
    np.testing.assert_array_equal(ow.ops.nansum(x, axis=[1]), np.nansum(x, 1))
    assert np.isnan(ow.ops.nansum(x))
    assert np.isnan(ow.ops.nansum(x[:2], axis=[0]))[3] == np.False_


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_max_pooling_of_negative_integers_matches_numpy(dtype):
    low = 0 if dtype == "uint8" else -120
    x = RNG.integers(low, low + 50, (2, 3, 9, 40)).astype(dtype)
    out = ow.ops.max_pool2d(x, kernel=[3, 2], strides=[3, 2])
    np.testing.assert_array_equal(out, x.reshape(2, 3, 3, 3, 20, 2).max((3, 5)))


@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
def test_bool_results_remain_0_or_1(op):
    x, y = RNG.random((2, 3, 70)) < 0.5
    function = {"add": np.logical_or, "multiply": np.logical_and}.get(op) or getattr(np, op)
    found = getattr(ow.ops, op)(x, y[0])
    assert found.dtype == np.bool_
    np.testing.assert_array_equal(found.view("uint8"), function(x, y[0]).view("uint8"))


@pytest.mark.parametrize("dtype", WIDE)
def test_integer_powers_of_two_are_exact(dtype):
    least, most = (-149, 127) if dtype == "float32" else (-1074, 1023)
    x = np.arange(least, most + 1).astype(dtype)
    np.testing.assert_array_equal(ow.ops.exp2(x), np.ldexp(np.ones_like(x), x.astype("int32")))
    ends = np.array([-np.inf, least - 2, most + 1, np.inf, np.nan], dtype)
    np.testing.assert_array_equal(ow.ops.exp2(ends), np.array([0, 0, np.inf, np.inf, np.nan]))
    x = RNG.uniform(-30, 30, 1000).astype(dtype)
    wide = np.exp2(x.astype(np.longdouble))
    np.testing.assert_allclose(ow.ops.exp2(x), wide, rtol=2 * np.finfo(dtype).eps)
