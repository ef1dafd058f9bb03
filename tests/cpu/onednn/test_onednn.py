"""Tests the oneDNN kernels with large sizes, several threads, and forked processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow
from opwright.kernel import Refuse
from opwright_kit.testing import Sample, run_kernel

rng = np.random.default_rng(11)


def call(
    op: str,
    inputs: Mapping[str, np.ndarray],
    attrs: Mapping[str, Any],
    library: str,
    slot: str = "out",
) -> Any:
    """Return one output of an operator, computed by the kernel of a given library."""
    context = ow.current_context().with_pins({op: library})
    block = ow.Program().global_block()
    for name, array in inputs.items():
        block.create_var(name, array.shape, array.dtype.name)
    made = block.append_op(op, {name: name for name in inputs}, attrs=dict(attrs))
    with ow.context_guard(context):
        return ow.Network(block).compile(feed=list(inputs), fetch=[made.output(slot)[0]])(**inputs)[
            0
        ]


n_threads = thread_counts(1, 2, 5)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)


PRODUCTS = [
    ((3, 130), (130, 70), {}),
    ((131, 129), (129, 67), {}),
    ((300, 257), (257, 530), {}),
    ((129, 131), (67, 129), {"transpose_x": True, "transpose_y": True}),
    ((1, 500), (500, 333), {}),
    ((1, 500), (333, 500), {"transpose_y": True}),
    ((500,), (500, 333), {}),
    ((333, 500), (500,), {}),
    ((500, 333), (500,), {"transpose_x": True}),
    ((6, 33, 40), (6, 40, 50), {}),
    ((6, 1, 33, 40), (5, 40, 50), {}),
    ((5, 1, 40), (3, 1, 40, 50), {}),
]


@pytest.mark.parametrize(("x", "y", "attrs"), PRODUCTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_matrix_products_of_every_shape_match_numpy(x, y, attrs, dtype, n_threads):
    inputs = {"x": numbers(*x, dtype=dtype), "y": numbers(*y, dtype=dtype)}
    got, wanted = (call("matmul", inputs, attrs, library) for library in ("onednn", "numpy"))
    if np.dtype(dtype).kind != "f":
        np.testing.assert_array_equal(got, wanted)
        return
    tolerance = 40 * np.finfo(dtype).eps
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * 30)


@pytest.mark.parametrize(("rows", "columns"), [(300, 70), (9, 530), (64, 64)])
@pytest.mark.parametrize("op", ["fc", "matmul"])
def test_products_with_a_packed_factor_match_numpy(rows, columns, op, n_threads):
    x, kept = numbers(rows, 257), numbers(257, columns)
    block, scope = ow.Program().global_block(), ow.Scope()
    block.create_var("x", x.shape, "float32")
    block.create_var("kept", kept.shape, "float32", persistable=True)
    scope.var("kept").set(kept)
    made = block.append_op(op, {"x": "x", "weight" if op == "fc" else "y": "kept"})
    with ow.context_guard(ow.current_context().with_pins({op: "onednn"})):
        run = ow.Network(block).compile(feed=["x"], fetch=[made.output("out")[0]], scope=scope)
        for factor in (kept, 2 * kept):
            scope.var("kept").set(factor)
            np.testing.assert_allclose(run(x=x)[0], x @ factor, rtol=1e-4, atol=1e-3)


IMAGES = {"NCHW": (4, 6, 40, 37), "NHWC": (4, 40, 37, 6)}
POOLS = {
    "max_pool2d": {"kernel": [3, 2], "strides": [2, 3], "paddings": [1, 2, 0, 1]},
    "avg_pool2d": {"kernel": [3, 2], "paddings": [1, 2, 0, 1], "ceil_mode": True},
    "adaptive_avg_pool2d": {"output_size": [7, 11]},
}


@pytest.mark.parametrize("data_format", IMAGES)
@pytest.mark.parametrize("op", POOLS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pooling_of_large_images_matches_numpy(op, data_format, dtype, n_threads):
    inputs = {"x": numbers(*IMAGES[data_format], dtype=dtype)}
    attrs = {**POOLS[op], "data_format": data_format}
    got, wanted = (call(op, inputs, attrs, library) for library in ("onednn", "numpy"))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("channels", [5, 16, 20, 50])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_max_pooling_of_many_channels_selects_the_first_maximum_or_nan(channels, dtype):
    x = rng.integers(0, 4, (2, 9, 7, channels)).astype(dtype)
    x[rng.random(x.shape) < 0.1] = np.nan
    attrs = POOLS["max_pool2d"] | {"data_format": "NHWC"}
    for slot in ("out", "index"):
        got, wanted = (
            call("max_pool2d", {"x": x}, attrs, lib, slot) for lib in ("onednn", "numpy")
        )
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("data_format", IMAGES)
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_convolutions_of_large_images_match_numpy(data_format, groups, n_threads):
    inputs = {
        "x": numbers(*IMAGES[data_format]),
        "weight": numbers(12, 6 // groups, 5, 3),
        "bias": numbers(12),
    }
    attrs = {"data_format": data_format, "groups": groups, "paddings": [2, 1, 0, 1]}
    got, wanted = (call("conv2d", inputs, attrs, library) for library in ("onednn", "numpy"))
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


FEW_IMAGES = [
    (
        (1, 40, 37, 6),
        (24, 6, 5, 3),
        {"strides": [2, 1], "dilations": [2, 1], "paddings": [3, 1, 0, 1]},
    ),
    ((1, 33, 31, 40), (24, 40, 1, 1), {}),
    ((2, 33, 31, 40), (24, 20, 1, 1), {"groups": 2}),
    ((1, 33, 31, 40), (24, 40, 1, 1), {"strides": [2, 2]}),
    ((3, 41, 30, 32), (32, 1, 3, 3), {"groups": 32, "paddings": [1, 1, 1, 1]}),
    ((1, 4, 64, 32), (16, 32, 5, 5), {"paddings": [2, 2, 2, 2]}),
    ((1, 40, 37, 16), (16, 16, 1, 1), {"paddings": [2, 3, 0, 0]}),
    ((1, 9, 20, 21, 8), (16, 8, 3, 3, 3), {"paddings": [1, 0, 1, 1, 0, 0]}),
]


@pytest.mark.parametrize(("images", "weight", "attrs"), FEW_IMAGES)
def test_rows_are_divided_among_threads_if_there_are_fewer_images_than_threads(
    images, weight, attrs, n_threads
):
    is_flat = len(images) == 4
    attrs = {**attrs, "data_format": "NHWC" if is_flat else "NDHWC"}
    inputs = {"x": numbers(*images), "weight": numbers(*weight), "bias": numbers(weight[0])}
    op = "conv2d" if is_flat else "conv3d"
    got, wanted = (call(op, inputs, attrs, library) for library in ("onednn", "numpy"))
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


# The last case has too many weights for separate sums in each thread.
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("channels", "groups", "filters"), [(20, 1, 8), (16, 1, 8), (20, 2, 8), (96, 1, 240)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_convolution_gradients_match_numpy(
    data_format, channels, groups, filters, dtype, n_threads
):
    shape = (5, channels, 11, 9) if data_format == "NCHW" else (5, 11, 9, channels)
    feeds = {
        "x": numbers(*shape, dtype=dtype),
        "weight": numbers(filters, channels // groups, 3, 4, dtype=dtype),
        "bias": numbers(filters, dtype=dtype),
    }
    attrs = {"data_format": data_format, "groups": groups, "paddings": [2, 1, 0, 3]}
    attrs |= {"strides": [2, 1], "dilations": [1, 2]}
    block = ow.Program().global_block()
    inputs = {
        name: block.create_var(name, array.shape, dtype, stop_gradient=False)
        for name, array in feeds.items()
    }
    made = block.append_op("conv2d", inputs, attrs=attrs)
    squares = block.append_op("square", {"x": made.output("out")[0]})
    pairs = ow.append_backward([block.var(squares.output("out")[0])], list(inputs.values()))
    results = []
    for library in ("onednn", "numpy"):
        context = ow.current_context().with_pins({"conv2d_grad": library, "conv2d": library})
        with ow.context_guard(context):
            network = ow.Network(block)
            run = network.compile(feed=list(feeds), fetch=[g for _, g in pairs], passes=[])
            results.append(run(**feeds))
    for got, wanted in zip(*results, strict=True):
        tolerance = 200 * np.finfo(dtype).eps
        size = float(np.abs(wanted).max())
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * size)


needs_bfloat16 = pytest.mark.skipif(
    "avx512bw" not in Path("/proc/cpuinfo").read_text(),
    reason="oneDNN computes bfloat16 with AVX-512, which this processor lacks",
)


@needs_bfloat16
def test_a_gradient_that_onednn_computes_wrongly_is_declined() -> None:
    x, weight, out_grad = (
        np.ones(shape, ml_dtypes.bfloat16) for shape in ((3, 1, 1, 1), (3, 1, 1, 1), (3, 3, 1, 1))
    )
    sample = Sample(
        "conv2d_grad",
        {"x": (x,), "weight": (weight,), "out_grad": (out_grad,)},
        ow.current_context().ops.get("conv2d_grad").proto.fill_attrs({"strides": [1, 2]}),
        {"x_grad": 0, "weight_grad": 1, "bias_grad": 0},
    )
    entries = ow.current_context().kernels.entries("conv2d_grad")
    onednn = next(e for e in entries if (e.library, e.dtype) == ("onednn", "bfloat16"))
    with pytest.raises(Refuse, match="strides beyond the kernel over a column of one channel"):
        run_kernel(onednn, sample)


def widen(array: np.ndarray) -> np.ndarray:
    return array.astype("float32")


@needs_bfloat16
@pytest.mark.parametrize("op", ["matmul", "fc", "conv2d"])
def test_bfloat16_results_are_accurate_to_bfloat16_precision(op):
    shapes = {
        "matmul": {"x": (20, 30), "y": (30, 10)},
        "fc": {"x": (20, 30), "weight": (30, 10), "bias": (10,)},
        "conv2d": {"x": (2, 3, 9, 8), "weight": (5, 3, 3, 3)},
    }[op]
    inputs = {name: numbers(*shape).astype(ml_dtypes.bfloat16) for name, shape in shapes.items()}
    got = widen(call(op, inputs, {}, "onednn"))
    wide = {name: widen(array) for name, array in inputs.items()}
    wanted = call(op, wide, {}, "onednn")
    np.testing.assert_allclose(got, wanted, rtol=2**-7, atol=2**-6)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("shape", [(3, 5, 7), (4, 1, 1), (9, 49, 200), (37, 130, 51), (300, 7, 17)])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_integer_products_wrap_around_as_in_numpy(
    dtype: str, shape: tuple[int, int, int], turned: tuple[bool, bool]
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m)
    limits = np.iinfo(dtype)
    x, y = (rng.integers(limits.min, limits.max, s, dtype, endpoint=True) for s in ((m, k), (k, n)))
    given = [a.T.copy() if turn else a for a, turn in zip((x, y), turned, strict=True)]
    out = ow.ops.matmul(*given, transpose_x=turned[0], transpose_y=turned[1])
    np.testing.assert_array_equal(out, x @ y)


def test_a_forked_child_computes_the_same_convolution():
    ow.set_num_threads(2)
    inputs = {"x": numbers(2, 16, 40, 40), "weight": numbers(16, 16, 3, 3)}
    wanted = call("conv2d", inputs, {}, "onednn")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            again = call("conv2d", inputs, {}, "onednn")
            code = 0 if np.allclose(again, wanted, rtol=1e-4, atol=1e-4) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
