"""One attribute lacks a range that it needs, and another has a range that is too wide."""

import numpy as np

from opwright.op import OpMaker, no_gradient, same_shape_as

_POWERS = {1: lambda x: x, 2: np.square, 3: lambda x: x * np.square(x)}


def scaled(x, out, *, parts):
    np.multiply(x, 1 // parts, out=out)  # divides by 0


def raised(x, out, *, exponent):
    np.copyto(out, _POWERS[exponent](x))


def _make(name, comment):
    return (
        OpMaker(f"broken_rejects_attributes.{name}")
        .add_comment(comment)
        .add_input("x", "any shape, float")
        .dtypes("float32", "float64")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
    )


SCALED = (
    _make("scaled", "One of so many parts, out = x * (1 // parts).")
    .add_attr("parts", int, "how many parts there are")
    .default(1)
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only its range matters here"))
)
RAISED = (
    _make("raised", "Power, out = x**exponent.")
    .add_attr("exponent", int, "a small integer")
    .default(2)
    .between(1, 4)
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("only its range matters here"))
)
