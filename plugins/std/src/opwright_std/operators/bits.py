"""Bits of integers, bytes as elements of another dtype, and the sign bit of floats."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    INT_DTYPES,
    BodyContext,
    GradientContext,
    InferContext,
    OpDefinition,
    OpMaker,
    elementwise_shape,
    item_size,
    no_gradient,
    same_shape_as,
)
from opwright_std.compositions.chain_rules import set_broadcast_grad
from opwright_std.numerics.dtypes import FLOATS, NUMBERS, ORDERED, Array
from opwright_std.operators.binary import binary
from opwright_std.operators.unary import unary

_NO_GRADIENT = no_gradient("its result is an integer")
_BITS = (*INT_DTYPES, "bool")


def _define(op_type: str, comment: str, dtypes: tuple[str, ...] = _BITS) -> OpDefinition:
    return binary(op_type, comment, dtypes).build(
        infer_shape=elementwise_shape("x", "y"), gradient=_NO_GRADIENT
    )


_COUNTS = (
    "A negative shift, or one of at least the number of bits, shifts all bits out, as in NumPy."
)

BITWISE_AND = _define("bitwise_and", "Bitwise and of x and y; for bool, logical_and.")
BITWISE_OR = _define("bitwise_or", "Bitwise or of x and y; for bool, logical_or.")
BITWISE_XOR = _define("bitwise_xor", "Bitwise exclusive or of x and y; for bool, logical_xor.")
BITWISE_NOT = unary(
    "bitwise_not",
    "The inverted bits of x, -1 - x for signed numbers; for bool, logical_not.",
    _BITS,
).build(infer_shape=same_shape_as("x"), gradient=_NO_GRADIENT)
LEFT_SHIFT = _define(
    "left_shift",
    f"The bits of x shifted left by y, x * 2**y modulo the range of the dtype. {_COUNTS}",
    INT_DTYPES,
)
RIGHT_SHIFT = _define(
    "right_shift",
    "The bits of x shifted right by y, x / 2**y rounded down; signed numbers keep "
    f"their sign. {_COUNTS}",
    INT_DTYPES,
)


def bit_cast(x: Array, out: Array, *, dtype: str) -> None:
    np.copyto(out.reshape(-1).view(np.uint8), x.reshape(-1).view(np.uint8))


def _bit_cast_shape(ctx: InferContext) -> None:
    """The output has the shape of x, except that its last axis has the same size in bytes."""
    x, dtype = ctx.input("x"), ctx.attr("dtype")
    old, new = item_size(x.dtype), item_size(dtype)
    if old == new:
        ctx.set_output("out", x.shape, dtype)
        return
    ctx.require(
        len(x.shape) > 0,
        f"x must have an axis if the size of an element changes, got a scalar of {x.dtype} as "
        f"{dtype}",
    )
    last = x.shape[-1]
    if old > new:
        last = -1 if last == -1 else last * (old // new)
    elif last != -1:
        ratio = new // old
        if last % ratio != 0:
            ctx.fail(f"the last axis of x must be a multiple of {ratio} for {dtype}, got {last}")
        last = last // ratio
    ctx.set_output("out", (*x.shape[:-1], last), dtype)


BIT_CAST = (
    OpMaker("bit_cast")
    .add_comment(
        "The bytes of x as elements of another dtype, as numpy.ndarray.view: the last axis is "
        "longer or shorter if the size of an element changes."
    )
    .add_input("x", "any shape; not a scalar if the size of an element changes")
    .dtypes(*NUMBERS, "bool")
    .add_output("out", "shape of x, or a different last axis; the given dtype")
    .same_dtype_as("dtype")
    .add_attr("dtype", str, "dtype of out")
    .required()
    .as_dtype(*NUMBERS)
    .build(infer_shape=_bit_cast_shape, gradient=no_gradient("bits are not continuous"))
)


def _copysign_gradient(g: GradientContext) -> None:
    grad, x, y = g.output_grad("out"), g.input("x"), g.input("y")
    if g.wants("x"):
        signs = g.emit("copysign", {"x": g.emit("sign", {"x": x}), "y": y})
        derivative = g.emit("multiply", {"x": signs, "y": g.emit("sign", {"x": x})})
        set_broadcast_grad(g, "x", g.emit("multiply", {"x": grad, "y": derivative}), ["y"])
    if g.wants("y"):
        g.set_input_grad("y", g.emit("fill_like", {"x": y}, attrs={"value": 0.0}))


COPYSIGN = binary(
    "copysign",
    "The magnitude of x with the sign bit of y, including that of -0 and NaN. The gradient of x "
    "is 1 or -1, 0 "
    "where x is 0; that of y is 0.",
    FLOATS,
).build(infer_shape=elementwise_shape("x", "y"), gradient=_copysign_gradient)


def _signbit_body(b: BodyContext) -> None:
    meta = b.meta(b.input("x") or "")
    bits = f"int{8 * item_size(meta.dtype)}" if meta else ""
    x = b.input("x") or ""
    if meta and meta.dtype == "bool":
        b.emit("logical_xor", {"x": x, "y": x}, {"out": b.output("out")})
        return
    if meta and meta.dtype in FLOATS:
        x = b.emit("bit_cast", {"x": x}, attrs={"dtype": bits})
    zero = b.emit("fill_like", {"x": x}, attrs={"value": 0.0})
    b.emit("less", {"x": x, "y": zero}, {"out": b.output("out")})


SIGNBIT = (
    OpMaker("signbit")
    .add_comment("Whether the sign bit is set: for negative numbers, -0 and NaN with a sign bit.")
    .add_input("x", "any shape")
    .dtypes(*ORDERED)
    .add_output("out", "bool of the shape of x")
    .dtypes("bool")
    .build(
        infer_shape=same_shape_as("x"),
        gradient=no_gradient("its result is bool"),
        body=_signbit_body,
    )
)
