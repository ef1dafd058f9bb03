"""Attribute values that only some kernels support, and the errors of the other kernels."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelNotFoundError, OpwrightError

IMAGE = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
BOX = np.array([[0.5, 0.5, 2.5, 1.5]], np.float32)
FIRST = np.array([0])


def test_roi_align_in_max_mode_returns_the_largest_weighted_pixel() -> None:
    got = ow.ops.roi_align(IMAGE, BOX, FIRST, output_size=[1, 1], sampling_ratio=1, mode="max")
    # The sample is at row 1, column 1.5, so the pixels 5 and 6 each have the weight 0.5.
    assert got.item() == 3.0


def test_the_gradient_in_max_mode_is_scaled_by_the_weight_of_the_pixel() -> None:
    attrs = {"output_size": [1, 1], "sampling_ratio": 1, "mode": "max"}

    def loss(x):
        return ow.ops.sum(ow.ops.square(ow.ops.roi_align(x, BOX, FIRST, **attrs)))

    expected = np.zeros(IMAGE.shape)
    expected[0, 0, 1, 2] = 2 * 3.0 * 0.5
    np.testing.assert_array_equal(ow.grad(loss)(IMAGE), expected)
    twice = ow.grad(lambda x: ow.ops.sum(ow.grad(loss)(x)))(IMAGE)
    expected[0, 0, 1, 2] = 2 * 0.5 * 0.5
    np.testing.assert_array_equal(twice, expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ow.ops.scale(x, scale=0.5), "scale must be an integer to become int64"),
        (lambda x: ow.ops.pow_scalar(x, exponent=-1), "an integer of at least 0 for int64"),
        (lambda x: ow.ops.subtract(x > 0, x > 0), "x must be"),
        (lambda x: ow.ops.add(x, x > 0), "y must have the dtype of x, int64, got bool"),
        (lambda x: ow.ops.sum(np.float32(1), axis=1), r"axis must be in \[-1, 1\) for a 0-d input"),
    ],
)
def test_no_attribute_value_turns_integers_into_floats(call, message) -> None:
    with pytest.raises((OpwrightError, KernelNotFoundError), match=message):
        call(np.array([1, 2]))


def test_programs_infer_float32_for_fractional_results_of_integers() -> None:
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = main.global_block().create_var("x", [-1, 3], "int64", is_data=True)
        assert [(x / 2).dtype, ow.ops.mean(x).dtype, ow.ops.exp(x).dtype] == ["float32"] * 3
        assert [(x * 2).dtype, ow.ops.sum(x).dtype, ow.ops.max(x).dtype] == ["int64"] * 3
