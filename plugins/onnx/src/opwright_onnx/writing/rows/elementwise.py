"""Rows of elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import helper

from opwright_onnx.dtypes import element_type, numpy_dtype
from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.values import FLOATS
from opwright_onnx.writing.writer import Op, Writer

ROWS = Rows()

_BINARY = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "maximum": "Max",
    "minimum": "Min",
    "power": "Pow",
    "prelu": "PRelu",
}
_LOGICAL = {
    "logical_and": "And",
    "logical_not": "Not",
    "logical_or": "Or",
    "logical_xor": "Xor",
}
_UNARY = {
    "isinf": "IsInf",
    "relu": "Relu",
    "selu": "Selu",
    "sign": "Sign",
}


@ROWS.row(*_BINARY)
def binary(w: Writer, op: Op) -> Any:
    other = "weight" if op.type == "prelu" else "y"
    return w.node(_BINARY[op.type], w.input(op, "x"), w.input(op, other))


@ROWS.row(*_LOGICAL)
def logical(w: Writer, op: Op) -> Any:
    slots = ("x",) if op.type == "logical_not" else ("x", "y")
    return w.node(_LOGICAL[op.type], *(w.cast(w.input(op, slot), "bool") for slot in slots))


@ROWS.row(*_UNARY)
def unary(w: Writer, op: Op) -> Any:
    return w.node(_UNARY[op.type], w.input(op, "x"))


@ROWS.row("assign", "dropout")
def same(w: Writer, op: Op) -> Any:
    return w.input(op, "x")


@ROWS.row("assert_true")
def nothing(w: Writer, op: Op) -> Any:
    return ()


@ROWS.row("not_equal")
def not_equal(w: Writer, op: Op) -> Any:
    return w.node("Not", w.node("Equal", w.input(op, "x"), w.input(op, "y")))


@ROWS.row("divide")
def divide(w: Writer, op: Op) -> Any:
    dtype = w.dtype(op, "out")
    return w.node("Div", *(w.cast(w.input(op, slot), dtype) for slot in ("x", "y")))


@ROWS.row("floor_divide")
def floor_divide(w: Writer, op: Op) -> Any:
    x, y, dtype = w.input(op, "x"), w.input(op, "y"), w.dtype(op)
    if dtype in FLOATS:
        return w.node("Floor", w.node("Div", x, y))
    return _by_whole(w, y, lambda divisor: _quotient(w, x, divisor, dtype))


def _by_whole(w: Writer, y: str, write: Callable[[str], str]) -> str:
    """Emit an integer division that returns 0 for divisor 0; dividing by 0 can crash a runtime."""
    if y in w.arrays and w.arrays[y].all():
        return write(y)
    # Uses sums and products, since ONNX Runtime lacks Where for narrow integers.
    is_zero = w.cast(w.node("Equal", y, w.number(0, y)), str(w.dtypes[y]))
    found = write(w.node("Add", y, is_zero))
    return str(w.node("Mul", found, w.node("Sub", w.number(1, y), is_zero)))


def _quotient(w: Writer, x: str, y: str, dtype: str) -> str:
    quotient = str(w.node("Div", x, y))
    if dtype.startswith("uint"):
        return quotient
    rest, zero = w.node("Sub", x, w.node("Mul", quotient, y)), w.number(0, x)
    is_below = w.node("Xor", w.node("Less", rest, zero), w.node("Less", y, zero))
    is_rest = w.node("Not", w.node("Equal", rest, zero))
    return str(w.node("Sub", quotient, w.cast(w.node("And", is_rest, is_below), dtype)))


@ROWS.row("mod")
def mod(w: Writer, op: Op) -> Any:
    x, y = w.input(op, "x"), w.input(op, "y")
    if w.dtype(op) not in FLOATS:
        return _by_whole(w, y, lambda divisor: w.node("Mod", x, divisor))
    rest, zero = w.node("Mod", x, y, fmod=1), w.number(0, x)
    is_other = w.node("Xor", w.node("Less", rest, zero), w.node("Less", y, zero))
    is_rest = w.node("Not", w.node("Equal", rest, zero))
    return w.node("Where", w.node("And", is_rest, is_other), w.node("Add", rest, y), rest)


@ROWS.row("fmod")
def fmod(w: Writer, op: Op) -> Any:
    x, y = w.input(op, "x"), w.input(op, "y")
    if w.dtype(op) in FLOATS:
        return w.node("Mod", x, y, fmod=1)
    return _by_whole(w, y, lambda divisor: w.node("Mod", x, divisor, fmod=1))


@ROWS.row("pow_scalar")
def pow_scalar(w: Writer, op: Op) -> Any:
    x = w.input(op, "x")
    return w.node("Pow", x, w.number(op.attrs["exponent"], x))


@ROWS.row("square")
def square(w: Writer, op: Op) -> Any:
    x = w.input(op, "x")
    return w.node("Mul", x, x)


@ROWS.row("rsqrt")
def rsqrt(w: Writer, op: Op) -> Any:
    return w.node("Reciprocal", w.node("Sqrt", w.input(op, "x")))


@ROWS.row("silu", "swish")
def swish(w: Writer, op: Op) -> Any:
    x, beta = w.input(op, "x"), op.attrs.get("beta", 1.0)
    scaled = x if beta == 1 else w.node("Mul", x, w.number(beta, x))
    return w.node("Mul", x, w.node("Sigmoid", scaled))


@ROWS.row("softplus")
def softplus(w: Writer, op: Op) -> Any:
    x, beta = w.input(op, "x"), op.attrs["beta"]
    if op.attrs["threshold"] != math.inf:
        raise DeclinedError("ONNX's Softplus has no threshold")
    if beta == 1:
        return w.node("Softplus", x)
    number = w.number(beta, x)
    return w.node("Div", w.node("Softplus", w.node("Mul", x, number)), number)


@ROWS.row("log_sigmoid")
def log_sigmoid(w: Writer, op: Op) -> Any:
    return w.node("Neg", w.node("Softplus", w.node("Neg", w.input(op, "x"))))


@ROWS.row("hard_shrink", "soft_shrink")
def shrink(w: Writer, op: Op) -> Any:
    limit = float(op.attrs["threshold"])
    bias = limit if op.type == "soft_shrink" else 0.0
    return w.node("Shrink", w.input(op, "x"), lambd=limit, bias=bias)


@ROWS.row("clip", "relu6")
def clip(w: Writer, op: Op) -> Any:
    x, dtype = w.input(op, "x"), w.dtype(op)
    low, high = op.attrs.get("min", 0.0), op.attrs.get("max", 6.0)
    if dtype not in FLOATS:
        least, most = np.iinfo(numpy_dtype(dtype)).min, np.iinfo(numpy_dtype(dtype)).max
        if high < least or low > most:
            raise DeclinedError("the interval from min to max must overlap the range of the dtype")
        low = least if low <= least else math.ceil(low)
        high = most if high >= most else math.floor(high)
    lower = "" if low == -math.inf else w.number(low, x)
    upper = "" if high == math.inf else w.number(high, x)
    return w.node("Clip", x, lower, upper) if lower or upper else x


@ROWS.row("scale")
def scale(w: Writer, op: Op) -> Any:
    x = w.input(op, "x")
    found = w.node("Mul", x, w.number(op.attrs["scale"], x))
    return w.node("Add", found, w.number(op.attrs["bias"], x)) if op.attrs["bias"] else found


@ROWS.row("increment")
def increment(w: Writer, op: Op) -> Any:
    x = w.input(op, "x")
    return w.node("Add", x, w.number(op.attrs["step"], x))


@ROWS.row("add_n")
def add_n(w: Writer, op: Op) -> Any:
    return w.node("Sum", *w.inputs(op, "x"))


@ROWS.row("isfinite")
def isfinite(w: Writer, op: Op) -> Any:
    x = w.input(op, "x")
    return w.node("Not", w.node("Or", w.node("IsInf", x), w.node("IsNaN", x)))


@ROWS.row("left_shift", "right_shift")
def shift(w: Writer, op: Op) -> Any:
    x, y, dtype = w.input(op, "x"), w.input(op, "y"), w.dtype(op)
    direction = "LEFT" if op.type == "left_shift" else "RIGHT"
    if dtype.startswith("uint"):
        return w.node("BitShift", x, y, direction=direction)
    # Negative signed integers are bitwise inverted before and after the shift.
    is_below = w.node("Less", x, w.number(0, x))
    bits = w.node("Where", is_below, w.node("BitwiseNot", x), x) if direction == "RIGHT" else x
    bits, y = w.cast(bits, f"u{dtype}"), w.cast(y, f"u{dtype}")
    found = w.cast(w.node("BitShift", bits, y, direction=direction), dtype)
    if direction == "LEFT":
        return found
    return w.node("Where", is_below, w.node("BitwiseNot", found), found)


@ROWS.row("log1p")
def log1p(w: Writer, op: Op) -> Any:
    x = w.input(op, "x")
    one = w.number(1, x)
    more = w.node("Add", x, one)
    # Correct the rounding error of 1 + x, unless x is too small to change 1 or too large for 1 to
    # change x.
    ratio = w.node("Div", x, w.node("Sub", more, one))
    logarithm = w.node("Log", more)
    small = w.node("Where", w.node("Equal", more, one), x, w.node("Mul", logarithm, ratio))
    return w.node("Where", w.node("Equal", more, x), logarithm, small)


@ROWS.row("expm1")
def expm1(w: Writer, op: Op) -> Any:
    x = w.input(op, "x")
    half = w.node("Tanh", w.node("Mul", x, w.number(0.5, x)))
    small = w.node("Mul", half, w.node("Add", w.node("Exp", x), w.number(1, x)))
    is_small = w.node("Less", w.node("Abs", x), w.number(1, x))
    return w.node("Where", is_small, small, w.node("Sub", w.node("Exp", x), w.number(1, x)))


@ROWS.row("softmax", "log_softmax")
def softmax(w: Writer, op: Op) -> Any:
    name = "Softmax" if op.type == "softmax" else "LogSoftmax"
    return w.node(name, w.input(op, "x"), axis=op.attrs["axis"])


@ROWS.row("cumsum", "cumprod")
def running(w: Writer, op: Op) -> Any:
    x = w.cast(w.input(op, "x"), w.dtype(op, "out"))
    axis = op.attrs["axis"]
    flags: dict[str, Any] = {n: int(op.attrs[n]) for n in ("exclusive", "reverse")}
    if op.type == "cumsum":
        return w.node("CumSum", x, w.const(axis, "int64"), **flags)
    if w.opset >= 26:
        return w.node("CumProd", x, w.const(axis, "int64"), **flags)
    return _running_product(w, op, x)


def _running_product(w: Writer, op: Op, x: str) -> Any:
    """Emit a cumulative product as a Scan, for opsets without CumProd."""
    dtype, rank = w.dtype(op, "out"), len(w.shape(op))
    if not rank:
        raise DeclinedError("x must have an axis")
    if 0 in w.shape(op):
        return x
    axis, turned = op.attrs["axis"] % rank, int(op.attrs["reverse"])
    before, factor, after, out = (w.take(n) for n in ("before", "factor", "after", "out"))
    product = helper.make_node("Mul", [before, factor], [after])
    each = helper.make_node("Identity", [before if op.attrs["exclusive"] else after], [out])
    infos = [
        helper.make_tensor_value_info(n, element_type(dtype), None)
        for n in (before, factor, after, out)
    ]
    body = helper.make_graph([product, each], "product", infos[:2], infos[2:])
    sizes = w.node("Shape", x)
    kept = w.node("Gather", sizes, w.ints(i for i in range(rank) if i != axis), axis=0)
    one = w.tensor(np.ones(1, numpy_dtype(dtype)))
    start = w.node("ConstantOfShape", kept, value=one, dtype=dtype)
    places: dict[str, Any] = {"scan_input_axes": [axis], "scan_output_axes": [axis]}
    turns: dict[str, Any] = {"scan_input_directions": [turned], "scan_output_directions": [turned]}
    found = w.node("Scan", start, x, outputs=2, body=body, num_scan_inputs=1, **places, **turns)
    return found[1]
