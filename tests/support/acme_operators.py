"""Operators of a plugin that exists only in tests."""

from __future__ import annotations

from opwright.op import OpMaker, grad_op, no_gradient, same_shape_as

SCALE = (
    OpMaker("acme.scale")
    .add_comment("A multiple, out = factor * x.")
    .add_input("x", "any shape, float")
    .dtypes("float32", "float64")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("factor", float, "the factor")
    .default(2.0)
    .greater_than(0.0)
    .add_attr("fault", str, "where the kernel fails")
    .default("")
    .build(infer_shape=same_shape_as("x"), gradient=grad_op("acme.scale_grad"))
)

COUNT = (
    OpMaker("acme.count")
    .add_comment("The number of threads that a kernel is prepared for, in the shape of x.")
    .add_input("x", "any shape")
    .add_output("out", "like x")
    .same_dtype_as("x")
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("a test"))
)
