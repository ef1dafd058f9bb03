"""Rows of elementwise operators: arithmetic, comparisons, bitwise operators, activations."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

import opwright as ow
from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.model import MIN_OPSET
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.sizes import Sizes
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import FLOATS, Value
from opwright_onnx.translate.walking import call_row, knows_old

ROWS = Rows()

_BINARY = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
}


def spread(t: Translator, n: Node, x: Value, y: Value) -> Value:
    """Align the axes of `y` with the axes of `x` starting at `axis`, as in opset 6 and older."""
    if n.opset >= MIN_OPSET or not n.attr("broadcast") or n.attr("axis") is None:
        return y
    behind = t.rank(x) - t.axis(n.attr("axis"), t.rank(x)) - t.rank(y)
    return t.op("unsqueeze", y, axis=[-1 - i for i in range(behind)]) if behind > 0 else y


@ROWS.row(*_BINARY)
@knows_old
def binary(t: Translator, n: Node, x: Value, y: Value) -> Any:
    return t.op(_BINARY[n.op_type], x, spread(t, n, x, y))


@ROWS.row("Div")
@knows_old
def divide(t: Translator, n: Node, x: Value, y: Value) -> Any:
    y = spread(t, n, x, y)
    if t.dtype(x) in FLOATS:
        return t.op("divide", x, y)
    quotient = t.op("floor_divide", x, y)
    if t.dtype(x).startswith("uint") or (isinstance(quotient, Sizes) and quotient.is_natural):
        return quotient
    rest = t.op("subtract", x, t.op("multiply", quotient, y))
    is_below = t.op("logical_and", t.op("not_equal", rest, 0), t.op("less", quotient, 0))
    return t.op("add", quotient, t.op("cast", is_below, dtype=t.dtype(x)))


@ROWS.row("Mod")
def mod(t: Translator, n: Node, x: Value, y: Value) -> Any:
    if not n.attr("fmod"):
        return t.op("mod", x, y)
    rest = t.op("mod", t.op("abs", x), t.op("abs", y))
    return t.op("where", t.op("less", x, 0), t.op("negative", rest), rest)


@ROWS.row("Pow")
@knows_old
def power(t: Translator, n: Node, x: Value, y: Value) -> Any:
    y = spread(t, n, x, y)
    exponent = None if isinstance(y, ow.Variable) else t.array(y)  # a trained one may change
    if t.dtype(x) in FLOATS:
        if exponent is not None and exponent.size == 1 and exponent.ndim <= t.rank(x):
            return t.op("pow_scalar", x, exponent=float(exponent.reshape(-1)[0]))
        return t.op("power", x, t.cast(y, t.dtype(x)))
    if t.dtype(y) in FLOATS:
        return t.cast(t.op("power", t.cast(x, "float64"), t.cast(y, "float64")), t.dtype(x))
    return t.op("power", x, t.cast(y, t.dtype(x)))


@ROWS.row("Sign")
def sign(t: Translator, n: Node, x: Value) -> Any:
    if not t.dtype(x).startswith("uint"):
        return t.op("sign", x)
    return t.op("cast", t.op("greater", x, 0), dtype=t.dtype(x))


@ROWS.row("Sum", "Max", "Min", "Mean")
def many(t: Translator, n: Node, *inputs: Value) -> Any:
    pair = {"Max": "maximum", "Min": "minimum"}.get(n.op_type, "add")
    total = reduce(lambda x, y: t.op(pair, x, y), inputs)
    return t.op("divide", total, len(inputs)) if n.op_type == "Mean" else total


@ROWS.row("IsInf")
def isinf(t: Translator, n: Node, x: Value) -> Any:
    found = t.op("isinf", x)
    if n.attr("detect_negative", 1) and n.attr("detect_positive", 1):
        return found
    if n.attr("detect_positive", 1):
        return t.op("logical_and", found, t.op("greater", x, 0))
    if n.attr("detect_negative", 1):
        return t.op("logical_and", found, t.op("less", x, 0))
    return t.op("logical_and", found, np.array(False))


@ROWS.row("Relu")
def relu(t: Translator, n: Node, x: Value) -> Any:
    return t.op("relu", x) if t.dtype(x) in FLOATS else t.op("maximum", x, 0)


@ROWS.row("Selu")
def selu(t: Translator, n: Node, x: Value) -> Any:
    alpha, gamma = n.attr("alpha"), n.attr("gamma")
    return t.op("multiply", t.op("elu", x, alpha=alpha), gamma)


@ROWS.row("PRelu")
@knows_old
def prelu(t: Translator, n: Node, x: Value, weight: Value) -> Any:
    if n.opset < MIN_OPSET and t.rank(weight) == 1 and t.shape(weight) != [1]:
        weight = t.reshape(weight, [-1, *[1] * (t.rank(x) - 2)])
    if t.dtype(x) in FLOATS:
        return t.op("prelu", x, weight)
    scaled = t.op("multiply", x, weight)
    return t.op("where", t.op("less", x, 0), scaled, x)


@ROWS.row("Shrink")
def shrink(t: Translator, n: Node, x: Value) -> Any:
    lambd, bias = n.attr("lambd"), n.attr("bias")
    x, dtype = t.promote(x, "float64", *FLOATS)
    below = t.op("where", t.op("less", x, -lambd), t.op("add", x, bias), 0.0)
    return t.cast(t.op("where", t.op("greater", x, lambd), t.op("subtract", x, bias), below), dtype)


@ROWS.row("Clip")
def clip(t: Translator, n: Node, x: Value, low: Value = None, high: Value = None) -> Any:
    if n.opset < 11:
        low, high = (np.array(n.attr(name), np.float32) for name in ("min", "max"))
    low, high = (  # some exporters write vectors of one number
        bound if bound is None or not t.rank(bound) else t.reshape(bound, [])
        for bound in (low, high)
    )
    bounds = [
        None if bound is None or isinstance(bound, ow.Variable) else t.array(bound)
        for bound in (low, high)
    ]
    if t.dtype(x) in FLOATS and not any(
        b is None and g is not None for b, g in zip(bounds, (low, high))
    ):
        named: dict[str, Any] = {
            k: float(b) for k, b in zip(("min", "max"), bounds) if b is not None
        }
        if named == {"min": 0.0, "max": 6.0}:
            return t.op("relu6", x)  # an operator that layers fuse into their kernels
        if named.get("min", -np.inf) <= named.get("max", np.inf):
            return t.op("clip", x, **named)
    x = x if low is None else t.op("maximum", x, t.cast(low, t.dtype(x)))
    return x if high is None else t.op("minimum", x, t.cast(high, t.dtype(x)))


@ROWS.row("BitShift")
def bit_shift(t: Translator, n: Node, x: Value, y: Value) -> Any:
    return t.op("left_shift" if n.attr("direction") == "LEFT" else "right_shift", x, y)


@ROWS.row("Hardmax")
def hardmax(t: Translator, n: Node, x: Value) -> Any:
    if n.opset < 13:
        return _flattened(t, n, x, lambda y: _hardmax(t, y, -1))
    return _hardmax(t, x, n.attr("axis"))


def _hardmax(t: Translator, x: Value, axis: int) -> Value:
    rank = t.rank(x)
    axis = t.axis(axis, rank)
    index = t.op("argmax", x, axis=axis)
    depth = t.dim(x, axis)
    hot = t.op("one_hot", index, depth=depth, dtype=t.dtype(x))
    order = [*range(axis), rank - 1, *range(axis, rank - 1)]
    return t.transpose(hot, order)


@ROWS.row("Softmax", "LogSoftmax")
def softmax(t: Translator, n: Node, x: Value) -> Any:
    op_type = "softmax" if n.op_type == "Softmax" else "log_softmax"
    if n.opset < 13 and t.axis(n.attr("axis"), max(t.rank(x), 1)) != t.rank(x) - 1:
        return _flattened(t, n, x, lambda y: t.op(op_type, y, axis=-1))
    return t.op(op_type, x, axis=n.attr("axis"))


def _flattened(t: Translator, n: Node, x: Value, function: Any) -> Value:
    """Flatten `x` to a matrix at `axis`, as older opsets do, and apply a function to its rows."""
    axis = t.axis(n.attr("axis"), t.rank(x))
    flat = call_row(t, "Flatten", x, axis=axis)
    return t.op("reshape_like", function(flat), x)


@ROWS.row("Dropout")
@knows_old
def dropout(t: Translator, n: Node, x: Value, ratio: Value = None, training: Value = None) -> Any:
    if n.opset < MIN_OPSET and not n.attr("is_test"):
        raise DeclinedError("is_test must be 1, got 0")
    is_training = training is not None and bool(t.need(training, "training_mode").reshape(-1)[0])
    if is_training:
        probability = 0.5 if ratio is None else t.number(ratio, "ratio")
        if probability:
            raise DeclinedError(
                "training_mode must be false if ratio is not 0, since the result would be random"
            )
    kept = "bool" if n.opset >= 10 else t.dtype(x)
    if not n.wants(1):
        return t.op("assign", x)
    return t.op("assign", x), t.op("cast", t.op("fill_like", x, value=1.0), dtype=kept)


@ROWS.row("CumSum", "CumProd")
def running(t: Translator, n: Node, x: Value, axis: Value) -> Any:
    (place,) = t.ints(axis, "axis")
    flags = {"exclusive": bool(n.attr("exclusive")), "reverse": bool(n.attr("reverse"))}
    return t.cast(t.op(n.op_type.lower(), x, axis=place, **flags), t.dtype(x))


@ROWS.row("ai.onnx.ml::Binarizer")
def binarizer(t: Translator, n: Node, x: Value) -> Any:
    return t.cast(t.op("greater", x, n.attr("threshold")), t.dtype(x))
