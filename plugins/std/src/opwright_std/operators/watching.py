"""Operators that inspect values while a program runs: print and assert_true."""

from __future__ import annotations

import sys

import numpy as np

from opwright.op import InferContext, OpMaker, no_gradient, same_shape_as
from opwright_std.compositions.chain_rules import chain_rule
from opwright_std.numerics.dtypes import Array


def print_(x: Array, out: Array, *, message: str, limit: int) -> None:
    values = np.array2string(x, threshold=limit, separator=", ")
    name = f"{message} " if message else ""
    # The text is written in one call so that lines of different threads do not mix.
    sys.stdout.write(f"{name}{x.dtype}{list(x.shape)} {values}\n")
    sys.stdout.flush()
    np.copyto(out, x)


PRINT = (
    OpMaker("print")
    .add_comment("out = x, and writes message, dtype, shape and values of x to the output.")
    .add_input("x", "any shape")
    .add_output("out", "shape and dtype of x; unless it is read, nothing is printed")
    .same_dtype_as("x")
    .add_attr("message", str, "text before the values, such as their name")
    .default("")
    .add_attr("limit", int, "with more elements only the first and last are written")
    .default(1000)
    .at_least(0)
    .build(infer_shape=same_shape_as("x"), gradient=chain_rule(lambda grad, g: grad))
)


def assert_true(condition: Array, *, message: str) -> None:
    if condition.all():
        return
    wrong = np.argwhere(~condition)
    first = f", the first at {wrong[0].tolist()}" if condition.ndim else ""
    what = message or "condition must be true"
    raise ValueError(f"{what}: {len(wrong)} of {condition.size} elements are false{first}")


def _assert_shape(ctx: InferContext) -> None:
    """The input can have any shape; there is no output."""


ASSERT_TRUE = (
    OpMaker("assert_true")
    .add_comment("Fails the run unless all elements of condition are true.")
    .add_input("condition", "any shape")
    .dtypes("bool")
    .add_attr("message", str, "text of the error")
    .default("")
    .build(infer_shape=_assert_shape, gradient=no_gradient("it computes nothing"))
)
