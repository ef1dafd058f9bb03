"""Feeds that a network uses only for their shape are neither read nor copied."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import FeedError
from opwright.op import Meta

X = np.arange(6, dtype=np.float32)


def compiled(ops, fetch, feed=("x", "like"), **options):
    return ow.Network(ops).compile(list(feed), fetch, shape_only=["like"], **options)


RESHAPE = ow.Operator("reshape_like", x="x", like="like", out="y")


@pytest.mark.parametrize("passes", [None, []])
def test_a_meta_can_be_fed_instead_of_an_array(passes):
    f = compiled([RESHAPE], ["y"], passes=passes)
    for shape in ((2, 3), (3, 2), (6,)):
        (y,) = f(X, Meta(shape, "float32"))
        np.testing.assert_array_equal(y, X.reshape(shape))


def test_an_array_can_be_given_and_a_strided_array_is_not_copied():
    f = compiled([RESHAPE], ["y"])
    lazy = np.broadcast_to(np.float32(0), (2, 3))
    for like in (np.zeros((2, 3), np.float32), lazy):
        np.testing.assert_array_equal(f(x=X, like=like)[0], X.reshape(2, 3))


def test_the_elements_of_a_shape_only_feed_are_not_read():
    ops = [ow.Operator("shape", x="like", out="y")]
    f = ow.Network(ops).compile(["like"], ["y"], shape_only=["like"])
    (y,) = f(Meta((2**12, 2**12), "float32"))
    np.testing.assert_array_equal(y, [2**12, 2**12])


def test_the_dtype_and_shape_of_a_meta_are_checked_as_for_an_array():
    block = ow.Program().global_block()
    block.create_var("x", [6])
    block.create_var("like", [-1, 3])
    block.append_op("reshape_like", {"x": "x", "like": "like"}, {"out": "y"})
    f = ow.Network(block).compile(["x", "like"], ["y"], shape_only=["like"])
    with pytest.raises(FeedError, match=r"feed 'like': dtype must be float32, got int8"):
        f(X, Meta((2, 3), "int8"))
    with pytest.raises(FeedError, match=r"feed 'like': shape must be \(\?, 3\), got \(3, 2\)"):
        f(X, Meta((3, 2), "float32"))


@pytest.mark.parametrize(
    ("ops", "fetch", "reader"),
    [
        ([RESHAPE, ow.Operator("relu", x="like", out="z")], ["y", "z"], "relu"),
        ([RESHAPE], ["y", "like"], "a fetch or later plan"),
        (
            [ow.Operator("nonzero", x="x", out="i"), ow.Operator("add", x="like", y="i", out="y")],
            ["y"],
            "a fetch or later plan",
        ),
    ],
)
def test_an_operator_that_reads_the_elements_is_refused_before_the_first_step(ops, fetch, reader):
    f = compiled(ops, fetch, passes=[])
    message = rf"shape_only: the elements of 'like' must not be read, got {reader}"
    with pytest.raises(FeedError, match=message):
        f(X, Meta((6, 1), "int64" if ops[0] is not RESHAPE else "float32"))


@pytest.mark.parametrize("shape", [(2, -3), (2**50,)])
def test_an_impossible_shape_is_refused(shape):
    f = compiled([RESHAPE], ["y"])
    with pytest.raises(FeedError, match=r"feed 'like': must have a shape that NumPy can"):
        f(X, Meta(shape, "float32"))


def test_an_unfed_variable_is_refused():
    with pytest.raises(FeedError, match=r"shape_only: must be feeds, got 'lik'; did you mean"):
        ow.Network([RESHAPE]).compile(["x", "like"], ["y"], shape_only=["lik"])


def test_a_variable_that_is_fed_twice_is_refused():
    with pytest.raises(
        FeedError, match=r"feed: a variable must be fed once, got 'x' twice; name it once"
    ):
        ow.Network([RESHAPE]).compile(["x", "like", "x"], ["y"])
