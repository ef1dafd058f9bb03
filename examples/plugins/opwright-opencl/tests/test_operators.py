"""Compares kernels with host kernels, for sizes and axis orders that are hard for a device."""

from __future__ import annotations

import numpy as np
import pytest

DRAW = np.random.default_rng(1)


def draw(*shape, dtype="float32"):
    return DRAW.uniform(-2, 2, shape).astype(dtype)


@pytest.mark.parametrize(
    ("x", "y", "turned"),
    [
        ((33, 65), (65, 31), ()),
        ((32, 32), (32, 32), ("x", "y")),
        ((65, 4), (65, 33), ("x",)),
        ((2, 3, 5), (4, 5), ("y",)),
        ((2, 3, 5), (2, 5, 4), ()),
        ((3, 5), (2, 5, 4), ()),
        ((4, 0), (0, 3), ()),
        ((7,), (7,), ()),
    ],
)
def test_products_handle_sizes_that_do_not_fill_a_tile(both, x, y, turned):
    arrays = {"x": draw(*x), "y": draw(*y)}
    both("matmul", arrays, transpose_x="x" in turned, transpose_y="y" in turned)


def test_all_kernels_compile_for_double_precision(both, device):
    if not device.has_double:
        pytest.skip("the device has no float64")
    both("matmul", {"x": draw(33, 40, dtype="float64"), "y": draw(40, 35, dtype="float64")})
    both("softmax", {"x": draw(3, 70, dtype="float64")})


@pytest.mark.parametrize("activation", ["", "relu", "sigmoid", "tanh"])
def test_fc_computes_product_bias_and_activation(both, activation):
    layer = {"x": draw(5, 4, 3), "weight": draw(12, 40), "bias": draw(40)}
    both("fc", layer, activation=activation)
    layer["weight"] = draw(40, 12)
    both("fc", layer, activation=activation, transpose_weight=True)


@pytest.mark.parametrize(
    ("x", "y"),
    [((64, 200), (200,)), ((4, 1), (1, 5)), ((2, 3, 4, 5), (3, 1, 5)), ((), (7,)), ((0, 5), (5,))],
)
def test_operands_broadcast(both, x, y):
    both("subtract", {"x": draw(*x), "y": draw(*y)})
    both("divide", {"x": draw(*y), "y": 3 + draw(*x)})


@pytest.mark.parametrize("op_type", ["sum", "mean"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((100_000,), []),
        ((3, 20_000), [1]),
        ((20_000, 3), [0]),
        ((70, 33), [0]),
        ((4, 5, 6), [1, 2]),
        ((4, 1, 6), [0, 2]),
        ((5, 0), [1]),
    ],
)
def test_reductions_add_every_element_once(both, op_type, shape, axis):
    with np.errstate(invalid="ignore"):
        both(op_type, {"x": draw(*shape)}, axis=axis)


@pytest.mark.parametrize(("shape", "axis"), [((64, 10), -1), ((2, 10, 3), 1), ((3, 700), -1)])
def test_losses_and_their_gradients_work_along_any_axis(both, shape, axis):
    kept = [dim for place, dim in enumerate(shape) if place != axis % len(shape)]
    label = DRAW.integers(0, 10, kept)
    label.flat[0] = 3
    scores = {"logits": draw(*shape), "label": label}
    outputs = ("out", "softmax")
    both("softmax_with_cross_entropy", scores, outputs, axis=axis, ignore_index=3)
    given = {**scores, "softmax": np.abs(draw(*shape)), "out_grad": draw(*kept)}
    options = {"axis": axis, "ignore_index": 3}
    both("softmax_with_cross_entropy_grad", given, ("logits_grad",), **options)
    both("softmax", {"x": draw(*shape)}, axis=axis)


def test_infinities_and_nan_match_the_host(both):
    lines = np.array([[1, -np.inf, 2], [np.nan, 1, 2], [np.inf, 1, 2], [-np.inf] * 3], np.float32)
    both("softmax", {"x": lines})
    both("relu", {"x": lines})


def test_values_smaller_than_epsilon_have_no_gradient(both):
    x = np.array([[0.25, 0.75], [1e-9, 1]], np.float32)
    given = {"x": x, "label": np.array([1, 0], np.int32)}
    both("cross_entropy", given, epsilon=1e-6)
    grads = {**given, "out_grad": np.float32([2, 3])}
    both("cross_entropy_grad", grads, ("x_grad",), epsilon=1e-6)
