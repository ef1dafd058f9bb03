"""Numbers, lists and attributes are converted only to dtypes that can represent them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import opwright as ow
from opwright.errors import AttributeValueError, DtypeError, FeedError

ONES = np.ones(3, np.int64)
BYTES = np.ones(3, np.uint8)
BOOLS = np.ones(3, bool)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ow.ops.add(ONES, 1.5), "add: y: must be an integer to become int64, got 1.5"),
        (lambda: ow.ops.add(0.5, ONES), "add: x: .* got 0.5; cast y to float64"),
        (lambda: ow.ops.multiply(ONES, 0.5), "multiply: y: .* got 0.5; cast x to float64"),
        (lambda: ow.ops.less(ONES, 1.5), "less: y: .* got 1.5; cast x to float64"),
        (lambda: ow.ops.equal(ONES, [1, 2, 1.5]), "equal: y: .* got 1.5; cast x to float64"),
        (lambda: ow.ops.concat([ONES, [0.5]]), "concat: x: .* got 0.5; cast x to float64"),
        (lambda: ow.ops.less(BYTES, 300), r"in \[0, 255\] to become uint8, got 300; cast x to i"),
        (lambda: ow.ops.less(BYTES, [1, -1, 300]), r"in \[0, 255\] .* got -1; cast x to int64"),
        (lambda: ow.ops.less(BYTES, [np.int64(300)] * 3), r"in \[0, 255\] .* got 300"),
        (lambda: ow.ops.greater(ONES, math.inf), "an integer to become int64, got inf"),
        (lambda: ow.ops.greater(ONES, [math.nan] * 3), "an integer to become int64, got nan"),
        (lambda: ow.ops.add(ONES, 2**70), r"in \[-9223372036854775808, .* got 1180.*; .* float64"),
        (lambda: ow.ops.logical_and(BOOLS, 2), "must be 0 or 1 to become bool, got 2; cast x to i"),
        (lambda: ow.ops.add(ONES / 2, 10**400), "numbers in the range of float64, got 1000.*scale"),
        (lambda: ow.ops.add(ONES, "1"), "must be an array of numbers, got '1'"),
        (lambda: ow.ops.add(ONES, [None] * 3), "must be an array of numbers, got .None"),
    ],
)  # fmt: skip
def test_a_number_that_the_dtype_of_the_array_cannot_represent_is_refused(call, text):
    with pytest.raises(DtypeError, match=text):
        call()


def test_a_number_that_the_dtype_of_the_array_can_represent_is_accepted():
    for two in (2, 2.0, [2, 2.0, True + 1], np.int64(2)):
        np.testing.assert_array_equal(ow.ops.add(ONES, two), [3, 3, 3])
    np.testing.assert_array_equal(ow.ops.add(BYTES, 254), [255] * 3)
    np.testing.assert_array_equal(ow.ops.logical_and(BOOLS, [0, 1.0, True]), [False, True, True])
    np.testing.assert_array_equal(ow.ops.add(np.ones(1, np.float32), 2**70), [2.0**70])
    assert ow.ops.concat([ONES, []]).dtype == np.int64


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ow.ops.fill(shape=[2], value=1.5, dtype="int64"),
         "fill: value must be an integer to become int64, got value=1.5; .* such as float64"),
        (lambda: ow.ops.fill(shape=[2], value=300, dtype="uint8"),
         r"fill: value must be in \[0, 255\] to become uint8, got value=300.0; .* such as int64"),
        (lambda: ow.ops.fill(shape=[2], value=2.0**63, dtype="int64"), "such as float64"),
        (lambda: ow.ops.fill_like(BOOLS, value=0.5), "fill_like: value must be 0 or 1 to become b"),
        (lambda: ow.ops.fill_like(ONES, value=math.inf), "got value=inf"),
        (lambda: ow.ops.pad(ONES, paddings=[1, 1], value=0.5), "pad: value must be an integer"),
    ],
)  # fmt: skip
def test_an_attribute_that_the_dtype_of_the_result_cannot_represent_is_refused(call, text):
    with pytest.raises(AttributeValueError, match=text):
        call()


def test_an_attribute_is_checked_when_a_program_is_built():
    block = ow.Program().global_block()
    x = block.create_var("x", [-1, 4], "int32")
    for build in (
        lambda: ow.ops.fill_like(x, value=0.5),
        lambda: ow.ops.pad(x, paddings=[0, 0, 1, 1], value=-0.5),
    ):
        with pytest.raises(AttributeValueError, match="value must be an integer to become int"):
            build()
    assert ow.ops.fill_like(x, value=2).shape == (-1, 4)


def test_an_attribute_that_is_not_read_is_not_checked():
    out = ow.ops.pad(ONES, paddings=[1, 1], mode="edge", value=0.5)
    np.testing.assert_array_equal(out, [1] * 5)


def test_a_feed_of_numbers_that_the_variable_cannot_represent_is_refused():
    block = ow.Program().global_block()
    x = block.create_var("x", [-1], "int32")
    call = ow.Network(block).compile(feed=["x"], fetch=[ow.ops.negative(x)], scope=ow.Scope())
    np.testing.assert_array_equal(call(x=[1, 2.0])[0], [-1, -2])
    text = "feed 'x': must be an integer to become int32, got 1.5; cast the variable to float64"
    with pytest.raises(FeedError, match=text):
        call(x=[1, 1.5])
    with pytest.raises(FeedError, match=r"in \[-2147483648, 2147483647\] .* got 2147483648"):
        call(x=[2**31])
