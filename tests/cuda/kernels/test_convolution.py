"""Tests opwright's convolution and pooling kernels on a GPU for all tiles and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from calls import call

import opwright as ow
from opwright.op import dtype_to_numpy
from opwright_cuda.kernels import convolution

pytestmark = [pytest.mark.cuda_kernels, pytest.mark.grid(3)]

FLOATS = ("float16", "bfloat16", "float32", "float64")
FORMATS = ("NCHW", "NHWC")
RNG = np.random.default_rng(11)


def whole(shape: tuple[int, ...], data_format: str = "NCHW", most: int = 2) -> Any:
    """Return images of small integers with shape [n, channels, height, width], in `data_format`."""
    images = RNG.integers(-most, most + 1, shape).astype(np.float64)
    return np.moveaxis(images, 1, 3) if data_format == "NHWC" else images


def call_own(op_type: str, inputs: dict[str, Any], outputs: str, **attrs: Any) -> list[Any]:
    """Return the results of the opwright kernels, even if cuDNN is installed."""
    with ow.context_guard(ow.current_context().with_pins({op_type: "native"})):
        return call(op_type, inputs, outputs, **attrs)


def on_both(
    op_type: str, inputs: dict[str, Any], outputs: str, dtype: str, **attrs: Any
) -> list[tuple[Any, Any]]:
    """Return the GPU results in a dtype, and the NumPy results in double precision."""
    kind = dtype_to_numpy(dtype)
    narrow = {s: a.astype(kind) if a.dtype.kind == "f" else a for s, a in inputs.items()}
    got = call_own(op_type, narrow, outputs, **attrs)
    with ow.context_guard(ow.current_context().with_pins({op_type: "numpy"})):
        right = call(op_type, inputs, outputs, device="cpu", **attrs)
    return list(zip(got, right, strict=True))


def check(pairs: list[tuple[Any, Any]], dtype: str) -> None:
    for got, right in pairs:
        if right.dtype.kind == "f":
            assert got.dtype == dtype_to_numpy(dtype)
        np.testing.assert_array_equal(got, right.astype(got.dtype))


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    # This case has two tiles of windows, two tiles of filters, and three steps over the taps.
    ((2, 5, 7, 7), (70, 5, 3, 3), {"paddings": [1, 1, 1, 1]}),
    # This case has two flat tiles of windows, two tiles of pixels, and two tiles of taps.
    ((2, 20, 10, 10), (5, 20, 3, 3), {"paddings": [1, 1, 1, 1]}),
    # Two channel tiles.
    ((1, 66, 3, 4), (4, 66, 1, 1), {}),
    ((1, 66, 5, 5), (3, 66, 2, 1), {"strides": [2, 3], "dilations": [2, 1]}),
    ((2, 6, 6, 9), (9, 2, 3, 2), {"groups": 3, "strides": [2, 1], "paddings": [2, 0, 1, 1]}),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(("x", "weight", "attrs"), CONVOLUTIONS, ids=str)
def test_convolution_and_its_gradient_in_several_tiles_match_numpy(
    x: Any, weight: Any, attrs: dict[str, Any], data_format: str, dtype: str
) -> None:
    attrs = {**attrs, "data_format": data_format}
    given = {"x": whole(x, data_format), "weight": whole(weight), "bias": whole(weight[:1])}
    pairs = on_both("conv2d", given, "out", dtype, **attrs)
    check(pairs, dtype)
    given["out_grad"] = RNG.integers(-1, 2, pairs[0][1].shape).astype(np.float64)
    check(on_both("conv2d_grad", given, "x_grad weight_grad bias_grad", dtype, **attrs), dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("data_format", FORMATS)
def test_weight_gradients_that_are_summed_in_parts_match_numpy(
    data_format: str, dtype: str
) -> None:
    windows = 2 * 19 * 21
    assert windows > 3 * convolution.PART_STEPS
    attrs = {"data_format": data_format, "paddings": [1, 1, 1, 1], "groups": 2}
    given = {
        "x": whole((2, 2, 19, 21), data_format, 1),
        "weight": whole((38, 1, 3, 3)),
        "bias": whole((38,)),
        "out_grad": whole((2, 38, 19, 21), data_format, 1),
    }
    check(on_both("conv2d_grad", given, "weight_grad bias_grad", dtype, **attrs), dtype)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("data_format", FORMATS)
def test_convolutions_with_long_sums_and_few_outputs_match_numpy(
    data_format: str, dtype: str
) -> None:
    attrs = {"data_format": data_format, "groups": 2, "paddings": [1, 0, 0, 1]}
    assert 2 * convolution.PART_STEPS < 90 * 6 < 100 * 6
    given = {
        "x": whole((1, 180, 3, 4), data_format, 1),
        "weight": RNG.integers(0, 2, (200, 90, 2, 3)) * RNG.choice([-1.0, 1.0], (200, 1, 1, 1)),
        "bias": whole((200,)),
    }
    pairs = on_both("conv2d", given, "out", dtype, **attrs)
    check(pairs, dtype)
    given["out_grad"] = RNG.integers(-1, 2, pairs[0][1].shape).astype(np.float64)
    check(on_both("conv2d_grad", given, "x_grad", dtype, **attrs), dtype)


def test_two_runs_of_the_gradient_are_bitwise_identical() -> None:
    given = {
        "x": RNG.standard_normal((2, 3, 20, 20)).astype(np.float32),
        "weight": RNG.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "out_grad": RNG.standard_normal((2, 4, 18, 18)).astype(np.float32),
    }
    first, second = (call_own("conv2d_grad", given, "x_grad weight_grad") for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert one.tobytes() == other.tobytes()


def average(x: Any, dtype: str, **attrs: Any) -> list[tuple[Any, Any]]:
    return on_both("avg_pool2d", {"x": x}, "out", dtype, **attrs)


def adapted(x: Any, dtype: str, **attrs: Any) -> list[tuple[Any, Any]]:
    return on_both("adaptive_avg_pool2d", {"x": x}, "out", dtype, **attrs)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(
    ("pool", "attrs"),
    [
        # Windows of 64 elements; a warp sums each window.
        (average, {"kernel": [4, 16], "strides": [1, 8], "paddings": [2, 3, 0, 7]}),
        (average, {"kernel": [8, 8], "count_include_pad": True, "paddings": [1, 1, 7, 0]}),
        (average, {"kernel": [16, 16], "ceil_mode": True, "strides": [5, 7]}),
        (adapted, {"output_size": [1, 1]}),
        (adapted, {"output_size": [2, 3]}),
        (average, {"kernel": [2, 2]}),
    ],
)
def test_average_pooling_of_large_windows_matches_numpy(
    pool: Callable[..., Any], attrs: dict[str, Any], data_format: str, dtype: str
) -> None:
    ((got, right),) = pool(
        whole((2, 3, 18, 17), data_format), dtype, data_format=data_format, **attrs
    )
    assert got.dtype == dtype_to_numpy(dtype)
    eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-21, "float64": 2.0**-50}
    np.testing.assert_allclose(got.astype(np.float64), right, rtol=eps[dtype], atol=eps[dtype] / 8)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("data_format", FORMATS)
def test_max_pooling_and_its_gradient_match_numpy(data_format: str, dtype: str) -> None:
    attrs = {"kernel": [3, 2], "strides": [1, 2], "paddings": [1, 1, 0, 1]}
    attrs = {**attrs, "data_format": data_format}
    x = whole((3, 5, 9, 11), data_format)  # contains many equal values
    pairs = on_both("max_pool2d", {"x": x}, "out index", dtype, **attrs)
    check(pairs, dtype)
    out_grad = RNG.integers(-3, 4, pairs[0][1].shape).astype(np.float64)
    given = {"x": x, "index": pairs[1][1], "out_grad": out_grad}
    check(on_both("max_pool2d_grad", given, "x_grad", dtype, **attrs), dtype)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(
    ("op_type", "attrs"),
    [
        ("avg_pool2d", {"kernel": [4, 4], "strides": [2, 1], "paddings": [1, 2, 3, 0]}),
        ("adaptive_avg_pool2d", {"output_size": [4, 8]}),
    ],
)
def test_gradients_of_average_pooling_match_numpy(
    op_type: str, attrs: dict[str, Any], data_format: str
) -> None:
    attrs = {**attrs, "data_format": data_format}
    x = whole((2, 3, 9, 7), data_format)
    ((out, _),) = on_both(op_type, {"x": x}, "out", "float64", **attrs)
    given = {"x": x, "out_grad": RNG.standard_normal(out.shape)}
    ((got, right),) = on_both(f"{op_type}_grad", given, "x_grad", "float64", **attrs)
    np.testing.assert_allclose(got, right, rtol=1e-13, atol=1e-14)
