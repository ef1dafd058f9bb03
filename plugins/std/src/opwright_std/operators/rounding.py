"""Rounding to integers, and tests for non-finite numbers, element-wise."""

from __future__ import annotations

import math

import numpy as np

from opwright.op import (
    BodyContext,
    OpDefinition,
    OpMaker,
    grad_op,
    no_gradient,
    same_again,
    same_shape_as,
)
from opwright_std.compositions.chain_rules import chain_rule
from opwright_std.compositions.expression import Expression, in_float32, read
from opwright_std.numerics.dtypes import FLOATS, NUMBERS, Array
from opwright_std.operators.unary import unary


def ceil(x: Array, out: Array) -> None:
    np.ceil(x, out=out) if x.dtype.kind == "f" else np.copyto(out, x)


def floor(x: Array, out: Array) -> None:
    np.floor(x, out=out) if x.dtype.kind == "f" else np.copyto(out, x)


def round_(x: Array, out: Array) -> None:
    np.rint(x, out=out) if x.dtype.kind == "f" else np.copyto(out, x)


def nan_to_num(x: Array, out: Array, *, nan: float, posinf: float, neginf: float) -> None:
    np.copyto(out, x)
    if x.dtype.kind != "f":
        return
    most = float(np.finfo(x.dtype).max)
    for place, value in ((np.isposinf(x), posinf), (np.isneginf(x), neginf)):
        np.copyto(out, min(max(value, -most), most), where=place)
    np.copyto(out, nan, where=np.isnan(x))


def nan_to_num_grad(
    x: Array, out_grad: Array, x_grad: Array, *, nan: float, posinf: float, neginf: float
) -> None:
    finite = np.isfinite(x)
    np.copyto(x_grad, out_grad)
    np.copyto(x_grad, 0, where=~finite)


def _rounded(op_type: str, comment: str) -> OpDefinition:
    return unary(op_type, f"{comment} Integers do not change.", NUMBERS).build(
        infer_shape=same_shape_as("x"), gradient=no_gradient("it is piecewise constant")
    )


def _asked(op_type: str, comment: str) -> OpDefinition:
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", "any shape, numbers or bool")
        .dtypes(*NUMBERS, "bool")
        .add_output("out", "bool of the shape of x")
        .dtypes("bool")
        .build(infer_shape=same_shape_as("x"), gradient=no_gradient("its result is bool"))
    )


CEIL = _rounded("ceil", "The smallest integer not below x.")
FLOOR = _rounded("floor", "The largest integer not above x.")
ROUND = _rounded("round", "The nearest integer; ties to even.")


def _trunc_body(b: BodyContext) -> None:
    x = read(b, "x")
    meta = b.meta(x.name)
    whole = meta is not None and meta.dtype not in FLOATS
    out = x if whole else x.then("abs").then("floor").with_("copysign", x)
    b.set_output("out", out.name)


TRUNC = unary("trunc", "x rounded towards 0. Integers do not change.", NUMBERS).build(
    infer_shape=same_shape_as("x"),
    gradient=no_gradient("it is piecewise constant"),
    body=_trunc_body,
)


def _frac(b: BodyContext) -> Expression:
    x = read(b, "x")
    return x - x.then("trunc")


FRAC = unary("frac", "Fractional part, out = x - trunc(x). The gradient is 1 everywhere.").build(
    infer_shape=same_shape_as("x"),
    gradient=chain_rule(lambda grad, g: grad.then("assign")),
    body=in_float32(_frac),
)

ISNAN = _asked("isnan", "True where x is NaN.")
ISINF = _asked("isinf", "True where x is infinite, with either sign.")
ISFINITE = _asked("isfinite", "True where x is neither infinite nor NaN.")

_END = "clamped to the dtype's range"
NAN_TO_NUM = (
    unary(
        "nan_to_num",
        "Replaces NaN and infinities by finite numbers. Their gradient is 0.",
        NUMBERS,
    )
    .add_attr("nan", float, "replacement of NaN")
    .default(0.0)
    .add_attr("posinf", float, f"replacement of infinity; {_END}")
    .default(math.inf)
    .add_attr("neginf", float, f"replacement of -infinity; {_END}")
    .default(-math.inf)
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op("nan_to_num_grad", needs=["x"], gradient=same_again),
    )
)
