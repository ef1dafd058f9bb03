"""Rows of elementwise losses, and of other operators that are composed of a few nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.table import Rows
from opwright_onnx.writing.writer import Op, Writer

ROWS = Rows()


def _difference(w: Writer, op: Op, other: str = "label") -> str:
    return str(w.node("Sub", w.input(op, "x"), w.input(op, other)))


@ROWS.row("mse", "squared_difference")
def squared(w: Writer, op: Op) -> Any:
    found = _difference(w, op, "y" if op.type == "squared_difference" else "label")
    return w.node("Mul", found, found)


@ROWS.row("l1")
def absolute(w: Writer, op: Op) -> Any:
    return w.node("Abs", _difference(w, op))


@ROWS.row("smooth_l1", "huber")
def round_bottom(w: Writer, op: Op) -> Any:
    size = w.node("Abs", _difference(w, op))
    limit = op.attrs["beta"] if op.type == "smooth_l1" else op.attrs["delta"]
    if limit <= 0:
        return size if op.type == "smooth_l1" else w.node("Mul", size, w.number(0, size))
    factor = limit if op.type == "huber" else 1.0
    near = w.node("Mul", w.node("Mul", size, size), w.number(factor / limit / 2, size))
    far = w.node("Sub", size, w.number(limit / 2, size))
    far = w.node("Mul", far, w.number(factor, size)) if factor != 1 else far
    return w.node("Where", w.node("Less", size, w.number(limit, size)), near, far)


@ROWS.row("sigmoid_cross_entropy_with_logits")
def sigmoid_loss(w: Writer, op: Op) -> Any:
    x, label = w.input(op, "x"), w.input(op, "label")
    least = w.node("Sub", w.node("Max", x, w.number(0, x)), w.node("Mul", x, label))
    return w.node("Add", least, w.node("Softplus", w.node("Neg", w.node("Abs", x))))


@ROWS.row("kl_div")
def divergence(w: Writer, op: Op) -> Any:
    x, label = w.input(op, "x"), w.input(op, "label")
    if op.attrs["log_label"]:
        return w.node("Mul", w.node("Exp", label), w.node("Sub", label, x))
    zero = w.number(0, label)
    found = w.node("Mul", label, w.node("Sub", w.node("Log", label), x))
    return w.node("Where", w.node("Equal", label, zero), zero, found)


@ROWS.row("hinge")
def hinge(w: Writer, op: Op) -> Any:
    x = w.input(op, "x")
    margin = w.node("Sub", w.number(1, x), w.node("Mul", x, w.input(op, "label")))
    return w.node("Max", margin, w.number(0, x))


@ROWS.row("log_loss")
def log_loss(w: Writer, op: Op) -> Any:
    x, label = w.input(op, "x"), w.input(op, "label")
    one, small = w.number(1, x), w.number(op.attrs["epsilon"], x)
    yes = w.node("Mul", label, w.node("Log", w.node("Add", x, small)))
    rest = w.node("Add", w.node("Sub", one, x), small)
    no = w.node("Mul", w.node("Sub", one, label), w.node("Log", rest))
    return w.node("Neg", w.node("Add", yes, no))


@ROWS.row("lerp")
def lerp(w: Writer, op: Op) -> Any:
    x = w.input(op, "x")
    way = w.node("Sub", w.input(op, "y"), x)
    return w.node("Add", x, w.node("Mul", w.input(op, "weight"), way))


@ROWS.row("tanh_shrink")
def tanh_shrink(w: Writer, op: Op) -> Any:
    x = w.input(op, "x")
    return w.node("Sub", x, w.node("Tanh", x))


@ROWS.row("stanh")
def stanh(w: Writer, op: Op) -> Any:
    x = w.input(op, "x")
    inner = w.node("Tanh", w.node("Mul", x, w.number(op.attrs["scale_a"], x)))
    return w.node("Mul", inner, w.number(op.attrs["scale_b"], x))


@ROWS.row("soft_relu")
def soft_relu(w: Writer, op: Op) -> Any:
    x, limit = w.input(op, "x"), op.attrs["threshold"]
    return w.node("Softplus", w.node("Clip", x, w.number(-limit, x), w.number(limit, x)))


@ROWS.row("log2", "log10")
def logarithm(w: Writer, op: Op) -> Any:
    x = w.cast(w.input(op, "x"), w.dtype(op, "out"))
    base = math.log(2 if op.type == "log2" else 10)
    return w.node("Div", w.node("Log", x), w.number(base, x))


@ROWS.row("nan_to_num")
def nan_to_num(w: Writer, op: Op) -> Any:
    x = w.input(op, "x")
    least, most = op.attrs["neginf"], op.attrs["posinf"]
    info = np.finfo(w.dtype(op)) if w.dtype(op) in ("float16", "float32", "float64") else None
    if info is None:
        raise DeclinedError("x must be float16, float32 or float64")
    low = w.number(max(float(info.min), least), x)
    high = w.number(min(float(info.max), most), x)
    finite = w.node("Where", w.node("IsNaN", x), w.number(op.attrs["nan"], x), x)
    up = w.node("Where", w.node("IsInf", x, detect_negative=0), high, finite)
    return w.node("Where", w.node("IsInf", x, detect_positive=0), low, up)


@ROWS.row("rotary_embedding")
def rotary(w: Writer, op: Op) -> Any:
    x, shape, half = w.input(op, "x"), w.shape(op), w.shape(op, "cos")[1]
    rank, size = len(shape), shape[-1]
    if half < 0 or size < 0:
        raise DeclinedError("the head size must be known")
    tables = [_rows_of(w, op, slot, rank) for slot in ("cos", "sin")]
    last = w.ints([-1])
    if op.attrs["interleaved"]:
        bounds = [(i, 2 * half, 2) for i in range(2)]
    else:
        bounds = [(0, half, 1), (half, 2 * half, 1)]
    a, b = (w.node("Slice", x, *(w.ints([n]) for n in (i, j, -1, s))) for i, j, s in bounds)
    real = w.node("Sub", w.node("Mul", a, tables[0]), w.node("Mul", b, tables[1]))
    other = w.node("Add", w.node("Mul", b, tables[0]), w.node("Mul", a, tables[1]))
    if op.attrs["interleaved"]:
        pairs = [w.node("Unsqueeze", part, last) for part in (real, other)]
        turned = w.node("Concat", *pairs, axis=-1)
        sizes = w.node("Concat", w.node("Shape", x, end=rank - 1), w.ints([2 * half]), axis=0)
        parts = [w.node("Reshape", turned, sizes)]
    else:
        parts = [real, other]
    if size > 2 * half:
        parts.append(w.node("Slice", x, w.ints([2 * half]), w.ints([size]), last))
    return w.node("Concat", *parts, axis=-1) if len(parts) > 1 else parts[0]


def _rows_of(w: Writer, op: Op, slot: str, rank: int) -> str:
    """Gather the table rows at the positions, [t, half] or [n, ..., t, half]."""
    table, index = w.input(op, slot), w.input(op, "index")
    if not index:
        count = w.node("Shape", w.input(op, "x"), start=rank - 2, end=rank - 1)
        return str(w.node("Slice", table, w.ints([0]), count, w.ints([0])))
    found = str(w.node("Gather", table, index, axis=0))
    if len(w.shape(op, "index")) == 2 and rank > 3:
        return str(w.node("Unsqueeze", found, w.ints(range(1, rank - 2))))
    return found
