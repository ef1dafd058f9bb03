"""Feeds can be checked before a call, and the names that operators read can be listed."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import FeedError


@pytest.fixture
def x():
    """A float32 data variable with any batch size."""
    return ow.Program().global_block().create_var("x", [-1, 3], "float32", is_data=True)


class Foreign:
    """An array of another library; it must not be read before the call."""

    def __dlpack__(self, **options):
        raise AssertionError("the array was read")

    def __dlpack_device__(self):
        return 1, 0


@pytest.mark.parametrize("step", [1, 2])
def test_a_strided_array_is_borrowed_without_a_copy(x, step):
    array = np.zeros((6, 6), np.float32)[::step, ::2]
    feed = ow.check_feed(array, x, "Model.fill")
    assert np.shares_memory(feed, array)
    assert feed.strides == array.strides


def test_a_list_adopts_the_dtype_of_the_variable(x):
    feed = ow.check_feed([[1, 2, 3]], x, "Model.fill")
    assert feed.dtype == np.float32
    np.testing.assert_array_equal(feed, [[1, 2, 3]])


def test_an_array_of_another_library_is_not_read_before_the_call(x):
    array = Foreign()
    assert ow.check_feed(array, x, "Model.fill") is array


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (np.zeros((1, 3)), r"dtype must be float32, got float64; pass np.asarray\(x, 'float32'\)"),
        (np.zeros((1, 3), "f8"), r"np.asarray\(x, 'float32'\)$"),
        (np.float64(1), "dtype must be float32, got float64"),
        (np.ma.masked_array([1.0], dtype=np.float32), "without a mask, got a masked array"),
        (np.array(["cat"]), "must be an array of bools, ints or floats, got dtype <U3; cast it"),
        ([1, "cat"], "must be an array of numbers, got .1, 'cat'.; pass one"),
    ],
)
def test_the_error_for_a_mismatched_feed_names_the_caller(x, value, rule):
    with pytest.raises(FeedError, match=f"^Model.fill: 'x': .*{rule}"):
        ow.check_feed(value, x, "Model.fill")


def test_check_feed_and_a_network_report_the_same_error(x):
    x.block.append_op("relu", {"x": "x"}, {"out": "out"})
    call = ow.Network(x.block).compile(feed=["x"], fetch=["out"])
    array = np.zeros((1, 3))
    with pytest.raises(FeedError, match="^feed 'x': dtype must") as at_the_call:
        call(x=array)
    with pytest.raises(FeedError, match="^Model.fill: 'x': dtype must") as before:
        ow.check_feed(array, x, "Model.fill")
    assert str(before.value).removeprefix("Model.fill: ") == str(at_the_call.value)[5:]


def test_names_read_first_returns_only_names_that_no_earlier_operator_writes():
    block = ow.Program().global_block()
    for name in ("x", "y", "z"):
        block.create_var(name, [2])
    block.append_op("add", {"x": "y", "y": "x"}, {"out": "sum"})
    block.append_op("multiply", {"x": "sum", "y": "x"}, {"out": "z"})
    block.append_op("relu", {"x": "z"}, {"out": "w"})
    assert ow.names_read_first(block.ops) == ("y", "x")
    assert ow.names_read_first(block.ops[1:]) == ("sum", "x")


def test_operators_between_returns_only_operators_that_compute_results_from_leaves():
    block = ow.Program().global_block()
    block.create_var("x", [2])
    for source, target in (("x", "a"), ("a", "b"), ("b", "c"), ("b", "d")):
        block.append_op("relu", {"x": source}, {"out": target})
    ops = block.ops
    assert ow.operators_between(ops, ["c"], ["a"]) == (ops[1], ops[2])
    assert ow.operators_between(ops, ["a", "d"], ["x", "b"]) == (ops[0], ops[3])
    assert ow.operators_between(ops, ["x"], ["x"]) == ()
