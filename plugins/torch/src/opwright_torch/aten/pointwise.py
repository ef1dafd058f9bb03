"""Elementwise arithmetic, powers and rounding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import opwright as ow
from opwright_torch.aten.shapes import broadcast
from opwright_torch.translate import Decline, Row, Rows, Translator
from opwright_torch.translate.sizes import Size
from opwright_torch.translate.translator import FLOATS, Value

ROWS: Final = Rows()


def is_number(value: Value) -> bool:
    """Return whether a value is a Python number that opwright supports."""
    return isinstance(value, (bool, int, float))


def without_gradient(t: Translator, result: Value, *inputs: Value) -> Value:
    """Return a result with zero gradients for its inputs; used for piecewise constant functions."""
    trained = [x for x in inputs if t.trains(x)]
    result = t.stop(result) if trained else result
    for x in trained:
        result = unread(t, x, result)
    return result


def unread(t: Translator, x: Value, result: Value) -> Value:
    """Return `result`, which does not depend on `x`, with a zero gradient for `x`."""
    return t.op("where", t.full(False, (), "bool"), x, result)


@ROWS.row("aten::add", "aten::add.Tensor", "aten::add.Scalar")
def add(t: Translator, input: Value, other: Value, alpha: Value = 1) -> Value:
    """Return `input` + `alpha` · `other`."""
    dtype = t.dtype()
    if is_number(other) and is_number(alpha) and dtype in FLOATS:
        return t.op("scale", t.cast(input, dtype), bias=float(other * alpha))
    x, y = t.promote(input, other)
    if dtype == "bool":
        return t.op("logical_or", x, y)
    return t.op("add", x, y if alpha == 1 else _times(t, y, alpha))


@ROWS.row("aten::sub", "aten::subtract")
def subtract(t: Translator, input: Value, other: Value, alpha: Value = 1) -> Value:
    """Return `input` - `alpha` · `other`."""
    if is_number(other):
        return add(t, input, other, -alpha)
    x, y = t.promote(input, other)
    return t.op("subtract", x, y if alpha == 1 else _times(t, y, alpha))


@ROWS.row("aten::rsub")
def rsub(t: Translator, input: Value, other: Value, alpha: Value = 1) -> Value:
    """Return `other` - `alpha` · `input`."""
    dtype = t.dtype()
    if is_number(other) and dtype in FLOATS:
        return t.op("scale", t.cast(input, dtype), scale=-float(alpha), bias=float(other))
    return subtract(t, other, input, alpha) if not is_number(other) else _minus(t, other, input)


def _minus(t: Translator, number: Value, input: Value) -> Value:
    x, y = t.promote(number, input)
    return t.op("subtract", x, y)


@ROWS.row("aten::mul", "aten::multiply")
def multiply(t: Translator, input: Value, other: Value) -> Value:
    """Return the product."""
    dtype = t.dtype()
    if is_number(other) and dtype in FLOATS:
        return _times(t, t.cast(input, dtype), other)
    x, y = t.promote(input, other)
    return t.op("logical_and" if dtype == "bool" else "multiply", x, y)


def _times(t: Translator, x: Value, factor: Value) -> Value:
    if factor == 1:
        return x
    is_scaled = is_number(factor) and x.dtype in FLOATS
    return t.op("scale", x, scale=float(factor)) if is_scaled else t.op("multiply", x, factor)


@ROWS.row("aten::div", "aten::divide", "aten::true_divide")
def divide(t: Translator, input: Value, other: Value, rounding_mode: Value = None) -> Value:
    """Return the quotient; `rounding_mode` "floor" rounds it down, and "trunc" towards 0."""
    if rounding_mode == "floor":
        return floor_divide(t, input, other)
    if is_number(other) and rounding_mode is None and abs(math.frexp(other)[0]) == 0.5:
        return t.op("scale", t.cast(input, t.dtype()), scale=1.0 / other)  # exact for powers of 2
    x, y = t.promote(input, other)
    if rounding_mode is None:
        return t.op("divide", x, y)
    return _truncated(t, x, y)


def _truncated(t: Translator, x: Value, y: Value) -> Value:
    """Return the quotient rounded towards 0."""
    if x.dtype in FLOATS:
        return _trunc(t, t.op("divide", x, y))
    if x.dtype.startswith("uint"):
        return t.op("floor_divide", x, y)
    size = t.op("floor_divide", t.op("abs", x), t.op("abs", y))
    return t.op("multiply", size, t.op("multiply", t.op("sign", x), t.op("sign", y)))


@ROWS.row("aten::floor_divide")
def floor_divide(t: Translator, input: Value, other: Value) -> Value:
    """Return the quotient, rounded down."""
    x, y = t.promote(input, other)
    return without_gradient(t, t.op("floor_divide", x, y), x, y)


@ROWS.row("aten::remainder")
def remainder(t: Translator, input: Value, other: Value) -> Value:
    """Return the remainder of floor division."""
    x, y = t.promote(input, other)
    if not t.trains(x, y):
        return t.op("mod", x, y)
    return t.op("subtract", x, t.op("multiply", t.op("floor_divide", x, y), y))


@ROWS.row("aten::pow")
def power(t: Translator, input: Value, exponent: Value) -> Value:
    """Raise `input` to the power `exponent`."""
    dtype = t.dtype()
    if is_number(exponent) and dtype in FLOATS:
        x = t.cast(input, dtype)
        simple = {1: "assign", 2: "square", 0.5: "sqrt", -1: "reciprocal"}.get(exponent)
        return t.op(simple, x) if simple else t.op("pow_scalar", x, exponent=float(exponent))
    if is_number(exponent) and exponent == 2:
        return t.op("square", t.cast(input, dtype))
    return t.op("power", *t.promote(input, exponent))


@ROWS.row("aten::addcmul")
def addcmul(t: Translator, input: Value, tensor1: Value, tensor2: Value, value: Value) -> Value:
    """Return `input` + `value` · `tensor1` · `tensor2`."""
    x, y, z = t.promote(input, tensor1, tensor2)
    return t.op("add", x, _times(t, t.op("multiply", y, z), value))


@ROWS.row("aten::addcdiv")
def addcdiv(t: Translator, input: Value, tensor1: Value, tensor2: Value, value: Value) -> Value:
    """Return `input` + `value` · `tensor1` / `tensor2`."""
    x, y, z = t.promote(input, tensor1, tensor2)
    return t.op("add", x, _times(t, t.op("divide", y, z), value))


@ROWS.row("aten::lerp")
def lerp(t: Translator, input: Value, end: Value, weight: Value) -> Value:
    """Return `input` + `weight` · (`end` - `input`)."""
    return t.op("lerp", *broadcast(t, *t.promote(input, end, weight)))


@ROWS.row("aten::maximum", "aten::max.other")
def maximum(t: Translator, input: Value, other: Value) -> Value:
    """Return the maximum; equal elements share the gradient."""
    return _extremum(t, "max", input, other)


@ROWS.row("aten::minimum", "aten::min.other")
def minimum(t: Translator, input: Value, other: Value) -> Value:
    """Return the minimum; equal elements share the gradient."""
    return _extremum(t, "min", input, other)


def _extremum(t: Translator, kind: str, input: Value, other: Value) -> Value:
    x, y = t.promote(input, other)
    if x.dtype == "bool":
        return t.op("logical_or" if kind == "max" else "logical_and", x, y)
    if t.trains(x, y):  # the gradient of maximum goes to one of two equal elements
        return t.op(kind, t.op("stack", list(broadcast(t, x, y)), axis=0), axis=[0])
    return t.op(f"{kind}imum", x, y)


@ROWS.row("aten::clamp", "aten::clip")
def clamp(t: Translator, input: Value, min: Value = None, max: Value = None) -> Value:
    """Clamp the input to at least `min`, then to at most `max`."""
    dtype = t.dtype()
    x = t.cast(input, dtype)
    if any(isinstance(bound, (ow.Variable, Size)) for bound in (min, max)):
        for kind, bound in (("maximum", min), ("minimum", max)):
            if bound is not None:  # if x equals a bound, the gradient goes to x, as in PyTorch
                x = t.op(kind, x, *t.promote(bound))
        return x
    low, high = (-math.inf if min is None else min), (math.inf if max is None else max)
    if math.isnan(low) or math.isnan(high):
        raise Decline(f"a bound is NaN: min={min}, max={max}")
    if low > high:
        raise Decline(f"min={min} is above max={max}")
    return t.op("clip", x, min=float(low), max=float(high))


@ROWS.row("aten::clamp_min")
def clamp_min(t: Translator, input: Value, min: Value) -> Value:
    """Clamp the input to at least `min`."""
    return clamp(t, input, min=min)


@ROWS.row("aten::clamp_max")
def clamp_max(t: Translator, input: Value, max: Value) -> Value:
    """Clamp the input to at most `max`."""
    return clamp(t, input, max=max)


@ROWS.row("aten::trunc", "aten::fix")
def trunc(t: Translator, input: Value) -> Value:
    """Round the input towards 0."""
    return _trunc(t, input)


def _trunc(t: Translator, x: Value) -> Value:
    if x.dtype not in FLOATS:
        return x
    whole = t.op("trunc", x)
    return without_gradient(t, whole, x)


@ROWS.row("aten::ceil", "aten::floor")
def rounded(t: Translator, input: Value) -> Value:
    """Round the input up or down."""
    return without_gradient(t, t.op(t.node.target.name()[6:], input), input)


@ROWS.row("aten::frac")
def frac(t: Translator, input: Value) -> Value:
    """Return the fractional part of the input."""
    return t.op("subtract", input, _trunc(t, input))


@ROWS.row("aten::round")
def round_(t: Translator, input: Value, decimals: int = 0) -> Value:
    """Round to `decimals` decimal places, ties to even."""
    if decimals == 0:
        return without_gradient(t, t.op("round", input), input)
    if input.dtype not in FLOATS:
        raise Decline(f"decimals={decimals} of integers")
    factor = 10.0 ** abs(decimals)
    first, last = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    whole = t.op("round", t.op(first, input, factor))
    return without_gradient(t, t.op(last, whole, factor), input)


def _function(type: str) -> Row:
    def row(t: Translator, input: Value) -> Value:
        return t.op(type, t.cast(input, t.dtype()))

    row.__doc__ = f"Append the operator {type} in the dtype of PyTorch's result."
    return row


FUNCTIONS: Final[Mapping[str, str]] = {
    "abs": "abs absolute",
    "negative": "neg negative",
    "sign": "sign sgn",
    "square": "square",
    "exp": "exp",
    "expm1": "expm1 special_expm1",
    "log": "log",
    "log1p": "log1p special_log1p",
    "log2": "log2",
    "log10": "log10",
    "exp2": "exp2 special_exp2",
    "asinh": "asinh arcsinh",
    "acosh": "acosh arccosh",
    "atanh": "atanh arctanh",
    "deg2rad": "deg2rad",
    "rad2deg": "rad2deg",
    "sinc": "sinc special_sinc",
    "lgamma": "lgamma special_gammaln",
    "digamma": "digamma special_digamma special_psi",
    "erfc": "erfc special_erfc",
    "erfinv": "erfinv special_erfinv",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "reciprocal": "reciprocal",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "asin arcsin",
    "acos": "acos arccos",
    "atan": "atan arctan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "erf": "erf special_erf",
    "sigmoid": "sigmoid special_expit",
}
for _type, _names in FUNCTIONS.items():
    ROWS.row(*(f"aten::{name}" for name in _names.split()))(_function(_type))


@ROWS.row("aten::atan2", "aten::arctan2")
def atan2(t: Translator, input: Value, other: Value) -> Value:
    """Return the angle of a point."""
    return t.op("atan2", *t.promote(input, other))
