"""Two wrong kernels: one needs separate memory for its output, the other needs shared memory."""

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as


def reverse(x, out):
    # If out shares the memory of x, the first half overwrites elements that the second half reads.
    flat, target = x.reshape(-1), out.reshape(-1)
    half = flat.size // 2
    target[:half] = flat[::-1][:half]
    target[half:] = flat[::-1][half:]


REVERSE = (
    OpMaker("broken_aliases.reverse")
    .add_comment("All elements in the reverse order.")
    .add_input("x", "any shape, float")
    .dtypes("float32", "float64")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only its kernel is of interest"))
)


def accumulate(total, x, new_total):
    # Assumes that new_total shares the memory of total, which the operator does not declare.
    np.add(new_total, x, out=new_total)


ACCUMULATE = (
    OpMaker("broken_aliases.accumulate")
    .add_comment("Sum, new_total = total + x.")
    .add_input("total", "any shape, float")
    .dtypes("float32", "float64")
    .add_input("x", "shape of total")
    .same_dtype_as("total")
    .add_output("new_total", "shape of total")
    .same_dtype_as("total")
)


def _same_shapes(ctx):
    total, x = ctx.input("total").shape, ctx.input("x").shape
    ctx.require(total == x, f"total and x must have one shape, got {total} and {x}; reshape one")
    ctx.set_output("new_total", total)


ACCUMULATE = ACCUMULATE.build(
    infer_shape=_same_shapes, gradient=no_gradient("only its kernel is of interest")
)
