"""Element-wise comparisons: two inputs of one dtype that broadcast, and a bool result."""

from __future__ import annotations

from opwright.op import (
    BodyContext,
    InferContext,
    OpDefinition,
    OpMaker,
    broadcast_shapes,
    elementwise_shape,
    no_gradient,
)
from opwright_std.compositions.expression import Expression, dtype_of, read
from opwright_std.numerics.dtypes import FLOATS, HALVES, NUMBERS


def to_bool(op_type: str, comment: str) -> OpDefinition:
    """Define an element-wise ``x, y -> out`` whose result is bool."""
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", "any shape that broadcasts with y, any dtype")
        .add_input("y", "any shape that broadcasts with x")
        .same_dtype_as("x")
        .add_output("out", "bool of the broadcast shape")
        .dtypes("bool")
        .build(
            infer_shape=elementwise_shape("x", "y"),
            gradient=no_gradient("its result is bool"),
        )
    )


EQUAL = to_bool("equal", "out = x == y, element-wise; NaN equals nothing.")
NOT_EQUAL = to_bool("not_equal", "out = x != y, element-wise; NaN differs from everything.")
LESS = to_bool("less", "out = x < y, element-wise; false if either is NaN.")
LESS_EQUAL = to_bool("less_equal", "out = x <= y, element-wise; false if either is NaN.")
GREATER = to_bool("greater", "out = x > y, element-wise; false if either is NaN.")
GREATER_EQUAL = to_bool("greater_equal", "out = x >= y, element-wise; false if either is NaN.")


def _is_close(b: BodyContext) -> Expression:
    """Write the comparison; 16-bit floats are compared in float32, integers in float64."""
    x, y = read(b, "x"), read(b, "y")
    equal = x.with_("equal", y)
    dtype = dtype_of(b)
    if dtype in HALVES or dtype not in FLOATS:
        wide = "float32" if dtype in HALVES else "float64"
        x, y = (number.then("cast", dtype=wide) for number in (x, y))
    bound = y.then("abs") * float(b.attr("rtol")) + float(b.attr("atol"))
    near = (x - y).then("abs").with_("less_equal", bound).with_("logical_and", y.then("isfinite"))
    close = equal.with_("logical_or", near)
    if b.attr("equal_nan"):
        both = x.then("isnan").with_("logical_and", y.then("isnan"))
        close = close.with_("logical_or", both)
    return close


def _isclose_body(b: BodyContext) -> None:
    b.set_output("out", _is_close(b).name)


def _allclose_body(b: BodyContext) -> None:
    b.set_output("out", _is_close(b).then("all").name)


def _all_shape(ctx: InferContext) -> None:
    """The output is a scalar; the inputs broadcast."""
    broadcast_shapes(ctx.input("x").shape, ctx.input("y").shape, ctx)
    ctx.set_output("out", ())


def _closeness(op_type: str, comment: str, out: str) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(
            f"{comment}, |x - y| <= atol + rtol * |y|; infinities are close if they are equal."
        )
        .add_input("x", "any shape that broadcasts with y")
        .dtypes(*NUMBERS, "bool")
        .add_input("y", "any shape that broadcasts with x")
        .same_dtype_as("x")
        .add_output("out", out)
        .dtypes("bool")
        .add_attr("rtol", float, "allowed distance relative to |y|")
        .default(1e-5)
        .at_least(0.0)
        .add_attr("atol", float, "distance allowed besides")
        .default(1e-8)
        .at_least(0.0)
        .add_attr("equal_nan", bool, "whether two NaN are close")
        .default(False)
    )


ISCLOSE = _closeness(
    "isclose", "Whether elements of x are close to those of y", "bool of the broadcast shape"
).build(
    infer_shape=elementwise_shape("x", "y"),
    gradient=no_gradient("its result is bool"),
    body=_isclose_body,
)
ALLCLOSE = _closeness(
    "allclose", "Whether all elements of x are close to those of y", "bool []"
).build(infer_shape=_all_shape, gradient=no_gradient("its result is bool"), body=_allclose_body)
